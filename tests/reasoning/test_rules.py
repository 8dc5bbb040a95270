"""Rules: their text, and how often they hold, counted by hand."""

import pytest

from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter, anyburl_line
from tests.support.helpers import FAMILY, dataset_of

FAMILIES = dataset_of([*FAMILY, ("cat", "mother_of", "fay"), ("bob", "uncle_of", "eve")])
COUNTER = RuleCounter(FAMILIES.facts, FAMILIES)
UNCLE = Rule("uncle_of", (("brother_of", False), ("mother_of", False)))


def test_text():
    assert str(UNCLE) == "uncle_of(X,Y) ⇐ brother_of(X,A), mother_of(A,Y)"
    assert str(Rule("affects", (("affects", False), ("affects", True)))) == "affects(X,Y) ⇐ affects(X,A), affects(Y,A)"
    assert str(Rule("knows", (("knows", True),), is_head_inverse=True)) == "knows(Y,X) ⇐ knows(Y,X)"
    assert str(Rule("knows", ())) == "knows(X,Y) ⇐ X = Y"


def test_counts():
    """Bob is a brother of Cat, who has Dan and Fay: the rule gives two facts, of which one is known."""
    assert COUNTER.count(UNCLE) == Evidence(predictions=2, support=1, is_sampled=False)
    assert COUNTER.count(UNCLE).confidence == 0.5
    siblings = Rule("brother_of", (("mother_of", True), ("mother_of", False)))  # bob, cat, dan and fay, each with itself
    assert COUNTER.count(siblings) == Evidence(predictions=8, support=1, is_sampled=False)
    nephews = Rule("uncle_of", (("mother_of", True), ("brother_of", True)), is_head_inverse=True)
    assert COUNTER.count(nephews) == Evidence(predictions=2, support=1, is_sampled=False)


def test_nothing_connected():
    nothing = Rule("knows", (("uncle_of", False), ("uncle_of", False)))
    assert COUNTER.count(nothing) == Evidence(0, 0, False) and COUNTER.count(nothing).confidence == 0.0
    assert COUNTER.count(Rule("knows", ())).support == 0


def test_a_part_of_many():
    found = COUNTER.count(Rule("mother_of", (("mother_of", False),)), most_heads=1)
    assert found.is_sampled and found.support == found.predictions == 2


def test_anyburl_line():
    line = anyburl_line(UNCLE, Evidence(2, 1, False))
    assert line.split("\t") == ["2", "1", "0.500000", "uncle_of(X,Y) <= brother_of(X,A), mother_of(A,Y)"]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_counting_is_enumeration(hops: int):
    """Against all pairs that a walk along the body connects."""
    edges = {(head, relation, tail) for head, relation, tail in FAMILIES.labels_of(FAMILIES.facts)}
    body = (("mother_of", False), ("brother_of", True), ("mother_of", True))[:hops]
    pairs = {(entity, entity) for entity in FAMILIES.entities}
    for name, is_inverse in body:
        step = {(tail, head) if is_inverse else (head, tail) for head, relation, tail in edges if relation == name}
        pairs = {(start, after) for start, place in pairs for before, after in step if before == place}
    found = COUNTER.count(Rule("mother_of", body))
    assert found.predictions == len(pairs)
    assert found.support == sum((head, "mother_of", tail) in edges for head, tail in pairs)
