"""Missing facts for a whole graph: the facts that are proposed, the formats, and resuming after an interruption."""

import json
import shutil
import time
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hopwalk import api
from hopwalk.data.kinds import Kinds
from hopwalk.errors import HopwalkError, SettingsError, UnknownNameError
from hopwalk.learning.run import Run
from hopwalk.reasoning.completing import COLUMNS, FORMATS, STAGES, Completed
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.walker_model import WalkerModel
from tests.support.villages import VILLAGE


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


def test_held_out_facts_are_found(reasoner: Reasoner, tmp_path: Path):
    found = reasoner.complete(tmp_path / "new.tsv", relations=["uncle"], above=0.05)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert table.columns == list(COLUMNS) and len(table) == found.facts > 0
    proposed = set(table.select("head", "relation", "tail").rows())
    known = set(VILLAGE.labels_of(VILLAGE.train))
    assert not proposed & known
    hidden = {fact for fact in VILLAGE.labels_of(VILLAGE.test) if any(fact[:2] == (head, "uncle") for head, _, _ in known)}
    assert len(proposed & hidden) >= 0.5 * len(hidden)
    assert all(probability >= 0.05 for probability in table["probability"].to_list())
    assert all(path.startswith(head) for head, path in table.select("head", "path").rows())
    assert {path.name for path in tmp_path.iterdir()} == {"new.tsv", "new.tsv.progress.json"}


def test_every_head_that_could_have_a_relation_is_asked(reasoner: Reasoner, tmp_path: Path):
    """Those that have it, and those of their kind: children whose uncles are all unknown too."""
    known = {(head, relation) for head, relation, _ in VILLAGE.labels_of(VILLAGE.train)}
    found = reasoner.complete(tmp_path / "all.tsv", above=0.9)
    assert found.queries == sum(len(Kinds(VILLAGE).heads(relation)) for relation in range(4)) > len(known)
    reasoner.complete(tmp_path / "new.tsv", relations=["uncle"], above=0.0)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert {*table["head"]} == {f"child {number}" for number in range(32)} > {head for head, name in known if name == "uncle"}


def test_heads_can_be_chosen(reasoner: Reasoner, tmp_path: Path):
    found = reasoner.complete(tmp_path / "new.tsv", relations=["uncle"], heads=["Child_3", "child 5", "child 5"], above=0.0)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert found.queries == 2 and {*table["head"]} == {"child 3", "child 5"}
    with pytest.raises(UnknownNameError, match="there is no entity 'nobody'"):
        reasoner.complete(tmp_path / "more.tsv", heads=["nobody"])


def test_the_most_likely_come_first_with_their_rules(reasoner: Reasoner, tmp_path: Path):
    reasoner.complete(tmp_path / "new.tsv", relations=["uncle"], above=0.0)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert table["probability"].is_sorted(descending=True) and table.select("head", "tail").is_unique().all()
    row = table.filter(pl.col("rule") == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)").row(0, named=True)
    pairs = {
        (child, uncle)
        for child, name, mother in VILLAGE.labels_of(VILLAGE.train)
        if name == "mother"
        for sister, other, uncle in VILLAGE.labels_of(VILLAGE.train)
        if (sister, other) == (mother, "brother")
    }
    uncles = {(child, uncle) for child, name, uncle in VILLAGE.labels_of(VILLAGE.train) if name == "uncle"}
    assert row["rule_support"] == len(pairs & uncles)
    assert row["rule_confidence"] == pytest.approx(len(pairs & uncles) / len(pairs), abs=1e-6)


def test_inverse_queries_give_facts_in_their_own_direction(reasoner: Reasoner, tmp_path: Path):
    reasoner.complete(tmp_path / "new.tsv", relations=["uncle⁻¹"], above=0.0)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert set(table["relation"]) == {"uncle"} and all(head.startswith("child") for head in table["head"])
    for head, tail, path in table.select("head", "tail", "path").rows():
        assert (path.startswith(head) and path.endswith(tail)) or (path.startswith(tail) and path.endswith(head))


