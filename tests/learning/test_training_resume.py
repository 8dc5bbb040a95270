"""Training a scorer gives the same result however often it is stopped, and goes on with nothing else."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk.errors import RunError, SettingsError, UnknownNameError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.scorers import runs
from hopwalk.utils.arrays import save_arrays
from tests.support.commands import command
from tests.support.helpers import dataset_of
from tests.support.schools import BEST_IS_NOT_LAST, SCHOOL, TRAINED, school_of, settings_of
from tests.support.stopping import Recorder, StopAt, Stopped, result_of

# Stopped and gone on

CASES: dict[str, dict[str, Any]] = {
    "adagrad": {},
    "adam": {"optimizer": "adam", "model": "complex"},
    "batch norm": {"model": "conve", "optimizer": "adam", "loss": "binary"},
    "batch norm, adagrad": {"model": "conve"},
    "sampled": {"num_sampled_tails": 8, "model": "complex"},
    "sampled, adam": {"num_sampled_tails": 8, "optimizer": "adam", "loss": "binary"},
    "dropout": {"input_dropout": 0.3, "evaluate_every": 2},
    "early stop": {"patience": 2, "epochs": 30},
}


@pytest.mark.parametrize("case", CASES)
def test_stopped_anywhere_the_result_is_the_same(tmp_path: Path, checkpoints: None, case: str):
    settings = settings_of(**CASES[case], seed=BEST_IS_NOT_LAST)
    whole = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole")
    expected, last, every = result_of(whole), whole.about["epochs"], settings.scorer.evaluate_every
    for epoch in range(1, last + 1):
        for batch in (2, 0):  # in the middle of the epoch, and when it has been evaluated but not saved
            if batch == 0 and epoch % every and epoch != last:
                continue
            folder = tmp_path / f"{epoch}-{batch}"
            with pytest.raises(Stopped):
                hopwalk.train_scorer(SCHOOL, settings, out=folder, callback=StopAt(epoch, batch))
            assert Run.open(folder).about["status"] == "training"
            callback = Recorder()
            run = hopwalk.train_scorer(SCHOOL, settings, out=folder, resume=True, callback=callback)
            assert callback.batches[0] == ((epoch - 1) // every * every + 1, 1)  # it did go on, and not from the beginning
            assert result_of(run) == expected


def test_stopped_again_and_again(tmp_path: Path, checkpoints: None):
    settings = settings_of(seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    for epoch in range(1, 6):
        with pytest.raises(Stopped):
            hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callback=StopAt(epoch, 2))
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)) == expected
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_stopped_between_the_two_files_of_a_checkpoint(tmp_path: Path, checkpoints: None, monkeypatch: pytest.MonkeyPatch):
    settings = settings_of(seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    for epoch in range(1, 6):
        calls = 0

        def fail(*arguments: Any, last: int = epoch) -> int:
            nonlocal calls
            calls += 1
            if calls == last:
                raise Stopped
            return save_arrays(*arguments)

        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(training, "save_arrays", fail)
            hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / str(epoch))
        run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / str(epoch), resume=True)
        assert result_of(run) == expected


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_ctrl_c_leaves_a_usable_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool):
    settings = settings_of(model="conve", seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0 if has_checkpoint else 1000.0)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callback=StopAt(4, 2, KeyboardInterrupt))
    about = run.about
    assert (about["status"], about["epochs"]) == ("interrupted", 3)
    assert about["valid_mrr"] == max(record["valid_mrr"] for record in run.history)
    assert hopwalk.evaluate(run.path, "valid").tails.mrr == about["valid_mrr"]
    assert "interrupted" in (run.path / "card.md").read_text()
    callback = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callback=callback)
    assert callback.batches[0] == (4 if has_checkpoint else 1, 1)
    assert result_of(run) == expected


def test_ctrl_c_before_the_first_evaluation(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callback=StopAt(1, 1, KeyboardInterrupt))
    about = run.about
    assert (about["status"], about["epochs"], about["best_epoch"], about["valid_mrr"]) == ("interrupted", 0, 0, None)
    hopwalk.evaluate(run.path)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))


def test_ctrl_c_soon_after_going_on_keeps_what_there_was(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callback=StopAt(4, 1, KeyboardInterrupt))
    weights, _, about = result_of(run)
    assert about["best_epoch"] > 0
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callback=StopAt(1, 1, KeyboardInterrupt))
    assert (result_of(run)[0], result_of(run)[2]) == (weights, about)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))


@pytest.mark.parametrize(
    "is_interrupted",
    [False, True],
)
def test_stopped_before_the_probabilities_are_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool):
    def fail(*_: Any) -> None:
        raise Stopped

    settings = settings_of()
    if is_interrupted:
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callback=StopAt(2, 1, KeyboardInterrupt))
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(runs, "calibrate", fail)
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    assert "finished" in (run.path / "card.md").read_text()


def test_resuming_what_is_finished_does_nothing(tmp_path: Path, trained_scorer: Run):
    shutil.copytree(trained_scorer.path, tmp_path / "run")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()}
    callback = Recorder()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", resume=True, callback=callback)
    assert callback.batches == []
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()} == before


def test_resuming_what_is_not_there_begins(tmp_path: Path, trained_scorer: Run):
    run = hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "new" / "run", resume=True)
    assert result_of(run) == result_of(trained_scorer)


# A process that saves after every epoch, and waits in one of them for what may come.
PROCESS = """
import sys, time
from hopwalk.cli import main, train
from hopwalk.learning import training
from hopwalk.scorers import runs
from hopwalk.scorers.base import TrainableScorer

