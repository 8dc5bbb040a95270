"""Which entities could be heads of a relation: those that are like its known heads.

The profile of an entity is the set of relations that it has, as a head or, by the inverse, as a tail. Drugs have targets and side
effects, genes have pathways: who has a profile as the known heads of `may_treat` have it could be one of them, even if the graph
does not know yet what it may treat.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids

LEFT_OUT = 0.05  # share of the known heads, the least typical ones, that do not count
MOST_REMEMBERED = 256  # relations whose shares are kept
ALIKE = 0.1
FEWEST, TIMES_KNOWN = 1_000, 10  # at most so many heads, or so many times the known ones, whichever is more


class Kinds:
    """The profiles of all entities of a graph. Memory: about 8 bytes for each entity and relation that it has."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._remembered = dataset, lru_cache(maxsize=MOST_REMEMBERED)(self._shares)

    def is_alike(self, entity: int, relation: int) -> bool:
        """Whether an entity has the relation, or another relation that at least a tenth of its heads share with this one.

        That asks less than `heads`: an entity of which little is known may lack what is typical.
        """
        own = self._by_entity.indices[self._by_entity.indptr[entity] : self._by_entity.indptr[entity + 1]]
        if relation in own or not len(own):  # of an entity without facts nothing can be said
            return True
        shares = self._remembered(relation)
        return bool((shares[own] >= ALIKE).any())

    def _shares(self, relation: int) -> NDArray[np.float64]:
        """The share of the heads of each relation that are heads of a relation, too [2R]."""
        is_head = self._profiles[:, [relation]].toarray().ravel()
        counts = np.asarray(self._profiles.sum(axis=0)).ravel()
        found: NDArray[np.float64] = (is_head @ self._profiles) / np.maximum(counts, 1)
        return found

    @cached_property
    def _by_entity(self) -> Any:
        """The profiles, row by row, sparse [E, 2R]."""
        return self._profiles.tocsr()

    def heads(self, relation: int) -> Ids:
        """The entities that could be heads of a relation, or of an inverse, in ascending order: the known heads, and others.

        How typical a profile is, is its log-likelihood ratio by naive Bayes: heads against other entities, relation by relation,
        without the relation itself, each count plus one. Others are taken if they share a relation with a known head, and a head
        is more likely to have their profile than another entity, or they are at least as typical as all but a twentieth of the
        known heads. If the heads are then more than 1,000 and more than ten times the known ones, the most typical are taken.
        """
        column = self._profiles[:, [relation]].toarray().ravel().astype(bool)
        known = np.flatnonzero(column)
        if not len(known):
            return known.astype(np.int32)
        typical = self._typical(relation, column)
        least = min(float(np.quantile(typical[known], LEFT_OUT, method="lower")), 0.0)
        of_heads = column.astype(np.float32) @ self._profiles > 0
        of_heads[relation] = False
        shares = self._profiles @ of_heads.astype(np.float32) > 0
        others = np.flatnonzero((typical >= least - 1e-9) & ~column & shares)
        most = max(FEWEST, TIMES_KNOWN * len(known)) - len(known)
        if len(others) > most:
            others = others[np.argsort(-typical[others], kind="stable")[:most]]
        return np.sort(np.concatenate([known, others])).astype(np.int32)

    def _typical(self, relation: int, is_known: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The log-likelihood ratio of each entity's profile [E]."""
        num_known, num_others = int(is_known.sum()), int((~is_known & self._has_facts).sum())
        have = is_known.astype(np.float64) @ self._profiles
        share = (have + 1) / (num_known + 2)
        share_of_others = (self._profiles.sum(axis=0) - have + 1) / (num_others + 2)
        absent = np.log1p(-share) - np.log1p(-share_of_others)
        present = np.log(share) - np.log(share_of_others)
        absent[relation] = present[relation] = 0.0
        found: NDArray[np.float64] = absent.sum() + self._profiles @ (present - absent)
        return found

    @cached_property
    def _profiles(self) -> Any:
        """1 where an entity has a relation, sparse [E, 2R]."""
        from scipy import sparse

        facts, ids = self._dataset.facts, self._dataset.relation_ids
        entities = np.concatenate([facts.heads, facts.tails])
        ways = np.concatenate([facts.relations, ids.inverse(facts.relations)])
        shape = (len(self._dataset.entities), 2 * len(self._dataset.relations))
        counts = sparse.csr_array((np.ones(len(ways), np.float32), (entities, ways)), shape=shape)
        counts.sum_duplicates()
        counts.data[:] = 1.0
        return counts.tocsc()

    @cached_property
    def _has_facts(self) -> NDArray[np.bool_]:
        return np.asarray(self._profiles.sum(axis=1)).ravel() > 0
