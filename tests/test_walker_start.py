"""Walkers that begin with the parameters of others: to learn on, or to answer in another way."""

import json
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.arrays import ArrayFile
from hopwalk.errors import HopwalkError, RunError, SettingsError
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.recording import record
from hopwalk.run import Run
from tests.commands import command, mistake
from tests.helpers import FAMILY, dataset_of
from tests.stopping import results_of
from tests.villages import SET, VILLAGE, settings_of


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
    begun = api.train(VILLAGE, settings, start=trained_walker.path, out=tmp_path / "begun")
    begun.write_about(begun.about | {"status": "training"})
    with pytest.raises(RunError, match="begun with other parameters"):
        api.train(VILLAGE, settings, start=other.path, out=begun.path, resume=True)


def test_what_cannot_be_begun_with(trained_walker: Run, tmp_path: Path):
    def begun(start: Path, changes: dict[str, int] | None = None) -> Run:
        return api.train(VILLAGE, settings_of(changes), start=start, out=tmp_path / "run")

    with pytest.raises(RunError, match="not a walker"):
        begun(trained_walker.path / "scorer")
    with pytest.raises(RunError, match="there is no such folder"):
        begun(tmp_path / "nowhere")
    with pytest.raises(RunError, match="other data"):
        api.train(dataset_of(FAMILY), settings_of({}), start=trained_walker.path, out=tmp_path / "run")
    with pytest.raises(HopwalkError, match="has another shape than the model's"):
        begun(trained_walker.path, {"walker.history_dimension": 7})
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
    assert f" --start {trained_walker.path.name} " in written["command"]


def test_from_the_command_line(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    start = ["--start", str(trained_walker.path)]
    printed = command(capsys, "train", "village", *SET, *start, "--epochs", "0", "--set", "walk.beam=4", "--out", "narrow")
    assert "narrow: finished after 0 epochs; dev MRR" in printed.out
    assert "needs about" not in printed.err
    assert Run.open("narrow").settings.walk.beam == 4
    assert "--reward is the folder of a scorer" in mistake(capsys, "train", "village", *SET, *start, "--reward", "conve")
    assert "--start is for walkers" in mistake(capsys, "train", "village", "--scorer", "complex", *start)
    assert "nothing to train in 0 epochs" in mistake(capsys, "train", "village", *SET, "--epochs", "0", "--out", "none")
