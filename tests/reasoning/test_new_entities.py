"""Entities that training never saw: propagation answers about them and with them; models with embeddings refuse them."""

import itertools
from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import UnknownNameError
from hopwalk.reasoning.reasoner import Reasoner
from tests.support.helpers import facts_of
from tests.support.villages import VILLAGE


@pytest.fixture(scope="module")
def reasoner(propagation_run: Path) -> Reasoner:
    return hopwalk.load(propagation_run)


def brothers_of(mother: str) -> set[str]:
    return {tail for head, relation, tail in VILLAGE.labels_of(VILLAGE.facts) if (head, relation) == (mother, "brother")}


@pytest.mark.parametrize("child", ["aaron", "child 15b", "zoe", "Ünal"])
def test_a_new_entity_is_asked_about(reasoner: Reasoner, child: str):
    """A child of a known mother has her brothers as uncles, wherever its name is in the order of labels."""
    more = reasoner.with_facts([(child, "mother", "mother 5")])
    assert more.new_entities == (child,) and len(more.dataset.entities) == len(VILLAGE.entities) + 1
    answers = more.ask(child, "uncle", k=2)
    assert {answer.entity for answer in answers} == brothers_of("mother 5")
    for answer in answers:
        assert not answer.is_known and str(answer.paths[0]) == f"{child} —mother→ mother 5 —brother→ {answer.entity}"
    known = more.ask(child, "mother", k=50)
    assert [answer.entity for answer in known if answer.is_known] == ["mother 5"]
    explained = more.explain(child, "uncle", answers[0].entity)
    assert explained.rank == 1 and str(explained.reasons[0].rule) == "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)"


def test_a_new_entity_is_an_answer(reasoner: Reasoner):
    child = "child 5"
    assert (child, "mother", "mother 5") in facts_of(VILLAGE)
    more = reasoner.with_facts([("mother 5", "brother", "Uncle Joe")])
    (joe,) = [answer for answer in more.ask(child, "uncle", k=5, only_new=True) if answer.entity == "Uncle Joe"]
    assert str(joe.paths[0]) == f"{child} —mother→ mother 5 —brother→ Uncle Joe"
    assert joe.probability is not None and joe.probability > 0.1
    assert more.explain(child, "uncle", "uncle_joe").rank == joe.rank


def test_other_answers_stay_as_they_were(reasoner: Reasoner):
    """New entities far from all others move the ids of the others, and nothing else."""
    more = reasoner.with_facts([("aaron", "knows", "abel"), ("child 0a", "knows", "zoe")])
    queries = [(head, "uncle") for head in ("child 0", "child 9", "child 31")] + [("man 3", "uncle⁻¹")]
    for before, after in zip(reasoner.ask_many(queries), more.ask_many(queries), strict=True):
        was = {answer.entity: answer for answer in before}
        assert {answer.entity for answer in after} == {*was}
        for answer in after:
            one = was[answer.entity]
            assert (answer.key, answer.is_known) == (one.key, one.is_known)
            assert answer.score == pytest.approx(one.score, abs=1e-4)
            assert [str(path) for path in answer.paths] == [str(path) for path in one.paths]
        # A softmax over a few more entities moves probabilities a little, so those that were nearly the same may change places.
        chances = [was[answer.entity].probability or 1.0 for answer in after]
        assert all(second <= 1.05 * first for first, second in itertools.pairwise(chances))
    added = {("aaron", "knows", "abel"), ("child 0a", "knows", "zoe")}
    assert facts_of(more.dataset) == facts_of(VILLAGE) | added
    assert facts_of(more.dataset, "test") == facts_of(VILLAGE, "test")


def test_the_reasoner_itself_is_unchanged(reasoner: Reasoner):
    before = reasoner.ask("child 0", "uncle")
    reasoner.with_facts([("child 0", "mother", "aaron"), ("aaron", "brother", "man 1")])
    assert reasoner.ask("child 0", "uncle") == before and reasoner.new_entities == ()
    assert "aaron" not in reasoner.dataset.entities
    with pytest.raises(UnknownNameError, match="there is no entity 'aaron'"):
        reasoner.ask("aaron", "uncle")


def test_facts_can_be_added_again(reasoner: Reasoner):
    once = reasoner.with_facts([("new child", "mother", "new mother")])
    twice = once.with_facts([("new mother", "brother", "man 7"), ("another child", "mother⁻¹", "new child")])
    assert twice.new_entities == ("new child", "new mother", "another child")
    assert twice.ask("new child", "uncle", k=1)[0].entity == "man 7"
    assert ("new child", "mother", "another child") in facts_of(twice.dataset)


def test_other_spellings_are_not_new(reasoner: Reasoner):
    more = reasoner.with_facts([("CHILD_0", "knows", "Man-3")])
    assert more.new_entities == () and ("child 0", "knows", "man 3") in facts_of(more.dataset)


def test_a_relation_must_be_known(reasoner: Reasoner):
    with pytest.raises(UnknownNameError, match=r"fact 2 \(b mothr c\): there is no relation 'mothr'") as raised:
        reasoner.with_facts([("a", "knows", "b"), ("b", "mothr", "c")])
    assert "mother" in raised.value.remedy and "relations that the run was trained with" in raised.value.remedy


@pytest.mark.parametrize("kind", ["walker", "embedding model"])
def test_models_with_embeddings_refuse_new_entities(village_run: Path, kind: str):
    reasoner = hopwalk.load(village_run if kind == "walker" else village_run / "scorer")
    with pytest.raises(UnknownNameError, match=r"fact 1 \(new child mother mother 5\): there is no entity 'new child'") as raised:
        reasoner.with_facts([("new child", "mother", "mother 5")])
    assert raised.value.remedy.endswith("a propagation model takes new entities.")
    assert len(reasoner.with_facts([("child 0", "mother", "mother 5")]).dataset.facts) == len(VILLAGE.facts) + 1
