"""Known answers by hand, and membership against the lists."""

import numpy as np
import pytest

from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples


@pytest.fixture
def known() -> KnownAnswers:
    train, valid = Triples.of([(0, 0, 1), (0, 0, 3), (2, 1, 2)]), Triples.of([(0, 0, 2), (0, 0, 1)])
    return KnownAnswers([train, valid], num_entities=4, num_relations=2)


def test_known_answers_by_hand(known: KnownAnswers):
    heads, relations = np.array([0, 0, 3, 2, 2], dtype=np.int32), np.array([0, 1, 2, 1, 3], dtype=np.int32)
    offsets, tails = known.answers(heads, relations)
    assert offsets.tolist() == [0, 3, 3, 4, 5, 6]
    assert tails.tolist() == [1, 2, 3, 0, 2, 2]  # (3, 0⁻¹, ?) is 0; (2, 1, ?) and (2, 1⁻¹, ?) are 2
    assert len(known) == 8


def test_stay_and_start_have_no_known_answers():
    known = KnownAnswers([Triples.of([(1, 0, 2)])], num_entities=4, num_relations=32)
    for relation in (RelationIds(32).stay_id, RelationIds(32).start_id):
        ids = [np.array([id_], dtype=np.int32) for id_ in (0, relation, 2)]
        assert not known.contains(*ids)


def test_known_answers_membership_agrees_with_the_lists(known: KnownAnswers):
    heads, relations, tails = (grid.ravel().astype(np.int32) for grid in np.meshgrid(range(4), range(4), range(4)))
    for head, relation, tail, is_known in zip(heads, relations, tails, known.contains(heads, relations, tails), strict=True):
        _, answers = known.answers(heads[:1] * 0 + head, relations[:1] * 0 + relation)
        assert is_known == (tail in answers)


def test_known_answers_of_nothing():
    known = KnownAnswers([Triples.of([])], num_entities=4, num_relations=2)
    ids = np.array([1], dtype=np.int32)
    assert known.contains(ids, ids, ids).tolist() == [False]
    assert known.answers(ids, ids)[1].tolist() == []


def test_edges_are_the_facts_of_heads_in_both_directions():
    """(0, 0, 1), (0, 1, 2) and (2, 0, 0): relations 0 and 1 have the inverses 2 and 3."""
    known = KnownAnswers([Triples.of([(0, 0, 1), (0, 1, 2), (2, 0, 0)])], 4, 2)
    offsets, edges = known.edges(np.array([2, 3, 0], dtype=np.int32))
    assert offsets.tolist() == [0, 2, 2, 5]
    assert edges.array().tolist() == [[2, 0, 0], [2, 3, 0], [0, 0, 1], [0, 1, 2], [0, 2, 2]]
    assert known.edges(np.array([], dtype=np.int32))[0].tolist() == [0]
