"""Missing facts for a whole graph: the facts that are proposed, the formats, and resuming after an interruption."""

import json
import time
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from hopwalk import api
from hopwalk.data.kinds import Kinds
from hopwalk.errors import HopwalkError, SettingsError, UnknownNameError
from hopwalk.reasoning.completing import COLUMNS, FORMATS
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
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.json"))


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
