"""`hopwalk tune` at the command line."""

import json
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.tuning import SPACE

pytest.importorskip("optuna")


@pytest.fixture
def arguments(village_folder: Path) -> list[str]:
    """A study of two trials."""
    (village_folder / "space.toml").write_text(SPACE)
    small = ["--epochs", "2", "--set", "scorer.dimension=8"]
    return ["tune", "village", "--scorer", "complex", "--space", "space.toml", "--trials", "2", *small]


def test_a_study_and_its_preset(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    fixed = [*arguments, "--set", "scorer.n3=0.01"]
    printed = command(capsys, *fixed)
    assert "dev MRR" in printed.out and "tuning/village-complex/best.toml" in printed.out and "trial 2 of 2" in printed.err
    assert "n3" not in printed.err  # it was set on the command line
    found = json.loads(command(capsys, *fixed, "--json").out)
    assert len(found["trials"]) == 2
    preset = ["--preset", "tuning/village-complex/best.toml", "--out", "best"]
    assert "finished" in command(capsys, "train", "village", "--scorer", "complex", *preset).out
    refused = command(capsys, *arguments, code=1).err
    assert "the study was begun with another space" in refused
    assert "Choose another file for the study (--study)." in refused


def test_an_interrupted_study_exits_with_130(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hopwalk.cli.progress.TrainingLines.on_batch", stop)
        printed = command(capsys, *arguments, code=130)
    assert "tuning/village-complex.db: 0 trials, 0 pruned" in printed.out
    assert printed.out.endswith("Interrupted. Continue with the same command.\n")
    assert "2 trials, 0 pruned" in command(capsys, *arguments).out
