"""Missing facts for a whole graph: what is proposed, in which format, and how it goes on after an interruption."""

import json
from pathlib import Path

import polars as pl
import pytest

from hopwalk import api
from hopwalk.errors import HopwalkError, SettingsError, UnknownNameError
from hopwalk.reasoning import completing
from hopwalk.reasoning.reasoner import LoadedWalker
from tests.support.commands import command
from tests.support.villages import VILLAGE


@pytest.fixture(scope="module")
def folder(uncles_run: Path) -> Path:
    return uncles_run


@pytest.fixture(scope="module")
def walker(folder: Path) -> LoadedWalker:
    return api.load(folder)


def test_held_out_facts_are_found(walker: LoadedWalker, tmp_path: Path):
    found = walker.complete(tmp_path / "new.tsv", relations=["uncle"], above=0.05)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert table.columns == list(completing.COLUMNS) and len(table) == found.facts > 0
    proposed = set(table.select("head", "relation", "tail").rows())
    known = set(VILLAGE.labels_of(VILLAGE.train))
    assert not proposed & known
    hidden = {fact for fact in VILLAGE.labels_of(VILLAGE.test) if any(fact[:2] == (head, "uncle") for head, _, _ in known)}
    assert len(proposed & hidden) >= 0.5 * len(hidden)
    assert all(confidence >= 0.05 for confidence in table["confidence"].to_list())
    assert all(path.startswith(head) for head, path in table.select("head", "path").rows())
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.json"))


def test_all_relations_are_asked(walker: LoadedWalker, tmp_path: Path):
    asked = {(head, relation) for head, relation, _ in VILLAGE.labels_of(VILLAGE.train)}
    assert walker.complete(tmp_path / "all.tsv", above=0.9).queries == len(asked)


def test_inverse_queries_give_facts_the_right_way_round(walker: LoadedWalker, tmp_path: Path):
    walker.complete(tmp_path / "new.tsv", relations=["uncle⁻¹"], above=0.0)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert set(table["relation"]) == {"uncle"}
    assert all(path.startswith(tail) for tail, path in table.select("tail", "path").rows())


def test_formats_hold_the_same(walker: LoadedWalker, tmp_path: Path):
    for ending in completing.FORMATS:
        walker.complete(tmp_path / f"new{ending}", relations=["uncle"], above=0.3)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert pl.read_parquet(tmp_path / "new.parquet").equals(table)
    lines = (tmp_path / "new.nt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(table) and all(line.startswith("<urn:hopwalk:child%20") and " . # 0." in line for line in lines)


@pytest.mark.parametrize("ending", completing.FORMATS)
def test_going_on_gives_the_same(walker: LoadedWalker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str):
    monkeypatch.setattr(completing, "QUESTIONS_AT_ONCE", 4)
    monkeypatch.setattr(completing, "SECONDS_BETWEEN_NOTES", 0.0)
    whole, target = tmp_path / f"whole{ending}", tmp_path / f"new{ending}"
    walker.complete(whole, relations=["uncle"], above=0.1)

    def stop(done: int, *_: int) -> None:
        if done >= 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        walker.complete(target, relations=["uncle"], above=0.1, on_progress=stop)
    with pytest.raises(HopwalkError, match="an interrupted run has left its table"):
        walker.complete(target, relations=["uncle"], above=0.1)
    with pytest.raises(HopwalkError, match="begun with other options"):
        walker.complete(target, relations=["uncle"], above=0.2, resume=True)
    found = walker.complete(target, relations=["uncle"], above=0.1, resume=True)
    assert 0 < found.queries_of_sitting < found.queries
    assert target.read_bytes() == whole.read_bytes()


def test_mistakes(walker: LoadedWalker, tmp_path: Path):
    with pytest.raises(SettingsError, match="no ending that says a format"):
        walker.complete(tmp_path / "new.doc")
    with pytest.raises(UnknownNameError):
        walker.complete(tmp_path / "new.tsv", relations=["zzzz"])
    (tmp_path / "new.tsv").touch()
    with pytest.raises(HopwalkError, match="a file of that name already"):
        walker.complete(tmp_path / "new.tsv")
    (tmp_path / "bad.tsv.part").touch()
    (tmp_path / "bad.tsv.progress.json").write_text(json.dumps({"done": "x"}), encoding="utf-8")
    with pytest.raises(HopwalkError, match="is damaged"):
        walker.complete(tmp_path / "bad.tsv", resume=True)


def test_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "new.tsv"
    printed = command(capsys, "complete", str(folder), "--relation", "uncle", "--above", "0.2", "--out", str(target)).out
    assert "new facts from 28 questions" in printed.replace("\n", "") and target.exists()


def test_mistakes_at_the_command_line_are_all_that_is_shown(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    told = command(capsys, "complete", str(folder), "--out", str(tmp_path / "new.doc"), code=1).err
    assert told.startswith("error: new.doc has no ending")
    (tmp_path / "file").touch()
    assert "this is a file, not the folder of a run" in command(capsys, "ask", str(tmp_path / "file"), "a", "b", code=1).err
