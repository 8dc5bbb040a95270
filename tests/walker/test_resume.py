"""Resuming the training of a walker: the result is that of an uninterrupted one, and only the same training is resumed."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.config.loading import settings_toml
from hopwalk.config.settings import Settings
from hopwalk.errors import HopwalkError, RunError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.walker import policy, runs
from tests.support.commands import command
from tests.support.stopping import Recorder, StopAt, Stopped, results_of, watching
from tests.support.villages import ALONE, SET, VILLAGE, settings_of, train_walker, village_of

# Stopped and resumed

CASES: dict[str, dict[str, Any]] = {
    "two layers": {"walker.history_layers": 2},
    "sampled, with decay and a baseline": {
        "walker.estimator": "sampled",
        "walker.baseline": "average",
        "walker.entropy_decay": 0.9,
        "walker.learning_rate_decay": 0.8,
    },
    "sparse rows": {**ALONE, "walker.gradient_clip": 0.1, "walker.evaluate_every": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_stopped_anywhere_the_result_is_the_same(tmp_path: Path, checkpoints: None, monkeypatch: pytest.MonkeyPatch, case: str):
    if case == "sparse rows":
        monkeypatch.setattr(policy, "MOST_DENSE_ENTITIES", 10)
    settings = settings_of(CASES[case])
    whole = train_walker(VILLAGE, settings, out=tmp_path / "whole")
    expected, every = results_of(whole), settings.walker.evaluate_every
    counts = [record["unique_paths"] for record in whole.history]
    assert counts == sorted({*counts})  # they grow, so a count that began again would show
    for epoch, batch in ((1, 2), (2, 0), (3, 1), (4, 4), (4, 0)):  # 0: evaluated, but not saved yet
        folder = tmp_path / f"{epoch}-{batch}"
        with pytest.raises(Stopped):
            train_walker(VILLAGE, settings, out=folder, make_callbacks=watching("walker", StopAt(epoch, batch)))
        assert Run.open(folder).about["status"] == "training"
        recorder = Recorder()
        run = train_walker(VILLAGE, settings, out=folder, resume=True, make_callbacks=watching("walker", recorder))
        assert recorder.batches[0] == ((epoch - 1) // every * every + 1, 1)  # resumed, not begun again
        assert results_of(run) == expected
        assert not run.checkpoint_path.exists()


def test_stopped_again_and_again(tmp_path: Path, checkpoints: None, trained_walker: Run, monkeypatch: pytest.MonkeyPatch):
    """In the scorer's training, between the two, in the walker's, and after its last epoch."""
    settings, out = trained_walker.settings, tmp_path / "run"

    def stop(*_: Any) -> Any:
        raise Stopped

    for callbacks in (watching("scorer", StopAt(3, 1)), stop, watching("walker", StopAt(3, 1))):
        with pytest.raises(Stopped):
            train_walker(VILLAGE, settings, out=out, resume=True, make_callbacks=callbacks)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(runs, "write_card", stop)  # trained, but not finished yet
        train_walker(VILLAGE, settings, out=out, resume=True)
    assert Run.open(out).about["status"] == "training"
    run = train_walker(VILLAGE, settings, out=out, resume=True)
    assert results_of(run) == results_of(trained_walker)


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_ctrl_c_leaves_a_usable_run(
    tmp_path: Path, trained_walker: Run, checkpoints: None, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool
):
    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", 0.0 if has_checkpoint else 1000.0)
    settings, out = trained_walker.settings, tmp_path / "run"
    stop = watching("walker", StopAt(3, 2, KeyboardInterrupt))
    run = train_walker(VILLAGE, settings, out=out, make_callbacks=stop)
    about = run.about
    assert (about["status"], about["epochs"]) == ("interrupted", 2)
    assert about["valid_mrr"] == max(record["valid_mrr"] for record in run.history)
    assert about["calibration"]["slope"] >= 0  # of what it has learnt so far
    assert api.evaluate(out, "valid")["policy"].tails.mrr == about["valid_mrr"]
    assert "interrupted after 2 epochs" in (out / "card.md").read_text()
    recorder = Recorder()
    run = train_walker(VILLAGE, settings, out=out, resume=True, make_callbacks=watching("walker", recorder))
    assert recorder.batches[0] == (3 if has_checkpoint else 1, 1)
    assert results_of(run) == results_of(trained_walker)


def test_ctrl_c_soon_after_resuming_keeps_the_run_as_it_was(tmp_path: Path, trained_walker: Run):
    settings, out = trained_walker.settings, tmp_path / "run"
    for epoch in (3, 1):
        stop = watching("walker", StopAt(epoch, 1, KeyboardInterrupt))
        run = train_walker(VILLAGE, settings, out=out, resume=True, make_callbacks=stop)
        assert (run.about["status"], run.about["epochs"]) == ("interrupted", 2)
    assert results_of(train_walker(VILLAGE, settings, out=out, resume=True)) == results_of(trained_walker)


def test_ctrl_c_before_the_first_evaluation(tmp_path: Path, trained_walker: Run):
    stop = watching("walker", StopAt(1, 1, KeyboardInterrupt))
    run = train_walker(VILLAGE, trained_walker.settings, out=tmp_path / "run", make_callbacks=stop)
    assert (run.about["status"], run.about["epochs"], run.about["valid_mrr"]) == ("interrupted", 0, None)
    assert api.evaluate(run.path)["policy"].tails.num_queries == len(VILLAGE.test)
    run = train_walker(VILLAGE, trained_walker.settings, out=run.path, resume=True)
    assert results_of(run) == results_of(trained_walker)


def test_ctrl_c_while_the_scorer_is_trained(tmp_path: Path, trained_walker: Run):
    stop = watching("scorer", StopAt(3, 1, KeyboardInterrupt))
    run = train_walker(VILLAGE, trained_walker.settings, out=tmp_path / "run", make_callbacks=stop)
    assert run.about["status"] == Run.open(run.path / "scorer").about["status"] == "interrupted"
    api.evaluate(run.path / "scorer")
    with pytest.raises(RunError, match=r"the walker has no weights yet\. Resume its training"):
        api.load(run.path)
    recorder = Recorder()
    run = train_walker(VILLAGE, trained_walker.settings, out=run.path, resume=True, make_callbacks=watching("walker", recorder))
    assert recorder.records == run.history
    assert results_of(run) == results_of(trained_walker)


def test_resuming_a_finished_run_does_nothing(copied: Path, trained_walker: Run):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in copied.rglob("*.*")}
    recorder = Recorder()
    train_walker(VILLAGE, trained_walker.settings, out=copied, resume=True, make_callbacks=lambda _: [recorder])
    assert recorder.batches == []
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in copied.rglob("*.*")} == before


# A process that saves after every epoch, and waits in the third epoch of one of its trainings.
PROCESS = """
import time
from hopwalk.cli import main, progress
from hopwalk.learning import training