def test_all_formats_hold_the_same_facts(reasoner: Reasoner, tmp_path: Path):
    for suffix in FORMATS:
        reasoner.complete(tmp_path / f"new{suffix}", relations=["uncle"], above=0.3)
    table = pl.read_csv(tmp_path / "new.tsv", separator="\t", quote_char=None)
    assert pl.read_parquet(tmp_path / "new.parquet").equals(table)
    lines = (tmp_path / "new.nt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(table) and all(line.startswith("<urn:hopwalk:child%20") and " . # 0." in line for line in lines)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_resumed_run_writes_the_same_file(reasoner: Reasoner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str):
    monkeypatch.setattr(WalkerModel, "queries_at_once", 4)
    monkeypatch.setattr(time, "monotonic", count(step=10).__next__)  # time enough for a record after every batch
    whole, target = tmp_path / f"whole{suffix}", tmp_path / f"new{suffix}"
    reasoner.complete(whole, relations=["uncle"], above=0.1)

    def stop(done: int, *_: object) -> None:
        if done >= 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reasoner.complete(target, relations=["uncle"], above=0.1, on_progress=stop)
    with pytest.raises(HopwalkError, match="an interrupted run has left its table"):
        reasoner.complete(target, relations=["uncle"], above=0.1)
    with pytest.raises(HopwalkError, match="begun with other options"):
        reasoner.complete(target, relations=["uncle"], above=0.2, resume=True)
    found = reasoner.complete(target, relations=["uncle"], above=0.1, resume=True)
    assert 0 < found.queries_of_session < found.queries
    assert target.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_resuming_what_is_complete_changes_nothing(reasoner: Reasoner, tmp_path: Path, suffix: str):
    """As after a kill between the end of the work and the end of the process."""
    target, options = tmp_path / f"new{suffix}", dict[str, Any](relations=["uncle"], above=0.1)
    first = reasoner.complete(target, **options, resume=True)
    content, names = target.read_bytes(), sorted(tmp_path.iterdir())
    again = reasoner.complete(target, **options, resume=True)
    assert (again.queries, again.facts, again.was_complete) == (first.queries, first.facts, True) and not first.was_complete
    for leftover in (".part", ".sorted"):
        (tmp_path / f"{target.name}{leftover}").write_bytes(b"rest")
    assert reasoner.complete(target, **options, resume=True).was_complete
    assert target.read_bytes() == content and sorted(tmp_path.iterdir()) == names
    with pytest.raises(HopwalkError, match="already a file of that name"):
        reasoner.complete(target, **options)
    target.unlink()  # the record alone is no table: it is made again, also with other options
    assert not reasoner.complete(target, relations=["uncle"], above=0.2, resume=True).was_complete
    with pytest.raises(HopwalkError, match="made with other options"):
        reasoner.complete(target, **options, resume=True)


def test_a_complete_table_of_another_run_or_changed_is_refused(uncles_run: Path, tmp_path: Path):
    """Another run of the same data: its facts are others."""
    target, copy = tmp_path / "new.tsv", tmp_path / "run"
    api.load(uncles_run).complete(target, relations=["uncle"], above=0.1)
    shutil.copytree(uncles_run, copy)
    assert api.load(copy).complete(target, relations=["uncle"], above=0.1, resume=True).was_complete
    settings = copy / "settings.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("hops = ", "hops =  "), encoding="utf-8")
    Run.open(copy).accept()
    with pytest.raises(HopwalkError, match="by another run"):
        api.load(copy).complete(target, relations=["uncle"], above=0.1, resume=True)
    with target.open("ab") as file:
        file.write(b"x")
    with pytest.raises(HopwalkError, match="changed since it was written"):
        api.load(uncles_run).complete(target, relations=["uncle"], above=0.1, resume=True)


class Stopped:
    """A completion that was stopped after its first rows."""

    def __init__(self, reasoner: Reasoner, folder: Path) -> None:
        self._reasoner, self.target = reasoner, folder / "new.tsv"
        self.part, self.record = folder / "new.tsv.part", folder / "new.tsv.progress.json"
        with pytest.raises(KeyboardInterrupt):
            reasoner.complete(self.target, relations=["uncle"], above=0.1, on_progress=self._stop)

    def _stop(self, done: int, total: int, facts: int, stage: str) -> None:
        if stage == STAGES[1]:
            raise KeyboardInterrupt

    def resume(self) -> Completed:
        return self._reasoner.complete(self.target, relations=["uncle"], above=0.1, resume=True)


@pytest.fixture
def stopped(reasoner: Reasoner, tmp_path: Path) -> Stopped:
    return Stopped(reasoner, tmp_path)


@pytest.mark.parametrize("changed", [{"stage": 2}, {"done": 7}, {"ends": None}, {"facts": 10**6}, {"sha256": "0"}, {"check": 1}])
@pytest.mark.parametrize("is_complete", [False, True])
def test_damaged_records_are_refused(stopped: Stopped, changed: dict[str, object], is_complete: bool):
    """Each change by itself would give another table, or another count."""
    if is_complete:
        stopped.resume()
    stopped.record.write_text(json.dumps(json.loads(stopped.record.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    with pytest.raises(HopwalkError, match="the record of the progress is damaged"):
        stopped.resume()


def test_changed_rows_and_foreign_tables_are_refused(stopped: Stopped):
    content = bytearray(stopped.part.read_bytes())
    content[3] ^= 1
    stopped.part.write_bytes(content)
    with pytest.raises(HopwalkError, match="the rows were changed since they were written"):
        stopped.resume()
    stopped.target.touch()
    with pytest.raises(HopwalkError, match="already a file of that name"):
        stopped.resume()
    stopped.target.unlink()
    stopped.part.unlink()  # without rows it begins again
    assert stopped.resume().facts > 0


def test_mistakes(reasoner: Reasoner, tmp_path: Path):
    with pytest.raises(SettingsError, match=r"the format of new\.doc is not known"):
        reasoner.complete(tmp_path / "new.doc")
    with pytest.raises(UnknownNameError):
        reasoner.complete(tmp_path / "new.tsv", relations=["zzzz"])
    (tmp_path / "new.tsv").touch()
    with pytest.raises(HopwalkError, match="already a file of that name"):
        reasoner.complete(tmp_path / "new.tsv")
    (tmp_path / "bad.tsv.part").touch()
    (tmp_path / "bad.tsv.progress.json").write_text(json.dumps({"done": "x"}), encoding="utf-8")
    with pytest.raises(HopwalkError, match="is damaged"):
        reasoner.complete(tmp_path / "bad.tsv", resume=True)
