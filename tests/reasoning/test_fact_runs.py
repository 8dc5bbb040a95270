"""The ranking of facts by runs of every kind, and what is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hopwalk import api
from tests.support.commands import command, mistake
from tests.support.villages import VILLAGE


@pytest.fixture
def copies(tmp_path: Path, propagation_run: Path, uncles_run: Path, village_run: Path) -> dict[str, Path]:
    sources = {"propagation": propagation_run, "walker": uncles_run, "scorer": village_run / "scorer"}
    return {name: Path(shutil.copytree(source, tmp_path / name)) for name, source in sources.items()}


def test_every_kind_of_run_ranks_the_same_facts(copies: dict[str, Path], tmp_path: Path):
    api.combine_scorers([copies["propagation"], copies["scorer"]], out=tmp_path / "both")
    found = {name: api.evaluate_facts(path, seed=3) for name, path in (copies | {"ensemble": tmp_path / "both"}).items()}
    for name in ("propagation", "walker"):
        assert found[name].link_map > 0.9, f"{name} has learnt uncles"
    assert len({(one.num_true, one.num_false) for one in found.values()}) == 1
    assert 0 < found["propagation"].num_true <= len(VILLAGE.test) and found["propagation"].num_false > 0
    written = json.loads((copies["propagation"] / "facts-test.json").read_text(encoding="utf-8"))
    assert written == found["propagation"].to_dict()
    card = (copies["propagation"] / "card.md").read_text(encoding="utf-8")
    assert card.count("## Ranking of the facts of test") == 1
    api.evaluate_facts(copies["propagation"], seed=3)
    assert (copies["propagation"] / "card.md").read_text(encoding="utf-8") == card


def test_the_command(copies: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = str(copies["propagation"])
    shown = command(capsys, "evaluate", path, "--task", "facts", "--num-negatives", "5")
    assert "AP of one list" in shown.out and "uncle" in shown.out
    labelled = tmp_path / "facts.tsv"
    rows = VILLAGE.labels_of(VILLAGE.test)
    (head, relation, tail) = rows[0]
    labelled.write_text(f"{head}\t{relation}\t{tail}\t+\n{head}\t{relation}\t{head}\t-\n", encoding="utf-8")
    given = json.loads(command(capsys, "evaluate", path, "--task", "facts", "--negatives", str(labelled), "--json").out)
    assert (given["num_true"], given["num_false"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--task", "pairs"), "there is no task 'pairs'"),
        (("--seed", "1"), "--seed is for --task facts"),
        (("--task", "facts", "--both"), "--task facts has no filter"),
        (("--task", "facts", "--negatives", "x.tsv", "--seed", "1"), "are for sampled facts"),
    ],
)
def test_options_that_do_not_fit(
    copies: dict[str, Path], options: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
):
    assert problem in mistake(capsys, "evaluate", str(copies["propagation"]), *options)
