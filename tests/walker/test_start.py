"""Walkers that start with the parameters of others: to be trained further, or to answer in another way."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.recording import record
from hopwalk.utils.arrays import ArrayFile
from tests.support.commands import command, mistake
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import StopAt, Stopped, results_of, watching
from tests.support.villages import PLAIN_SET, VILLAGE, settings_of, train_walker


def weights_of(run: Run) -> dict[str, np.ndarray]:
    file = ArrayFile(run.weights_path, kind="weights")
    return {name: file.array(name) for name in file.names}


def test_without_epochs_only_the_decoding_changes(trained_walker: Run, tmp_path: Path):
    settings = settings_of({"walker.epochs": 0, "walk.beam": 1})
    run = train_walker(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "narrow")
    for name, array in weights_of(trained_walker).items():
        np.testing.assert_array_equal(weights_of(run)[name], array)
    assert (run.about["status"], run.about["epochs"], run.about["best_epoch"]) == ("finished", 0, 0)
    start = run.about["started_from"]
    assert (start["folder"], start["epochs"]) == (trained_walker.path.name, trained_walker.about["epochs"])
    assert Run.open(run.path / "scorer").about == Run.open(trained_walker.path / "scorer").about
    assert "| started from | the walker of" in (run.path / "card.md").read_text()
    found = api.evaluate(run.path, "valid")["policy"]
    assert [record["epoch"] for record in run.history] == [0]
    assert run.about["valid_mrr"] == run.history[0]["valid_mrr"] == found.tails.mrr
    assert found.tails.unreached > api.evaluate(trained_walker.path, "valid")["policy"].tails.unreached


def test_training_continues_and_the_best_epoch_is_kept(trained_walker: Run, tmp_path: Path):
    wild = settings_of({"walker.epochs": 2, "walker.learning_rate": 10.0})
    run = train_walker(VILLAGE, wild, start=trained_walker.path, out=tmp_path / "wild")
    mrrs = [record["valid_mrr"] for record in run.history]
    assert [record["epoch"] for record in run.history] == [0, 1, 2]
    assert (run.about["best_epoch"], run.about["valid_mrr"]) == (mrrs.index(max(mrrs)), max(mrrs))
    assert mrrs[0] == trained_walker.about["valid_mrr"]


def test_an_interrupted_walker_can_be_started_from(trained_walker: Run, tmp_path: Path):
    stop = watching("walker", StopAt(3, 1, KeyboardInterrupt))
    interrupted = train_walker(VILLAGE, trained_walker.settings, out=tmp_path / "interrupted", make_callbacks=stop)
    assert (interrupted.status, interrupted.about["epochs"]) == ("interrupted", 2)
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), start=interrupted.path, out=tmp_path / "run")
    assert (run.status, run.about["started_from"]["epochs"]) == ("finished", 2)
    assert run.history[0]["valid_mrr"] == interrupted.about["valid_mrr"]
    assert Run.open(run.path / "scorer").about == Run.open(interrupted.path / "scorer").about


def test_a_walker_without_weights_cannot_be_started_from(trained_walker: Run, tmp_path: Path):
    stop = watching("scorer", StopAt(2, 1, KeyboardInterrupt))  # before the walker's training has begun
    begun = train_walker(VILLAGE, trained_walker.settings, out=tmp_path / "begun", make_callbacks=stop)
    with pytest.raises(RunError, match=r"this walker has no weights yet\. Resume its training first"):
        train_walker(VILLAGE, settings_of({"walker.epochs": 1}), start=begun.path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


AT_ONCE = StopAt(0, 0)  # when the parameters to start with have been evaluated


def test_a_run_that_is_stopped_at_once_is_resumed_to_the_same_result(trained_walker: Run, tmp_path: Path):
    settings, folder = settings_of({"walker.epochs": 2}), tmp_path / "stopped"
    whole = train_walker(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        train_walker(VILLAGE, settings, start=trained_walker.path, out=folder, make_callbacks=watching("walker", AT_ONCE))
    run = train_walker(VILLAGE, settings, out=folder, resume=True)
    assert results_of(run) == results_of(whole)


def test_a_run_killed_before_its_checkpoint_needs_its_start_again(trained_walker: Run, tmp_path: Path):
    def stop(_: TrainingPlan) -> list[Callback]:
        raise Stopped

    settings, folder = settings_of({"walker.epochs": 1}), tmp_path / "killed"
    with pytest.raises(Stopped):
        train_walker(VILLAGE, settings, start=trained_walker.path, out=folder, make_callbacks=stop)
    assert not Run.open(folder).checkpoint_path.exists()
    with pytest.raises(RunError, match="begun with other parameters"):
        train_walker(VILLAGE, settings, out=folder, resume=True)
    assert train_walker(VILLAGE, settings, start=trained_walker.path, out=folder, resume=True).is_finished
    other = train_walker(VILLAGE, settings, start=folder, out=tmp_path / "other")
    assert other.about["started_from"]["epochs"] == trained_walker.about["epochs"] + 1
    unrelated = train_walker(VILLAGE, settings_of({"walker.epochs": 1, "walker.seed": 5}), out=tmp_path / "unrelated")
    with pytest.raises(RunError, match="begun with other parameters"):
        train_walker(VILLAGE, settings, start=unrelated.path, out=folder, resume=True)


def test_a_killed_run_is_resumed_with_the_scorer_that_was_given(trained_walker: Run, tmp_path: Path):
    other = changed(settings_of({"walker.epochs": 1}), {"scorer.model": "distmult"})
    scorer = api.train_scorer(VILLAGE, other, out=tmp_path / "distmult")
    settings, folder = settings_of({"walker.epochs": 1}), tmp_path / "run"
    with pytest.raises(Stopped):
        stop = watching("walker", AT_ONCE)
        train_walker(VILLAGE, settings, start=trained_walker.path, scorer=scorer.path, out=folder, make_callbacks=stop)
    assert train_walker(VILLAGE, settings, out=folder, resume=True).is_finished
    assert Run.open(folder / "scorer").settings.scorer.model == "distmult"


def test_a_start_is_identified_by_its_weights(trained_walker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings, moved = settings_of({"walker.epochs": 1}), tmp_path / "moved"
    run = train_walker(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "run")
    shutil.copytree(trained_walker.path, moved)
    assert train_walker(VILLAGE, settings, start=moved, out=run.path, resume=True).about == run.about
    monkeypatch.chdir(moved)
    here = train_walker(VILLAGE, settings, start=Path(), out=tmp_path / "here")
    assert here.about["started_from"]["folder"] == "moved"
    with pytest.raises(RunError, match="other parameters"):  # it started from no other run
        train_walker(VILLAGE, trained_walker.settings, start=moved, out=trained_walker.path, resume=True)


def test_a_walker_trained_on_dev_cannot_be_selected_on_dev(trained_walker: Run, tmp_path: Path):
    on_dev = {"walker.epochs": 1, "walker.train_on_valid": True}
    run = train_walker(VILLAGE, settings_of(on_dev), scorer=trained_walker.path / "scorer", out=tmp_path / "on-dev")
    with pytest.raises(RunError, match="this walker was trained on the dev set"):
        train_walker(VILLAGE, settings_of({"walker.epochs": 0}), start=run.path, out=tmp_path / "leak")
    again = train_walker(VILLAGE, settings_of(on_dev | {"walker.epochs": 0}), start=run.path, out=tmp_path / "again")
    assert again.about["valid_mrr"] is None


def test_a_scorer_trained_on_dev_needs_a_walker_trained_on_dev(tmp_path: Path):
    on_dev = {"scorer.epochs": 1, "scorer.train_on_valid": True}
    scorer = api.train_scorer(VILLAGE, settings_of(on_dev), out=tmp_path / "scorer")
    for given in (scorer.path, None):
        with pytest.raises(RunError, match="this scorer was trained on the dev set"):
            train_walker(VILLAGE, settings_of(on_dev | {"walker.epochs": 1}), scorer=given, out=tmp_path / "leak")
    settings = settings_of(on_dev | {"walker.epochs": 1, "walker.train_on_valid": True})
    assert train_walker(VILLAGE, settings, scorer=scorer.path, out=tmp_path / "both").about["valid_mrr"] is None


def test_runs_that_cannot_be_started_from(trained_walker: Run, tmp_path: Path):
    def train_from(start: Path, changes: dict[str, int] | None = None) -> Run:
        return train_walker(VILLAGE, settings_of(changes), start=start, out=tmp_path / "run")

    with pytest.raises(RunError, match="not a walker"):
        train_from(trained_walker.path / "scorer")
    with pytest.raises(RunError, match="there is no such folder"):
        train_from(tmp_path / "nowhere")
    with pytest.raises(RunError, match="other data"):
        train_walker(dataset_of(FAMILY), settings_of({}), start=trained_walker.path, out=tmp_path / "run")
    with pytest.raises(RunError, match=r"has other settings \(.*is not that of the model") as raised:
        train_from(trained_walker.path, {"walker.history_dimension": 7})
    assert raised.value.remedy.endswith(str(trained_walker.path / "settings.toml"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError, match="nothing to train in 0 epochs"):
        train_walker(VILLAGE, settings_of({"walker.epochs": 0}), out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_ledger_has_the_cost_of_both_trainings(trained_walker: Run, tmp_path: Path):
    run = train_walker(VILLAGE, settings_of({"walker.epochs": 1}), start=trained_walker.path, out=tmp_path / "village-on-0")
    written = json.loads(record(run.path, Ledger(tmp_path / "ledger")).read_text())
    assert written["started_from"] == run.about["started_from"]
    assert written["epochs"] == trained_walker.about["epochs"] + 1
    assert written["training_seconds"] == pytest.approx(run.about["seconds"] + trained_walker.about["seconds"])
    assert f" --reward COMPLEX --start {trained_walker.path.name} " in written["command"]
    (result,) = Ledger(tmp_path / "ledger").results
    assert result.started_from == run.about["started_from"]["weights_sha256"]


def test_from_the_command_line(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    start = ["--start", str(trained_walker.path)]
    printed = command(capsys, "train", "village", *PLAIN_SET, *start, "--epochs", "0", "--set", "walk.beam=4", "--out", "narrow")
    assert "narrow: finished after 0 epochs; in 10 questions with a known answer, the right one is first in " in printed.out
    assert "needs about" not in printed.err
    assert Run.open("narrow").settings.walk.beam == 4
    assert "--reward must be the run folder of a scorer" in mistake(
        capsys, "train", "village", *PLAIN_SET, *start, "--reward", "conve"
    )
    assert "--start is for walkers" in mistake(capsys, "train", "village", "--scorer", "complex", *start)
    assert "nothing to train in 0 epochs" in mistake(capsys, "train", "village", *PLAIN_SET, "--epochs", "0", "--out", "none")
    error = command(capsys, "train", "village", *PLAIN_SET, "--start", "nowhere", "--out", "none", code=1).err
    assert "there is no such folder" in error and "needs about" not in error  # the error, and nothing before it
