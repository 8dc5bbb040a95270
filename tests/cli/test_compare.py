"""`hopwalk compare` at the command line."""

import json
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, uncles_run: Path) -> tuple[str, str]:
    """A walker that has learnt almost nothing, and one that has learnt who uncles are."""
    settings = settings_of(ALONE | {"walker.epochs": 1, "walker.learning_rate": 1e-9})
    return str(train_walker(VILLAGE, settings, out=tmp_path_factory.mktemp("compared") / "run").path), str(uncles_run)


def test_a_comparison(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "compare", *runs, "--examples", "2").out
    for part in ("hits@10", "The second run is better", "uncle", "Won:", "second child"):
        assert part in printed
    found = json.loads(command(capsys, "compare", *runs, "--json").out)
    assert found["runs"] == list(runs) and found["differences"]["mrr"]["difference"] > 0
    assert found["won"][0]["second_path"]["edges"]


def test_a_folder_that_is_not_a_run(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "there is no such folder" in command(capsys, "compare", runs[0], str(tmp_path / "none"), code=1).err
