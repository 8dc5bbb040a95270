"""Files of a run that were changed are refused; those that hopwalk changes are stated again. Locks, modes and signals."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import ChangedFileError, LockedError, RunError
from hopwalk.learning.run import Run
from hopwalk.utils.files import locked, write_text
from tests.support.commands import command, mistake
from tests.support.schools import SCHOOL, TRAINED
from tests.support.stopping import Stopped

EDITS = {
    "beam": ("settings.toml", "beam = ", "beam = 1"),
    "fan-out": ("settings.toml", "fan_out = 400", "fan_out = 2"),
    "pooling": ("settings.toml", 'pooling = "sum"', 'pooling = "max"'),
    "slope": ("run.json", '"slope": ', '"slope": 3'),
    "kind of the card": ("card.md", "A walker", "The walker"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused_until_it_is_accepted(copied: Path, capsys: pytest.CaptureFixture[str], name: str):
    file, old, new = EDITS[name]
    text = (copied / file).read_text(encoding="utf-8")
    assert old in text
    (copied / file).write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ChangedFileError, match="changed since hopwalk wrote it") as raised:
        assert hopwalk.load(copied).card
    assert raised.value.path == str(copied / file)
    if file != "card.md":
        assert "accept it (hopwalk accept RUN)" in mistake(capsys, "evaluate", str(copied))
    assert "accepted" in command(capsys, "accept", str(copied)).out
    assert hopwalk.load(copied).card


def test_all_files_of_a_finished_run_are_stated(trained_scorer: Run):
    stated = json.loads((trained_scorer.path / "digests.json").read_text())
    assert {*stated["sha256"]} == {path.name for path in trained_scorer.path.iterdir()} - {"digests.json"}
    assert stated["expected"] == {}


def test_an_evaluation_is_stated(copied: Path):
    hopwalk.evaluate(copied)
    (copied / "evaluation-test.json").write_text("{}")
    with pytest.raises(ChangedFileError, match=r"evaluation-test\.json"):
        Run.open(copied).read_json("evaluation-test.json")


def test_runs_without_digests_open_with_a_note(copied: Path, capsys: pytest.CaptureFixture[str]):
    (copied / "digests.json").unlink()
    assert hopwalk.load(copied).card
    assert "has no digests" in command(capsys, "evaluate", str(copied)).err


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1, "sha256": {"run.json": 5}, "expected": {}}'])
def test_damaged_digests(copied: Path, text: str):
    (copied / "digests.json").write_text(text)
    with pytest.raises(RunError, match=r"digests\.json: the file is damaged"):
        hopwalk.load(copied)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_killed_around_a_write(copied: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool):
    run, replace = Run.open(copied), Path.replace

    def kill(self: Path, target: Path) -> Path:
        if target.name == "run.json":
            if is_replaced:
                replace(self, target)
            raise Stopped
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Path, "replace", kill)
        run.write_about(run.about | {"mark": 1})
    assert ("mark" in Run.open(copied).about) == is_replaced
    run.write_text("card.md", "new")  # another file, after the kill
    assert ("mark" in Run.open(copied).about) == is_replaced


def test_a_folder_is_locked_while_it_is_trained(tmp_path: Path):
    pytest.importorskip("fcntl")
    with locked(tmp_path / "run"), pytest.raises(LockedError, match="another process is writing here"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run")
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run")


def test_a_killed_process_frees_its_lock(tmp_path: Path):
    pytest.importorskip("fcntl")
    code = "import sys, time; from pathlib import Path; from hopwalk.utils.files import locked\n"
    code += "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        with pytest.raises(LockedError), locked(tmp_path):
            pass
        process.kill()
    with locked(tmp_path):
        pass


def test_files_are_readable_under_the_umask(tmp_path: Path):
    before = os.umask(0o022)
    try:
        run = hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.path.iterdir()} == {0o644}


def test_the_folder_is_synced_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps: list[str] = []
    replace = Path.replace

    def noting(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noting)
    monkeypatch.setattr(os, "fsync", lambda one: steps.append("folder" if stat.S_ISDIR(os.fstat(one).st_mode) else "file"))
    write_text(tmp_path / "file", "text")
    assert steps == ["file", "rename", "folder"]


def test_sigterm_saves_as_ctrl_c_does(tmp_path: Path):
    hopwalk.write_folder(SCHOOL, tmp_path / "school")
    arguments = ["train", str(tmp_path / "school"), "--scorer", "distmult", "--out", str(tmp_path / "run"), "--threads", "1"]
    more = ["--set", "scorer.epochs=1000000", "--set", "scorer.patience=1000000", "--set", "scorer.dimension=8"]
    with subprocess.Popen([sys.executable, "-m", "hopwalk", *arguments, *more], stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        history = tmp_path / "run" / "history.jsonl"
        while not (history.exists() and history.stat().st_size):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert Run.open(tmp_path / "run").status == "interrupted" and Run.open(tmp_path / "run").weights_path.exists()
