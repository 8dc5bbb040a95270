"""Triples packed into integer keys, and sets of keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    with pytest.raises(DataError, match="are too many to index"):
        TriplePacking(2**27 + 1, 2**9)


@given(KEYS, KEYS)
def test_key_set_agrees_with_python(members, keys):
    found = KeySet(members).contains(keys)
    assert found.tolist() == [key in {*members.tolist()} for key in keys.tolist()]


def test_key_set_with_a_crowded_bucket():
    # Keys whose hashes share their leading bits are all in one bucket.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    crowded = np.array([(value * inverse) % 2**64 for value in range(50)], dtype=np.uint64).view(np.int64)
    assert KeySet(crowded).contains(crowded).all()
    assert not KeySet(crowded[::2]).contains(crowded[1::2]).any()
