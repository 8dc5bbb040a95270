"""The known answers of queries: for filtered ranking, and for the masks of the walk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Ids, Keys, KeySet, TriplePacking, Triples, sorted_unique


class KnownAnswers:
    """The known answers of every query `(head, relation, ?)` over the given facts, in both directions.

    Relations are those of the data and their inverses (ids of `RelationIds`); stay and start have no answers.
    Memory: 16 bytes a fact, and 24 to 32 more once `contains` is used.
    """

    def __init__(self, parts: Sequence[Triples], num_entities: int, num_relations: int) -> None:
        self._relation_ids = RelationIds(num_relations)
        self._packing = TriplePacking(num_entities, self._relation_ids.num_all)
        distinct = {id(part): part for part in parts}.values()  # in most data sets `facts` and `train` are the same
        self._keys = sorted_unique(np.concatenate([keys for part in distinct for keys in self._both_ways(part)]))

    def _both_ways(self, facts: Triples) -> tuple[Keys, Keys]:
        inverse = self._relation_ids.inverse(facts.relations)
        return self._packing.pack_all(facts), self._packing.pack(facts.tails, inverse, facts.heads)

    def with_facts(self, facts: Triples) -> KnownAnswers:
        """These known answers, and those of more facts."""
        more = KnownAnswers([facts], self._packing.num_entities, self._relation_ids.num_relations)
        more._keys = sorted_unique(np.concatenate([self._keys, more._keys]))
        return more

    def __len__(self) -> int:
        """The number of known pairs of query and answer."""
        return len(self._keys)

    def contains(self, heads: Ids, relations: Ids, tails: Ids) -> NDArray[np.bool_]:
        """Whether each tail is a known answer of its (head, relation), bool [N]; fast for millions."""
        return self._key_set.contains(self._packing.pack(heads, relations, tails))

    def answers(self, heads: Ids, relations: Ids) -> tuple[NDArray[np.int64], Ids]:
        """The known answers of Q queries: offsets [Q+1], and the tails, those of query q at `offsets[q]:offsets[q+1]`."""
        offsets, found = self._read(*self._ranges(heads, relations, relations))
        return offsets, found.tails

    def edges(self, heads: Ids) -> tuple[NDArray[np.int64], Triples]:
        """The known answers of all queries about N heads: offsets [N+1], and the facts, as seen from each head, by relation."""
        return self._read(*self._ranges(heads, np.zeros_like(heads), np.full_like(heads, self._relation_ids.num_all - 1)))

    def _read(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], Triples]:
        """The offsets of ranges of keys, and the triples of their keys."""
        counts = end - start
        offsets = np.zeros(len(start) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        return offsets, self._packing.unpack(self._keys[np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], counts)])

    def counts(self, heads: Ids, relations: Ids) -> NDArray[np.int64]:
        """The number of known answers of Q queries [Q]."""
        start, end = self._ranges(heads, relations, relations)
        return end - start

    def degrees(self, heads: Ids) -> NDArray[np.int64]:
        """The number of known answers of all queries about each head: of its facts, as head or tail [N]."""
        start, end = self._ranges(heads, np.zeros_like(heads), np.full_like(heads, self._relation_ids.num_all - 1))
        return end - start

    def _ranges(self, heads: Ids, first: Ids, last: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the keys of each head, from a first relation to a last [Q]."""
        first_key = self._packing.pack(heads, first, np.zeros_like(heads))
        last_key = self._packing.pack(heads, last, np.full_like(heads, self._packing.num_entities - 1))
        start, end = np.empty((2, len(heads)), dtype=np.int64)
        order = np.argsort(first_key)  # sorted searches read from the cache
        start[order] = np.searchsorted(self._keys, first_key[order], side="left")
        end[order] = np.searchsorted(self._keys, last_key[order], side="right")
        return start, end

    @cached_property
    def _key_set(self) -> KeySet:
        return KeySet(self._keys)
