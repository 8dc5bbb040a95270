"""`hopwalk compare` at the command line."""

import json
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A walker that has learnt almost nothing, and one guided by its scorer."""
    folder = tmp_path_factory.mktemp("compared")
    values = (ALONE | {"walker.epochs": 1, "walker.learning_rate": 1e-9}, {"walker.epochs": 1, "scorer.epochs": 1})
    first, second = (
        train_walker(VILLAGE, settings_of(value), out=folder / name).path for name, value in zip("ab", values, strict=True)
    )
    return str(first), str(second)


def test_a_comparison(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "compare", *runs, "--examples", "2").out
    for part in ("ranked by policy", "hits@10", "The second run is better", "uncle", "Won:", "second child"):
        assert part in printed
    found = json.loads(command(capsys, "compare", *runs, "--by", "policy,scorer", "--json").out)
    assert found["ranked_by"] == ["policy", "scorer"]


def test_an_unknown_ranking(runs: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    refused = command(capsys, "compare", *runs, "--by", "luck", code=1).err
    assert "cannot rank by 'luck'" in refused and "Rankings are policy, reranked, scorer, blend" in refused


def test_a_folder_that_is_not_a_run(runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "there is no such folder" in command(capsys, "compare", runs[0], str(tmp_path / "none"), code=1).err