class Waiting:
    def on_batch(self, epoch, *_):
        time.sleep(60 if epoch == 3 else 0)

    def on_evaluation(self, record):
        pass

training.SECONDS_BETWEEN_CHECKPOINTS = 0
progress.TrainingProgress.callbacks = lambda self, plan: [Waiting()] if plan.kind == {kind!r} else []
main.run()
"""


def test_killed_and_resumed(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    """Real processes: `kill -9` while the scorer is trained, then while the walker is, then to the end."""
    arguments = ["train", "village", *SET, "--out"]
    for kind, folder in (("scorer", Path("stopped/scorer")), ("walker", Path("stopped"))):
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS.format(kind=kind), *arguments, "stopped", "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while process.poll() is None and not (folder / "checkpoint.safetensors").exists():
                time.sleep(0.02)
        finally:
            process.kill()
            _, stderr = process.communicate()
        assert process.returncode == -signal.SIGKILL, stderr
        assert Run.open(folder).about["status"] == "training"
        assert (Path("stopped") / "weights.safetensors").exists() == (kind == "walker")
    assert "finished after 4 epochs" in command(capsys, *arguments, "stopped", "--resume").out
    assert "finished after 4 epochs" in command(capsys, *arguments, "whole").out
    assert results_of(Run.open("stopped")) == results_of(Run.open("whole"))


@pytest.mark.parametrize("is_given", [False, True])
def test_killed_while_the_folder_of_the_scorer_is_made(
    tmp_path: Path, trained_walker: Run, monkeypatch: pytest.MonkeyPatch, is_given: bool
):
    """A folder that is half written can be resumed."""

    def copy_part(source: Path, folder: Path, **_: Any) -> None:
        folder.mkdir(exist_ok=True)
        shutil.copy(source / "settings.toml", folder)
        (folder / "weights.safetensors").write_bytes(b"half")
        raise Stopped

    def write_part(settings: Settings) -> str:
        if (tmp_path / "run" / "scorer").exists():
            raise Stopped
        return settings_toml(settings)

    settings, given = trained_walker.settings, trained_walker.path / "scorer" if is_given else None
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(shutil, "copytree", copy_part)
        patch.setattr("hopwalk.learning.run.settings_toml", write_part)
        train_walker(VILLAGE, settings, out=tmp_path / "run", scorer=given)
    run = train_walker(VILLAGE, settings, out=tmp_path / "run", scorer=given, resume=True)
    assert results_of(run)[0] == results_of(trained_walker)[0]


def test_resuming_with_a_scorer_given_later(tmp_path: Path, trained_walker: Run, checkpoints: None):
    """The run has begun to train a scorer of its own: it is neither used half trained nor taken for the given one."""
    settings, out = settings_of({"scorer.seed": 1}), tmp_path / "run"
    with pytest.raises(Stopped):
        train_walker(VILLAGE, settings, out=out, make_callbacks=watching("scorer", StopAt(2, 1)))
    try:
        run = train_walker(VILLAGE, settings, out=out, scorer=trained_walker.path / "scorer", resume=True)
    except HopwalkError:
        return
    assert Run.open(run.path / "scorer").about["status"] == "finished"


# Refused


def test_other_data_is_refused(trained_walker: Run):
    before = results_of(trained_walker)
    for other in (village_of(15), replace(VILLAGE, valid=VILLAGE.test, test=VILLAGE.valid)):
        with pytest.raises(RunError, match="the run was trained on other data"):
            train_walker(other, trained_walker.settings, out=trained_walker.path, resume=True)
    assert results_of(trained_walker) == before


def test_a_run_of_another_kind_is_refused(copied: Path, trained_walker: Run):
    with pytest.raises(RunError, match="a run of kind 'scorer', not a walker"):
        train_walker(VILLAGE, trained_walker.settings, out=copied / "scorer", resume=True)
    with pytest.raises(RunError, match="a run of kind 'walker', not a scorer"):
        api.train_scorer(VILLAGE, trained_walker.settings, out=copied, resume=True)
