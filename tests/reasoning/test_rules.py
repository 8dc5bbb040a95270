"""Rules: their text, and how often they hold, counted by hand."""

import numpy as np
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
    siblings = Rule("brother_of", (("mother_of", True), ("mother_of", False)))  # bob and cat, dan and fay; nobody with himself
    assert COUNTER.count(siblings) == Evidence(predictions=4, support=1, is_sampled=False)
    nephews = Rule("uncle_of", (("mother_of", True), ("brother_of", True)), is_head_inverse=True)
    assert COUNTER.count(nephews) == Evidence(predictions=2, support=1, is_sampled=False)


def test_nothing_connected():
    nothing = Rule("knows", (("uncle_of", False), ("uncle_of", False)))
    assert COUNTER.count(nothing) == Evidence(0, 0, False) and COUNTER.count(nothing).confidence == 0.0
    assert COUNTER.count(Rule("knows", ())).support == 0


def test_a_part_of_many():
    found = COUNTER.count(Rule("brother_of", (("mother_of", True), ("mother_of", False))), most_heads=1)
    assert found.is_sampled and found.predictions == 1


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
        pairs = {(start, after) for start, place in pairs for before, after in step if before == place and after != start}
    found = COUNTER.count(Rule("uncle_of", body))
    assert found.predictions == len(pairs)
    assert found.support == sum((head, "uncle_of", tail) in edges for head, tail in pairs)


def test_text_of_evidence():
    assert str(Evidence(342, 199, False)) == "right 58 % of the time, 199 of 342"
    assert str(Evidence(34_200, 3, True)) == "right < 0.1 % of the time, 3 of 34,200, in a random part of the graph"
    assert str(Evidence(342, 0, False)) == "never right, 0 of 342"
    assert str(Evidence(0, 0, False)) == "connects nothing else in the graph"


def test_a_fact_is_not_its_own_reason():
    """Every a likes itself "by way of what it likes and who has the same colour"; only two of the walks are about others.

    a likes u and v, both red; b likes w, which is blue. Of likes(X,Y) ⇐ likes(X,A), colour(A,B), colour(Y,B) the pairs are (a,u)
    by v and (a,v) by u. (b,w) is connected by the fact itself only, and (a,u) would be by itself too.
    """
    facts = [("a", "likes", "u"), ("a", "likes", "v"), ("b", "likes", "w"), ("c", "likes", "u")]
    facts += [("u", "colour", "red"), ("v", "colour", "red"), ("w", "colour", "blue")]
    dataset = dataset_of(facts)
    counter = RuleCounter(dataset.facts, dataset)
    alike = Rule("likes", (("likes", False), ("colour", False), ("colour", True)))
    assert counter.count(alike) == Evidence(predictions=3, support=2, is_sampled=False)  # and c may like v
    assert counter.count(Rule("likes", (("likes", False),))) == Evidence(0, 0, False)
    back = Rule("likes", (("likes", True), ("colour", False)), is_head_inverse=True)  # u ←likes— a; a has no colour
    assert counter.count(back) == Evidence(0, 0, False)
    there_and_back = Rule("likes", (("likes", False), ("likes", True), ("likes", False)))
    assert counter.count(there_and_back) == Evidence(predictions=1, support=0, is_sampled=False)  # c, u, a, v


@pytest.mark.parametrize("seed", range(6))
def test_counting_is_enumeration_without_the_fact_itself(seed: int):
    """On random graphs, with the head's relation anywhere in the body: against walks that are enumerated one by one."""
    random = np.random.default_rng(seed)
    triples = {(f"e{a}", f"r{r}", f"e{b}") for a, r, b in zip(*(random.integers(0, n, 40) for n in (8, 3, 8)), strict=True)}
    dataset = dataset_of(sorted(triples))
    body = tuple((f"r{random.integers(3)}", bool(random.integers(2))) for _ in range(random.integers(1, 5)))
    rule = Rule("r0", body, bool(random.integers(2)))
    facts = {(b, r, a) for a, r, b in triples} if rule.is_head_inverse else triples
    pairs = set()
    for start in {a for a, _, _ in triples} | {b for _, _, b in triples}:
        walks: list[list[str]] = [[start]]
        for name, is_inverse in body:
            step = [(b, a) if is_inverse else (a, b) for a, r, b in triples if r == name]
            walks = [[*walk, after] for walk in walks for before, after in step if before == walk[-1] and after != start]
        own = body[0] == ("r0", rule.is_head_inverse)
        pairs |= {(start, walk[-1]) for walk in walks if not (own and walk[1] == walk[-1] and (start, "r0", walk[-1]) in facts)}
    found = RuleCounter(dataset.facts, dataset).count(rule)
    assert found == Evidence(len(pairs), sum((a, "r0", b) in facts for a, b in pairs), False)


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """After enough predictions the rest of the graph is not read, and matrices do not pile up."""
    facts = [(f"a{a}", "r", f"b{b}") for a in range(40) for b in range(5)]
    dataset = dataset_of(facts)
    siblings = Rule("r", (("r", False), ("r", True)))
    monkeypatch.setattr("hopwalk.reasoning.rules.HEADS_AT_ONCE", 10)
    monkeypatch.setattr("hopwalk.reasoning.rules.MOST_PAIRS", 400)
    monkeypatch.setattr("hopwalk.reasoning.rules.MOST_BYTES", 0)
    assert RuleCounter(dataset.facts, dataset).count(siblings) == Evidence(2 * 10 * 39, 0, True)