def on_batch(self, epoch, *_):
    time.sleep(60 if epoch == {epoch} else 0)

training.SECONDS_BETWEEN_CHECKPOINTS, train.TrainingBar.on_batch = 0, on_batch
main.run()
"""


def test_killed_and_gone_on(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    """Real processes: Ctrl-C, then `kill -9`, then to the end."""
    arguments = ["train", "umls", "--scorer", "distmult", "--epochs", "8"]
    arguments += ["--set", "scorer.dimension=8", "--set", "scorer.batch_size=1024", "--out"]
    checkpoint = in_folder / "stopped" / "checkpoint.safetensors"
    for kind, epoch in ((signal.SIGINT, 3), (signal.SIGKILL, 6)):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS.format(epoch=epoch), *arguments, "stopped", "--resume"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before):
                time.sleep(0.02)
        finally:
            process.send_signal(kind)
            stdout, stderr = process.communicate()
        assert "Traceback" not in stderr, stderr
        assert process.returncode == (0 if kind == signal.SIGINT else -signal.SIGKILL), stderr
        assert Run.open("stopped").about["status"] == "interrupted"  # SIGKILL leaves what Ctrl-C wrote
        assert ("stopped: interrupted after" in stdout) == (kind == signal.SIGINT)
    command(capsys, *arguments, "stopped", "--resume")
    assert "finished after 8 epochs" in command(capsys, *arguments, "whole").out
    assert result_of(Run.open("stopped")) == result_of(Run.open("whole"))


# What must be refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 1}, r"has scorer\.seed = 0, not 1: it cannot go on with another"),
        ({"epochs": 3}, r"has scorer\.epochs = 2, not 3"),
        ({"model": "complex"}, r"has scorer\.model = 'distmult', not 'complex'"),
    ],
    ids=str,
)
def test_no_going_on_with_other_settings(trained_scorer: Run, values: dict[str, Any], message: str):
    before = result_of(trained_scorer)
    with pytest.raises(SettingsError, match=message):
        hopwalk.train_scorer(SCHOOL, settings_of(**({"epochs": 2} | values)), out=trained_scorer.path, resume=True)
    assert result_of(trained_scorer) == before


def test_no_going_on_with_other_data(trained_scorer: Run):
    for other in (school_of(5), dataset_of(SCHOOL.labels_of(SCHOOL.train), SCHOOL.labels_of(SCHOOL.test))):
        with pytest.raises(RunError, match="the run was trained on other data"):
            hopwalk.train_scorer(other, TRAINED, out=trained_scorer.path, resume=True)


def test_used_folders(tmp_path: Path, trained_scorer: Run):
    with pytest.raises(RunError, match=r"there is a run in this folder already\. Go on with it with --resume"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=trained_scorer.path)
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        for folder in (tmp_path, tmp_path / "notes.txt"):
            with pytest.raises(RunError, match="this is no empty folder"):
                hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "empty")


@pytest.mark.parametrize("last", ["dataset.safetensors", "settings.toml", "run.json"])
def test_killed_before_it_had_begun(tmp_path: Path, trained_scorer: Run, monkeypatch: pytest.MonkeyPatch, last: str):
    """The folder has no run.json, and a file that is half written."""
    folder, replace = tmp_path / "run", Path.replace

    def kill(self: Path, target: Path) -> Path:
        if target.name == last:
            shutil.copy(self, self.with_name(f"{self.name[:-16]}{'0' * 16}"))  # `kill -9` would not have it removed
            raise Stopped
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Path, "replace", kill)
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert f".{last}.{'0' * 16}" in [path.name for path in folder.iterdir()]
    with pytest.raises(RunError, match="this is no empty folder"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert result_of(hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=True)) == result_of(trained_scorer)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("names", [["settings.toml"], ["dataset.safetensors", "graph.safetensors"], [".settings.toml.mine"]])
def test_what_is_no_run_that_had_begun_is_left_alone(tmp_path: Path, names: list[str]):
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match="this is no empty folder"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path, resume=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(names, "mine")


def test_what_cannot_be_built_leaves_no_folder(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'distmult'"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="distmul"), out=tmp_path / "run")
    with pytest.raises(SettingsError, match="does not make a picture"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="conve", dimension=13), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
