"""Profiles of entities: facts by relation and page, and similar entities, counted by hand."""

from collections import Counter

import numpy as np
import pytest

from hopwalk.data.known_answers import KnownAnswers
from hopwalk.reasoning import profiles
from hopwalk.reasoning.profiles import Profiler
from tests.support.helpers import Fact, dataset_of
from tests.support.villages import VILLAGE

FACTS: list[Fact] = [
    ("aspirin", "treats", "pain"),
    ("aspirin", "treats", "fever"),
    ("aspirin", "inhibits", "COX-1"),
    ("ibuprofen", "treats", "pain"),
    ("ibuprofen", "treats", "fever"),
    ("ibuprofen", "inhibits", "COX-2"),
    ("morphine", "treats", "pain"),
    ("pain", "is_a", "symptom"),
    ("fever", "is_a", "symptom"),
]


def profiler_of(facts: list[Fact]) -> tuple[Profiler, dict[str, int]]:
    dataset = dataset_of(facts)
    known = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))
    return Profiler(dataset, known), {label: id_ for id_, label in enumerate(dataset.entities)}


def test_facts_by_relation_and_similar_entities():
    profiler, ids = profiler_of(FACTS)
    found = profiler.profile(ids["aspirin"], num_facts=1, num_similar=5)
    assert found.total == 3
    shown = [(one.relation, one.is_inverse, one.total, [near.key for near in one.neighbours]) for one in found.relations]
    assert shown == [("treats", False, 2, ["fever"]), ("inhibits", False, 1, ["COX-1"])]
    assert [(one.key, one.shared, one.facts) for one in found.similar] == [("ibuprofen", 2, 3), ("morphine", 1, 1)]
    backward = profiler.profile(ids["pain"], num_facts=5, num_similar=5)
    assert [(one.relation, one.total) for one in backward.relations] == [("treats⁻¹", 3), ("is_a", 1)]
    assert [(one.key, one.shared) for one in backward.similar] == [("fever", 3)]  # two treatments, and a symptom


def test_pages_cover_all_facts_once():
    profiler, ids = profiler_of([("hub", "has", f"leaf {number:02}") for number in range(25)])
    pages = [profiler.facts(ids["hub"], 0, offset=offset, limit=10) for offset in (0, 10, 20, 30)]
    assert [len(page.neighbours) for page in pages] == [10, 10, 5, 0] and {page.total for page in pages} == {25}
    assert [one.key for page in pages for one in page.neighbours] == [f"leaf {number:02}" for number in range(25)]


def test_similar_entities_are_those_that_share_most_pairs():
    known = KnownAnswers([VILLAGE.facts], len(VILLAGE.entities), len(VILLAGE.relations))
    profiler, num = Profiler(VILLAGE, known), len(VILLAGE.relations)
    pairs: dict[int, set[tuple[int, int]]] = {}
    for head, relation, tail in VILLAGE.facts.array().tolist():
        pairs.setdefault(head, set()).add((relation, tail))
        pairs.setdefault(tail, set()).add((relation + num, head))
    for entity in range(0, len(VILLAGE.entities), 7):
        shared = Counter({other: len(pairs[entity] & pairs[other]) for other in pairs if other != entity})
        best = sorted((-count, len(pairs[other]), other) for other, count in shared.items() if count)[:4]
        found = profiler.similar(entity, 4)
        assert [(-one.shared, one.facts, VILLAGE.entities.id(one.key)) for one in found] == best


def test_the_cost_of_a_hub_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiles, "MOST_PAIRS", 20)
    monkeypatch.setattr(profiles, "MOST_SHARED", 50)
    facts: list[Fact] = [(f"person {number}", "lives_in", "city") for number in range(100)]
    facts += [("person 0", "owns", "shop"), ("person 1", "owns", "shop")]
    profiler, ids = profiler_of(facts)
    assert [one.key for one in profiler.similar(ids["person 0"], 9)] == ["person 1"]  # the city is too common to count
    assert profiler.similar(ids["city"], 9) == ()
    assert len(profiler._pairs(ids["city"])[0]) == 20


def test_counts_are_those_of_the_answers():
    known = KnownAnswers([VILLAGE.facts], len(VILLAGE.entities), len(VILLAGE.relations))
    heads, relations = (np.array(part, dtype=np.int32) for part in ([0, 3, 5, 5], [0, 1, 2, 6]))
    assert known.counts(heads, relations).tolist() == np.diff(known.answers(heads, relations)[0]).tolist()
    assert known.degrees(heads).tolist() == VILLAGE.degrees[heads].tolist()
