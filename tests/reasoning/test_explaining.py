"""Explanations: why an entity is an answer, and why not."""

from pathlib import Path

import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import SettingsError
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.helpers import dataset_of
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker


@pytest.fixture(scope="module")
def reasoner(uncles_run: Path) -> Reasoner:
    return api.load(uncles_run)


def test_a_reason_has_its_rule(reasoner: Reasoner):
    head, relation, tail = VILLAGE.labels_of(VILLAGE.test)[0]
    found = reasoner.explain(head, relation, tail)
    assert not found.is_known and found.rank is not None and found.rank <= 3 and not found.why_not
    first = found.reasons[0]
    assert str(first.rule) == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"
    assert first.evidence.confidence > 0.5
    assert found.to_dict()["reasons"][0]["support"] == first.evidence.support


def test_a_known_fact_is_not_its_own_reason(reasoner: Reasoner):
    head, relation, tail = next(fact for fact in VILLAGE.labels_of(VILLAGE.train) if fact[1] == "uncle")
    found = reasoner.explain(head, relation, tail)
    assert found.is_known and found.reasons
    edges = [(edge.relation, edge.entity) for reason in found.reasons for path in reason.paths for edge in path.edges[:1]]
    assert ("uncle", tail) not in edges


def test_why_not(tmp_path: Path):
    """A chain of five, walked in two hops with a beam of one: too far, cut off by the fan-out, or lost in the beam."""
    facts = [
        ("a", "next", "b"),
        ("b", "next", "c"),
        ("c", "next", "d"),
        ("d", "next", "e"),
        ("a", "likes", "x"),
        ("x", "likes", "y"),
    ]
    settings = settings_of(ALONE | {"walk.beam": 1, "walker.epochs": 1})
    reasoner = api.load(train_walker(dataset_of(facts), settings, out=tmp_path / "run").path)
    assert reasoner.explain("a", "likes", "e").why_not == "No path of at most 2 hops leads there."
    assert "No path but the fact itself leads there" in reasoner.explain("a", "likes", "x").why_not
    unreached = [found for tail in ("c", "y", "b") if (found := reasoner.explain("a", "likes", tail)).rank is None]
    assert unreached and all("Its best path is lost at hop" in found.why_not and not found.reasons for found in unreached)
    narrow = changed(settings, {"graph.fan_out": 1})
    cut = api.load(train_walker(dataset_of(facts), narrow, out=tmp_path / "narrow").path)
    reasons = {cut.explain("a", "likes", tail).why_not for tail in ("c", "y")}
    assert any("cut by the fan-out limit of 1" in text for text in reasons)


@pytest.mark.parametrize("k", [1, 10, 15, 40])
def test_ranks_are_those_of_a_list_as_long(propagation_run: Path, k: int):
    """The longer a list, the more candidates are ranked by probability; explain looks at as many."""
    reasoner = api.load(propagation_run)
    for answer in reasoner.ask("child 0", "uncle", k=k, only_new=True)[:: max(k // 3, 1)]:
        found = reasoner.explain("child 0", "uncle", answer.key, k=k)
        assert found.rank == answer.rank and found.probability == pytest.approx(answer.probability, abs=1e-4)
    with pytest.raises(SettingsError, match="k must be a whole number"):
        reasoner.explain("child 0", "uncle", "man 1", k=0)
