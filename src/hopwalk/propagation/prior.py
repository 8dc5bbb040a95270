"""Entities that no walk reaches: their probability, which training learnt as a whole, goes to frequent tails of the relation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.reached import ReachedScores
from hopwalk.propagation.graph import Floats, Int32s, Int64s, RunGraph

MOST_TAILS = 1000  # of a relation, its most frequent ones, that are told apart


class TailPrior:
    """The scores of entities out of reach, by how often each is a tail of the query's relation.

    A model has one score u for all N entities out of reach: together they have the part N exp(u) of the softmax. Of it `share`
    goes to the known tails of the relation among them, by their numbers of facts, and the rest to all of them alike. What is
    reached keeps its probability. A query about an entity without facts is then answered by the most frequent tails.
    """

    def __init__(self, graph: RunGraph, relation_ids: RelationIds, share: float) -> None:
        self._graph, self._ids, self._share = graph, relation_ids, share
        self._tails: dict[int, tuple[Int32s, Int64s]] = {}

    def applied(self, reached: ReachedScores, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores of what is reached, followed by those of the frequent tails that are not; `hidden` facts do not count."""
        if not self._share:
            return reached
        parts = []
        for row, relation in enumerate(relations.tolist()):
            own = reached.of_query(row)
            tails, counts = self._without(*self.tails_of(relation), relation, hidden[row] if len(hidden) else None)
            is_out = ~np.isin(tails, own.entities)
            parts.append(self._shared_out(own, tails[is_out], counts[is_out]))
        return ReachedScores.concatenate(parts)

    def tails_of(self, relation: int) -> tuple[Int32s, Int64s]:
        """The most frequent tails of a relation or an inverse, and the number of its facts that each has [N]."""
        if relation not in self._tails:
            graph = self._graph
            runs = np.flatnonzero(graph.run_relations == self._ids.inverse(relation))  # (tail, relation⁻¹, ·) is one run
            counts = graph.run_starts[runs + 1] - graph.run_starts[runs]
            best = np.argsort(-counts, kind="stable")[:MOST_TAILS]
            tails = np.searchsorted(graph.run_offsets, runs[best], side="right") - 1
            self._tails[relation] = tails.astype(np.int32), counts[best]
        return self._tails[relation]

    def _without(self, tails: Int32s, counts: Int64s, relation: int, hidden: Triples | None) -> tuple[Int32s, Int64s]:
        """Tails and counts without some facts."""
        if hidden is None or not len(hidden):
            return tails, counts
        ends = np.concatenate(
            [
                hidden.tails[hidden.relations == relation],
                hidden.heads[hidden.relations == self._ids.inverse(relation)],
            ]
        )
        left = counts - (tails[:, None] == ends).sum(axis=1)
        return tails[left > 0], left[left > 0]

    def _shared_out(self, own: ReachedScores, tails: Int32s, counts: Int64s) -> ReachedScores:
        num_out = self._graph.num_entities - len(own.entities)
        if not len(tails):
            return own
        frequencies = self._share * counts / counts.sum() + (1 - self._share) / num_out
        scores: Floats = (own.unreached + np.log(num_out * frequencies)).astype(np.float32)
        entities = np.append(own.entities, tails)
        others = (own.unreached + np.log1p(-self._share)).astype(np.float32)
        return ReachedScores(np.array([0, len(entities)]), entities, np.append(own.scores, scores), others)
