"""Triples of ids as three columns, and fast look-up of millions of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.errors import DataError

Ids = NDArray[np.int32]
Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Triples:
    """Facts `(head, relation, tail)` as three int32 columns of the same length.

    Those of a `Dataset` are sorted by (head, relation, tail), without duplicates.
    """

    heads: Ids
    relations: Ids
    tails: Ids

    def __len__(self) -> int:
        return len(self.heads)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Triples:
        return Triples(self.heads[rows], self.relations[rows], self.tails[rows])

    def __repr__(self) -> str:
        return f"Triples({len(self):,})"

    def array(self) -> Ids:
        """One int32 array in the order head, relation, tail [N, 3]."""
        return np.stack([self.heads, self.relations, self.tails], axis=1)

    @staticmethod
    def of(rows: Iterable[tuple[int, int, int]]) -> Triples:
        """Triples from rows of ids.

        >>> Triples.of([(0, 1, 2)]).tails
        array([2], dtype=int32)
        """
        array = np.array(list(rows), dtype=np.int32).reshape(-1, 3)
        return Triples(array[:, 0], array[:, 1], array[:, 2])

    @staticmethod
    def concatenate(parts: Iterable[Triples]) -> Triples:
        """The triples of all parts, in order."""
        listed = list(parts)
        return Triples(
            np.concatenate([part.heads for part in listed]),
            np.concatenate([part.relations for part in listed]),
            np.concatenate([part.tails for part in listed]),
        )


@dataclass(frozen=True)
class TriplePacking:
    """The packing of (head, relation, tail) into one int64 key; keys sort like triples.

    Sorting, comparing and looking up facts then work on integers, which numpy does several times faster than on rows.
    """

    num_entities: int
    num_relations: int

    def __post_init__(self) -> None:
        if 2 * self._entity_bits + self._relation_bits > 63:
            raise DataError(
                f"{self.num_entities:,} entities and {self.num_relations:,} relations are too many to index",
                remedy="Two entities and a relation must fit into 63 bits, as 134 million entities with 512 relations do.",
            )

    @property
    def _entity_bits(self) -> int:
        return max(self.num_entities - 1, 0).bit_length()

    @property
    def _relation_bits(self) -> int:
        return max(self.num_relations - 1, 0).bit_length()

    def pack(self, heads: Ids, relations: Ids, tails: Ids) -> Keys:
        """The keys of triples given as columns [N]."""
        keys = heads.astype(np.int64)
        keys <<= self._relation_bits
        keys |= relations
        keys <<= self._entity_bits
        keys |= tails
        return keys

    def pack_all(self, triples: Triples) -> Keys:
        """The keys of triples [N]."""
        return self.pack(triples.heads, triples.relations, triples.tails)

    def merged(self, parts: Iterable[Triples]) -> Triples:
        """The triples of all parts, sorted, without duplicates."""
        return self.unpack(sorted_unique(np.concatenate([self.pack_all(part) for part in parts])))

    def unpack(self, keys: Keys) -> Triples:
        """The triples of keys."""
        return Triples(
            (keys >> (self._relation_bits + self._entity_bits)).astype(np.int32),
            ((keys >> self._entity_bits) & ((1 << self._relation_bits) - 1)).astype(np.int32),
            (keys & ((1 << self._entity_bits) - 1)).astype(np.int32),
        )


def sorted_unique(keys: Keys) -> Keys:
    """The distinct keys in ascending order. Sorts `keys` in place."""
    keys.sort()
    if len(keys) == 0:
        return keys
    is_first = np.empty(len(keys), dtype=np.bool_)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys if is_first.all() else keys[is_first]


class KeySet:
    """A set of int64 keys with fast membership tests for millions of keys at once.

    Keys are hashed by an odd multiplier, which is one-to-one on 64 bits, then sorted; a table has the start of each range of
    leading bits. A look-up reads one table entry and, on average, less than one key: its cost does not grow with the set. Binary
    search over 20 million keys is about 17 times slower (docs/decisions.md). Memory: 12 to 16 bytes per key.
    """

    _MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio, made odd

    def __init__(self, keys: Keys) -> None:
        hashes = self._hashes(keys)
        hashes.sort()
        self._keys = hashes
        self._shift = np.uint64(64 - max(len(keys).bit_length(), 1))
        buckets = (hashes >> self._shift).astype(np.int64)
        sizes = np.bincount(buckets, minlength=1 << (64 - int(self._shift)))
        self._starts: NDArray[np.integer[Any]] = np.zeros(len(sizes) + 1, dtype=np.int32 if len(keys) < 2**31 else np.int64)
        np.cumsum(sizes, dtype=self._starts.dtype, out=self._starts[1:])

    def __len__(self) -> int:
        return len(self._keys)

    def contains(self, keys: Keys) -> NDArray[np.bool_]:
        """Whether each key is in the set, bool [N]."""
        hashes = self._hashes(keys)
        buckets = (hashes >> self._shift).astype(np.int64)
        position, end = self._starts[buckets], self._starts[buckets + 1]
        found = np.zeros(len(keys), dtype=np.bool_)
        open_rows = np.flatnonzero(position < end)  # rows whose bucket still has unread keys
        position, end, hashes = position[open_rows], end[open_rows], hashes[open_rows]
        while len(open_rows):
            is_hit = self._keys[position] == hashes
            found[open_rows[is_hit]] = True
            position += 1
            still_open = ~is_hit & (position < end)
            open_rows, position = open_rows[still_open], position[still_open]
            end, hashes = end[still_open], hashes[still_open]
        return found

    def _hashes(self, keys: Keys) -> NDArray[np.uint64]:
        return keys.astype(np.int64, copy=False).view(np.uint64) * self._MULTIPLIER
