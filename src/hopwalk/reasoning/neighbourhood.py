"""Random facts near a query, to be taken away instead of those on the paths that are shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.triples import Triples

FAR = 100  # hops to entities that are not reached


class Neighbourhood:
    """The facts of a graph, and how far from an entity they are."""

    def __init__(self, facts: Triples, num_entities: int) -> None:
        self._facts, self._num_entities = facts, num_entities
        sources = np.concatenate([facts.heads, facts.tails])
        order = np.argsort(sources, kind="stable")
        self._targets = np.concatenate([facts.tails, facts.heads])[order]
        self._offsets = np.searchsorted(sources[order], np.arange(num_entities + 1))

    def distances(self, entity: int, hops: int) -> NDArray[np.int64]:
        """The number of hops from an entity to every other, `FAR` beyond `hops` [E]."""
        found = np.full(self._num_entities, FAR)
        found[entity], frontier = 0, np.array([entity])
        for hop in range(1, hops + 1):
            starts, counts = self._offsets[frontier], self._offsets[frontier + 1] - self._offsets[frontier]
            places = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
            frontier = np.unique(self._targets[places])
            frontier = frontier[found[frontier] == FAR]
            found[frontier] = hop
        return found

    def draw(
        self, head: int, answer: int, shown: Triples, hops: int, num_draws: int, generator: np.random.Generator
    ) -> tuple[list[Triples], list[Triples]]:
        """Random facts that are not shown, as many as there are: near the head, and on walks from the head to the answer.

        Those of the first kind are as far from the head as the shown ones, if there are so many. Those of the second lie on a
        walk of at most `hops` hops between head and answer; there may be fewer than the shown ones.
        """
        facts, from_head, to_answer = self._facts, self.distances(head, hops), self.distances(answer, hops)
        is_shown = self._among(shown)
        depths = np.minimum(from_head[facts.heads], from_head[facts.tails])
        lengths = np.minimum(
            from_head[facts.heads] + to_answer[facts.tails], from_head[facts.tails] + to_answer[facts.heads]
        )  # of the shortest walk over a fact, less its own hop
        between = np.flatnonzero(~is_shown & (lengths < hops))
        pools = [np.flatnonzero(~is_shown & (depths == depth)) for depth in range(hops)]
        wanted = np.bincount(depths[is_shown], minlength=hops)[:hops]
        near = [facts[_matched(pools, wanted, generator)] for _ in range(num_draws)]
        count = min(int(is_shown.sum()), len(between))
        return near, [facts[generator.choice(between, count, replace=False)] for _ in range(num_draws)]

    def _among(self, some: Triples) -> NDArray[np.bool_]:
        """Whether each fact is among some [N]."""
        facts, found = self._facts, np.zeros(len(self._facts), dtype=np.bool_)
        for head, relation, tail in some.array().tolist():
            found |= (facts.heads == head) & (facts.relations == relation) & (facts.tails == tail)
        return found


def _matched(pools: list[NDArray[np.int64]], wanted: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Of each pool as many as wanted; where one has too few, the rest from all of them."""
    chosen = np.concatenate(
        [generator.choice(pool, min(int(count), len(pool)), replace=False) for pool, count in zip(pools, wanted, strict=True)]
    )
    missing = int(wanted.sum()) - len(chosen)
    if missing:
        left = np.setdiff1d(np.concatenate(pools), chosen)
        chosen = np.concatenate([chosen, generator.choice(left, min(missing, len(left)), replace=False)])
    return chosen.astype(np.int64)
