"""Proposed facts: the same as those that are asked for one by one, bounded, the likeliest first."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.reasoning.reasoner import Reasoner


@pytest.fixture(scope="module")
def reasoner(propagation_run: Path) -> Reasoner:
    return hopwalk.load(propagation_run)


def test_those_of_an_entity_and_a_relation_are_its_answers(reasoner: Reasoner):
    found = reasoner.propose("child 0", "uncle", above=0.0, k=5, num_paths=2)
    expected = reasoner.ask("child 0", "uncle", k=5, num_paths=2, only_new=True)
    assert [(fact.head, fact.relation, fact.tail, fact.probability) for fact in found.facts] == [
        ("child 0", "uncle", answer.key, answer.probability) for answer in expected
    ]
    assert [fact.paths for fact in found.facts] == [answer.paths for answer in expected]
    assert (found.num_asked, found.num_queries, found.total) == (1, 1, 10)


def test_facts_found_against_the_arrow_are_turned_round(reasoner: Reasoner):
    found = reasoner.propose("man 1", "uncle⁻¹", above=0.0)
    assert {fact.tail for fact in found.facts} == {"man 1"} and {fact.relation for fact in found.facts} == {"uncle"}
    assert {fact.asked for fact in found.facts} == {"man 1"}
    assert all(path.head == "man 1" for fact in found.facts for path in fact.paths)


def test_an_entity_is_asked_about_all_that_it_or_its_like_have(reasoner: Reasoner):
    found = reasoner.propose("child 0", above=0.001, k=1000)
    assert {"mother", "uncle", "knows"} <= {fact.relation for fact in found.facts}
    assert all("child 0" in (fact.head, fact.tail) for fact in found.facts)
    chances = [fact.probability for fact in found.facts]
    assert chances == sorted(chances, reverse=True) and chances[-1] >= 0.001
    facts = {(fact.head, fact.relation, fact.tail) for fact in found.facts}
    assert len(facts) == len(found.facts) and not facts & set(reasoner.dataset.labels_of(reasoner.dataset.facts))


def test_a_relation_is_asked_for_its_heads_and_the_cut_is_told(reasoner: Reasoner):
    heads = {head for head, relation, _ in reasoner.dataset.labels_of(reasoner.dataset.facts) if relation == "uncle"}
    found = reasoner.propose(relation="uncle", above=0.0, k=10_000)
    assert found.num_asked == found.num_queries == len(heads) and {fact.head for fact in found.facts} <= heads
    held_out = set(reasoner.dataset.labels_of(reasoner.dataset.test))
    best = reasoner.propose(relation="uncle", above=0.0, k=20)
    assert {(fact.head, fact.relation, fact.tail) for fact in best.facts} & held_out, "what it learnt is at the top"
    cut = reasoner.propose(relation="uncle", above=0.0, k=10_000, most_queries=5)
    assert (cut.num_asked, cut.num_queries) == (5, len(heads)) and len({fact.head for fact in cut.facts}) <= 5
    assert reasoner.propose(relation="uncle", above=1.0).facts == ()
    assert found.to_dict()["total"] == found.total


def test_wrong_questions(reasoner: Reasoner):
    with pytest.raises(HopwalkError, match="neither an entity nor a relation"):
        reasoner.propose()
    with pytest.raises(SettingsError, match="most_queries must be a whole number"):
        reasoner.propose("child 0", most_queries=0)
    with pytest.raises(HopwalkError, match="there is no relation"):
        reasoner.propose("child 0", "zzz")
