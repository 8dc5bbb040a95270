import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import KeySet, TriplePacking, Triples, sorted_unique
from hopwalk.errors import DataError

KEYS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 40), max_size=60).map(lambda keys: np.array(keys, dtype=np.int64))


def test_packing_by_hand():
    packing = TriplePacking(num_entities=5, num_relations=3)  # 3 + 2 + 3 bits
    keys = packing.pack_all(Triples.of([(4, 2, 3), (0, 0, 1)]))
    assert keys.tolist() == [0b100_10_011, 1]
    assert packing.unpack(keys).array().tolist() == [[4, 2, 3], [0, 0, 1]]


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 6), st.integers(0, 999)), max_size=50))
def test_packed_order_is_the_order_of_triples(rows: list[tuple[int, int, int]]):
    packing = TriplePacking(1000, 7)
    keys = sorted_unique(packing.pack_all(Triples.of(rows)))
    assert [tuple(row) for row in packing.unpack(keys).array().tolist()] == sorted(set(rows))


def test_packing_of_one_entity_and_one_relation():
    packing = TriplePacking(1, 1)
    assert packing.unpack(packing.pack_all(Triples.of([(0, 0, 0)]))).array().tolist() == [[0, 0, 0]]


def test_too_large_to_pack():
    TriplePacking(2**27, 2**9)
    with pytest.raises(DataError, match="more than hopwalk can index"):
        TriplePacking(2**27 + 1, 2**9)


@given(KEYS, KEYS)
def test_key_set_agrees_with_python(members, asked):
    found = KeySet(members).contains(asked)
    assert found.tolist() == [key in {*members.tolist()} for key in asked.tolist()]


def test_key_set_with_a_crowded_bucket():
    # Keys whose spread values share their leading bits all fall into one bucket.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    crowded = np.array([(value * inverse) % 2**64 for value in range(50)], dtype=np.uint64).view(np.int64)
    assert KeySet(crowded).contains(crowded).all()
    assert not KeySet(crowded[::2]).contains(crowded[1::2]).any()


def test_relation_ids():
    ids = RelationIds(3)
    assert (ids.num_directed, ids.stay_id, ids.start_id, ids.num_all) == (6, 6, 7, 8)
    assert ids.inverse(np.array([0, 2, 3, 5])).tolist() == [3, 5, 0, 2]
    assert ids.is_inverse(np.array([0, 2, 3, 5, 6, 7])).tolist() == [False, False, True, True, False, False]


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
