"""Stopped and resumed, training gives the same result as without a stop; other data and settings are refused."""

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
                hopwalk.train_scorer(SCHOOL, settings, out=folder, callbacks=[StopAt(epoch, batch)])
            assert Run.open(folder).about["status"] == "training"
            callback = Recorder()
            run = hopwalk.train_scorer(SCHOOL, settings, out=folder, resume=True, callbacks=[callback])
            assert callback.batches[0] == ((epoch - 1) // every * every + 1, 1)  # it resumed, and not from the beginning
            assert result_of(run) == expected


def test_stopped_again_and_again(tmp_path: Path, checkpoints: None):
    settings = settings_of(seed=BEST_IS_NOT_LAST)
    expected = result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    for epoch in range(1, 6):
        with pytest.raises(Stopped):
            hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callbacks=[StopAt(epoch, 2)])
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
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callbacks=[StopAt(4, 2, KeyboardInterrupt)])
    about = run.about
    assert (about["status"], about["epochs"]) == ("interrupted", 3)
    assert about["valid_mrr"] == max(record["valid_mrr"] for record in run.history)
    assert hopwalk.evaluate(run.path, "valid")["scorer"].tails.mrr == about["valid_mrr"]
    assert "interrupted" in (run.path / "card.md").read_text()
    callback = Recorder()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callbacks=[callback])
    assert callback.batches[0] == (4 if has_checkpoint else 1, 1)
    assert result_of(run) == expected


def test_ctrl_c_before_the_first_evaluation(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callbacks=[StopAt(1, 1, KeyboardInterrupt)])
    about = run.about
    assert (about["status"], about["epochs"], about["best_epoch"], about["valid_mrr"]) == ("interrupted", 0, 0, None)
    hopwalk.evaluate(run.path)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))


def test_ctrl_c_soon_after_resuming_keeps_the_run(tmp_path: Path):
    settings = settings_of()
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callbacks=[StopAt(4, 1, KeyboardInterrupt)])
    weights, _, about = result_of(run)
    assert about["best_epoch"] > 0
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True, callbacks=[StopAt(1, 1, KeyboardInterrupt)])
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
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", callbacks=[StopAt(2, 1, KeyboardInterrupt)])
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(runs, "calibrate", fail)
        hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    run = hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "run", resume=True)
    assert result_of(run) == result_of(hopwalk.train_scorer(SCHOOL, settings, out=tmp_path / "whole"))
    assert "finished" in (run.path / "card.md").read_text()


def test_resuming_a_finished_run_does_nothing(tmp_path: Path, trained_scorer: Run):
    shutil.copytree(trained_scorer.path, tmp_path / "run")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()}
    callback = Recorder()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", resume=True, callbacks=[callback])
    assert callback.batches == []
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "run").iterdir()} == before


def test_resuming_without_a_run_begins_one(tmp_path: Path, trained_scorer: Run):
    run = hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "new" / "run", resume=True)
    assert result_of(run) == result_of(trained_scorer)


# A process that writes a checkpoint after every epoch, and waits in one of them for a signal.
PROCESS = """
import sys, time
from hopwalk.cli import main, progress
from hopwalk.learning import training

def on_batch(self, epoch, *_):
    time.sleep(60 if epoch == {epoch} else 0)

training.SECONDS_BETWEEN_CHECKPOINTS, progress.TrainingLines.on_batch = 0, on_batch
main.run()
"""


def test_killed_and_resumed(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    """Real processes: Ctrl-C, then `kill -9`, then training to the end."""
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
        assert process.returncode == (130 if kind == signal.SIGINT else -signal.SIGKILL), stderr
        assert Run.open("stopped").about["status"] == "interrupted"  # SIGKILL leaves what Ctrl-C wrote
        assert ("stopped: interrupted after" in stdout) == (kind == signal.SIGINT)
    command(capsys, *arguments, "stopped", "--resume")
    assert "finished after 8 epochs" in command(capsys, *arguments, "whole").out
    assert result_of(Run.open("stopped")) == result_of(Run.open("whole"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 1}, r"was begun with scorer\.seed = 0, not 1\. Resume with the same settings"),
        ({"epochs": 3}, r"was begun with scorer\.epochs = 2, not 3"),
        ({"model": "complex"}, r"was begun with scorer\.model = 'distmult', not 'complex'"),
    ],
    ids=str,
)
def test_a_run_is_not_resumed_with_other_settings(trained_scorer: Run, values: dict[str, Any], message: str):
    before = result_of(trained_scorer)
    with pytest.raises(SettingsError, match=message):
        hopwalk.train_scorer(SCHOOL, settings_of(**({"epochs": 2} | values)), out=trained_scorer.path, resume=True)
    assert result_of(trained_scorer) == before


def test_a_run_is_not_resumed_with_other_data(trained_scorer: Run):
    for other in (school_of(5), dataset_of(SCHOOL.labels_of(SCHOOL.train), SCHOOL.labels_of(SCHOOL.test))):
        with pytest.raises(RunError, match="the run was trained on other data"):
            hopwalk.train_scorer(other, TRAINED, out=trained_scorer.path, resume=True)


def test_a_scorer_that_cannot_be_built_leaves_no_folder(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'distmult'"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="distmul"), out=tmp_path / "run")
    with pytest.raises(SettingsError, match="is not valid for ConvE"):
        hopwalk.train_scorer(SCHOOL, settings_of(model="conve", dimension=13), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
