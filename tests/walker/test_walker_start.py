"""Walkers that begin with the parameters of others: to learn on, or to answer in another way."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.run import Run
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.recording import record
from hopwalk.utils.arrays import ArrayFile
from tests.support.commands import command, mistake
from tests.support.helpers import FAMILY, dataset_of
from tests.support.stopping import results_of
from tests.support.villages import SET, VILLAGE, settings_of


def weights_of(run: Run) -> dict[str, np.ndarray]:
    file = ArrayFile(run.weights_path, kind="weights")
    return {name: file.array(name) for name in file.names}


def test_without_epochs_only_how_it_answers_changes(trained_walker: Run, tmp_path: Path):
    settings = settings_of({"walker.epochs": 0, "walk.beam": 1})
    run = api.train(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "narrow")
    for name, array in weights_of(trained_walker).items():
        np.testing.assert_array_equal(weights_of(run)[name], array)
    assert (run.about["status"], run.about["epochs"], run.about["best_epoch"]) == ("finished", 0, 0)
    begun = run.about["started_from"]
    assert (begun["folder"], begun["epochs"]) == (trained_walker.path.name, trained_walker.about["epochs"])
    assert Run.open(run.path / "scorer").about == Run.open(trained_walker.path / "scorer").about
    assert "| begun with | the walker of" in (run.path / "card.md").read_text()
    found = api.evaluate_walker(run.path, "valid")["paths"]
    assert [record["epoch"] for record in run.history] == [0]
    assert run.about["valid_mrr"] == run.history[0]["valid_mrr"] == found.tails.mrr
    assert found.tails.unreached > api.evaluate_walker(trained_walker.path, "valid")["paths"].tails.unreached


def test_it_learns_on_from_there_and_keeps_the_best(trained_walker: Run, tmp_path: Path):
    wild = settings_of({"walker.epochs": 2, "walker.learning_rate": 10.0})
    run = api.train(VILLAGE, wild, start=trained_walker.path, out=tmp_path / "wild")
    mrrs = [record["valid_mrr"] for record in run.history]
    assert [record["epoch"] for record in run.history] == [0, 1, 2]
    assert (run.about["best_epoch"], run.about["valid_mrr"]) == (mrrs.index(max(mrrs)), max(mrrs))
    assert mrrs[0] == trained_walker.about["valid_mrr"]


def test_a_run_that_is_stopped_at_once_goes_on_to_the_same_result(
    trained_walker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = settings_of({"walker.epochs": 2})
    whole = api.train(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "whole")
    folder = tmp_path / "stopped"
    with monkeypatch.context() as stopped:
        stopped.setattr("hopwalk.walker.runs.train", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            api.train(VILLAGE, settings, start=trained_walker.path, out=folder)
    run = api.train(VILLAGE, settings, out=folder, resume=True)
    assert results_of(run) == results_of(whole)


def test_a_run_that_was_killed_before_its_checkpoint_needs_its_start_again(
    trained_walker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings, folder = settings_of({"walker.epochs": 1}), tmp_path / "killed"
    with monkeypatch.context() as killed:
        killed.setattr("hopwalk.walker.runs.begin_with", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            api.train(VILLAGE, settings, start=trained_walker.path, out=folder)
    with pytest.raises(RunError, match="begun with other parameters"):
        api.train(VILLAGE, settings, out=folder, resume=True)
    assert api.train(VILLAGE, settings, start=trained_walker.path, out=folder, resume=True).about["status"] == "finished"
    other = api.train(VILLAGE, settings, start=folder, out=tmp_path / "other")
    assert other.about["started_from"]["epochs"] == trained_walker.about["epochs"] + 1
    stranger = api.train(VILLAGE, settings_of({"walker.epochs": 1, "walker.seed": 5}), out=tmp_path / "stranger")
    with pytest.raises(RunError, match="begun with other parameters"):
        api.train(VILLAGE, settings, start=stranger.path, out=folder, resume=True)


def test_a_run_that_is_killed_goes_on_with_the_scorer_that_was_given(
    trained_walker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = changed(settings_of({"walker.epochs": 1}), {"scorer.model": "distmult"})
    scorer = api.train_scorer(VILLAGE, other, out=tmp_path / "distmult")
    settings, folder = settings_of({"walker.epochs": 1}), tmp_path / "run"
    with monkeypatch.context() as killed:
        killed.setattr("hopwalk.walker.runs.train", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            api.train(VILLAGE, settings, start=trained_walker.path, scorer=scorer.path, out=folder)
    assert api.train(VILLAGE, settings, out=folder, resume=True).about["status"] == "finished"
    assert Run.open(folder / "scorer").settings.scorer.model == "distmult"


def test_a_start_is_known_by_its_weights_wherever_it_is(trained_walker: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings, moved = settings_of({"walker.epochs": 1}), tmp_path / "moved"
    run = api.train(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "run")
    shutil.copytree(trained_walker.path, moved)
    assert api.train(VILLAGE, settings, start=moved, out=run.path, resume=True).about == run.about
    monkeypatch.chdir(moved)
    here = api.train(VILLAGE, settings, start=Path(), out=tmp_path / "here")
    assert here.about["started_from"]["folder"] == "moved"
    with pytest.raises(RunError, match="other parameters"):  # begun with none
        api.train(VILLAGE, trained_walker.settings, start=moved, out=trained_walker.path, resume=True)


def test_a_walker_that_trained_on_dev_is_not_ranked_on_it(trained_walker: Run, tmp_path: Path):
    learnt = {"walker.epochs": 1, "walker.train_on_valid": True}
    run = api.train(VILLAGE, settings_of(learnt), scorer=trained_walker.path / "scorer", out=tmp_path / "learnt")
    with pytest.raises(RunError, match="has learnt the dev facts"):
        api.train(VILLAGE, settings_of({"walker.epochs": 0}), start=run.path, out=tmp_path / "leak")
    again = api.train(VILLAGE, settings_of(learnt | {"walker.epochs": 0}), start=run.path, out=tmp_path / "again")
    assert again.about["valid_mrr"] is None


def test_a_scorer_that_trained_on_dev_is_for_walkers_that_have(tmp_path: Path):
    learnt = {"scorer.epochs": 1, "scorer.train_on_valid": True}
    scorer = api.train_scorer(VILLAGE, settings_of(learnt), out=tmp_path / "scorer")
    for given in (scorer.path, None):
        with pytest.raises(RunError, match="this scorer has learnt the dev facts"):
            api.train(VILLAGE, settings_of(learnt | {"walker.epochs": 1}), scorer=given, out=tmp_path / "leak")
    settings = settings_of(learnt | {"walker.epochs": 1, "walker.train_on_valid": True})
    assert api.train(VILLAGE, settings, scorer=scorer.path, out=tmp_path / "both").about["valid_mrr"] is None


def test_what_cannot_be_begun_with(trained_walker: Run, tmp_path: Path):
    def begun(start: Path, changes: dict[str, int] | None = None) -> Run:
        return api.train(VILLAGE, settings_of(changes), start=start, out=tmp_path / "run")

    with pytest.raises(RunError, match="not a walker"):
        begun(trained_walker.path / "scorer")
    with pytest.raises(RunError, match="there is no such folder"):
        begun(tmp_path / "nowhere")
    with pytest.raises(RunError, match="other data"):
        api.train(dataset_of(FAMILY), settings_of({}), start=trained_walker.path, out=tmp_path / "run")
    with pytest.raises(RunError, match=r"has other settings \(.*has another shape than the model's") as told:
        begun(trained_walker.path, {"walker.history_dimension": 7})
    assert told.value.remedy.endswith(f"--preset {trained_walker.path / 'settings.toml'}")
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError, match="nothing to train in 0 epochs"):
        api.train(VILLAGE, settings_of({"walker.epochs": 0}), out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_ledger_says_what_it_took_altogether(trained_walker: Run, tmp_path: Path):
    run = api.train(VILLAGE, settings_of({"walker.epochs": 1}), start=trained_walker.path, out=tmp_path / "village-on-0")
    written = json.loads(record(run.path, Ledger(tmp_path / "ledger")).read_text())
    assert written["started_from"] == run.about["started_from"]
    assert written["epochs"] == trained_walker.about["epochs"] + 1
    assert written["training_seconds"] == pytest.approx(run.about["seconds"] + trained_walker.about["seconds"])
    assert f" --reward COMPLEX --start {trained_walker.path.name} " in written["command"]
    (result,) = Ledger(tmp_path / "ledger").results
    assert result.started_from == run.about["started_from"]["weights_sha256"]


def test_from_the_command_line(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    start = ["--start", str(trained_walker.path)]
    printed = command(capsys, "train", "village", *SET, *start, "--epochs", "0", "--set", "walk.beam=4", "--out", "narrow")
    assert "narrow: finished after 0 epochs; dev MRR" in printed.out
    assert "needs about" not in printed.err
    assert Run.open("narrow").settings.walk.beam == 4
    assert "--reward is the folder of a scorer" in mistake(capsys, "train", "village", *SET, *start, "--reward", "conve")
    assert "--start is for walkers" in mistake(capsys, "train", "village", "--scorer", "complex", *start)
    assert "nothing to train in 0 epochs" in mistake(capsys, "train", "village", *SET, "--epochs", "0", "--out", "none")
    told = command(capsys, "train", "village", *SET, "--start", "nowhere", "--out", "none", code=1).err
    assert "there is no such folder" in told and "needs about" not in told  # the mistake, and nothing before it
