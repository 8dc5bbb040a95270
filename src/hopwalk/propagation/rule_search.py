"""The best rules and paths of NeuralLP and DRUM, by exact best-first search over products of attentions.

A rule is a sequence of relations. It may be applied at different steps, with reads of earlier memories or the identity between
them, and by every rank: its weight is the sum over all of these. They are summed up by a state g [ranks, T+1] of a partial rule,
the weight with which it is in memory u_τ right after its last relation. Adding a relation r is linear: g'_τ' = Σ_τ g_τ S_r,ττ'.
The search bounds what the rest of a rule can add, for each rank and memory on its own, so the best are found first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.learning.scorer import Step
from hopwalk.propagation.graph import Int32s, Int64s, RunGraph
from hopwalk.propagation.rule_kernels import Attentions

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
MOST_EXPANDED = 20_000  # partial paths; where the best are not among them the best found are given


@dataclass(frozen=True, eq=False)
class Steps:
    """The linear maps of one query. K relations and inverses.

    `start` and `end` [ranks, T+1] are the state of the empty rule, and the weights with which a state is part of the answer's
    probability; `step` [K, ranks, T+1, T+1] adds a relation to a rule.
    """

    start: Doubles
    step: Doubles
    end: Doubles

    @property
    def num_hops(self) -> int:
        """T: the length of the longest rules."""
        return int(self.start.shape[1]) - 1


def steps_of(attentions: Attentions, query: int, totals: Doubles | None = None) -> Steps:
    """The linear maps of a query, given its divisors [ranks, T]; without them those of its soft rules, which sum to 1."""
    operators, memories = attentions.operators[query], attentions.memories[query]
    ranks, T, _ = operators.shape
    scaled = operators if totals is None else operators / totals[:, :, None]
    # `idle` [ranks, T+1, T+1]: the weight with which a memory is read at a step, by attention to it and by the identity.
    idle = memories.copy()
    for memory in range(T - 1, -1, -1):
        for between in range(memory, T):
            passed = memories[:, between, memory] * scaled[:, between, -1]
            idle[:, :, memory] += passed[:, None] * idle[:, :, between + 1]
    step = np.zeros((scaled.shape[2] - 1, ranks, T + 1, T + 1))
    step[..., 1:] = idle[:, :T].swapaxes(1, 2) * scaled.transpose(2, 0, 1)[:-1, :, None, :]
    start = np.zeros((ranks, T + 1))
    start[:, 0] = 1.0
    return Steps(start, step, idle[:, T] / ranks)


def best_rules(
    steps: Steps, most: int, may_follow: Flags | None = None, around: int = 0
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """The rules of largest weight, the best first: weight, relations.

    With `may_follow` [K, K] only those all of whose relations may follow each other, the first of them `around`, the inverse of
    the query's relation, and `around` the last.
    """
    num_relations = len(steps.step)
    allowed = np.ones((num_relations, num_relations), dtype=np.bool_) if may_follow is None else may_follow
    bounds = [steps.end]
    for _ in range(steps.num_hops):
        bounds.append(np.einsum("klab,lb->kla", steps.step, bounds[-1]).max(axis=0))

    def expand(state: Doubles, relations: tuple[int, ...], remaining: int) -> Iterator[_Partial]:
        is_allowed = allowed[relations[-1] if relations else around]
        kept = np.flatnonzero(is_allowed & allowed[:, around] if remaining == 1 else is_allowed)
        states = np.einsum("la,klab->klb", state, steps.step[kept])
        values = np.einsum("kla,la->k", states, bounds[remaining - 1])
        for row, relation in enumerate(kept.tolist()):
            yield values[row], states[row], (*relations, relation), remaining - 1

    starts = [((steps.start * bound).sum(), steps.start, (), remaining) for remaining, bound in enumerate(bounds)]
    return _best_first(starts[0 if allowed[around, around] else 1 :], expand, most)


def following_relations(graph: RunGraph, inverses: Int32s) -> Flags:
    """Whether an entity of the graph has an edge of one relation that arrives and one of another that leaves [K, K]."""
    from scipy import sparse

    num_entities, num_relations = graph.num_entities, len(inverses)
    size = num_entities, num_relations
    leaving = sparse.csr_array((np.ones(len(graph.run_relations), np.int32), graph.run_relations, graph.run_offsets), shape=size)
    found: Flags = (leaving.T @ leaving).toarray() > 0
    return found[inverses]


_Partial = tuple[float, Doubles, Any, int]  # bound of its weight, state, what it consists of, relations to add


def _best_first(
    starts: list[_Partial], expand: Callable[[Doubles, Any, int], Iterator[_Partial]], most: int
) -> Iterator[tuple[float, Any]]:
    """Complete ones in the order of their weights, which for them are the bounds; at most `most`."""
    number, found, expanded = count(), 0, 0
    heap = [(-float(bound), next(number), state, content, remaining) for bound, state, content, remaining in starts]
    heapq.heapify(heap)
    while heap and found < most:
        negative, _, state, content, remaining = heapq.heappop(heap)
        if not remaining:
            found += 1
            yield -negative, content
        elif expanded < MOST_EXPANDED:
            expanded += 1
            for bound, child, longer, left in expand(state, content, remaining):
                if bound > 0:
                    heapq.heappush(heap, (-float(bound), next(number), child, longer, left))


class PathSearch:
    """The paths of one query. They pass no entity twice; only the head may be their end too.

    `hidden` are sorted positions of edges that the query does not see, with their inverses.
    """

    def __init__(self, graph: RunGraph, inverses: Int32s, steps: Steps, head: int, hidden: Int64s) -> None:
        self._graph, self._inverses, self._steps, self._head, self._hidden = graph, inverses, steps, head, hidden
        self._distances = self._distances_from_head()

    def best(self, entity: int, most: int) -> list[tuple[float, tuple[Step, ...]]]:
        """The paths of largest contribution to the probability of an entity, the best first: contribution, steps."""
        steps, head = self._steps, self._head
        levels = self._bounds_to(entity)

        def expand(state: Doubles, path: tuple[Step, ...], remaining: int) -> Iterator[_Partial]:
            places, bounds = levels[remaining - 1]
            source = path[-1][1] if path else head
            _, relations, targets = self._edges(np.array([source]))
            places_of_targets = places[targets]
            kept = places_of_targets >= 0
            if remaining > 1:
                for passed in (head, entity, *(passed for _, passed in path)):
                    kept &= targets != passed
            relations, targets, rows = relations[kept], targets[kept], places_of_targets[kept]
            states = np.einsum("la,klab->klb", state, steps.step[relations])
            values = np.einsum("kla,kla->k", states, bounds[rows])
            for row, step in enumerate(zip(relations.tolist(), targets.tolist(), strict=True)):
                yield values[row], states[row], (*path, step), remaining - 1

        starts: list[_Partial] = []
        for remaining in range(1, steps.num_hops + 1):
            places, bounds = levels[remaining]
            if places[head] >= 0:
                starts.append((float((steps.start * bounds[places[head]]).sum()), steps.start, (), remaining))
        return list(_best_first(starts, expand, most))

    def _edges(self, sources: NDArray[Any]) -> tuple[Int64s, Int32s, Int32s]:
        """The visible edges of some entities: the place of the source among them, relation and target of every edge."""
        graph = self._graph
        first, last = graph.run_starts[graph.run_offsets[sources]], graph.run_starts[graph.run_offsets[sources + 1]]
        rows = np.repeat(np.arange(len(sources)), last - first)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[rows]
        is_seen = ~np.isin(edges, self._hidden)
        rows, edges = rows[is_seen], edges[is_seen]
        relations = graph.run_relations[np.searchsorted(graph.run_starts, edges, side="right") - 1]
        return rows, relations, graph.tails[edges]

    def _distances_from_head(self) -> Int64s:
        """The hops to every entity, if they are fewer than T; else T [E]."""
        distances = np.full(self._graph.num_entities, self._steps.num_hops)
        frontier = np.array([self._head])
        distances[frontier] = 0
        for hop in range(1, self._steps.num_hops):
            targets = np.unique(self._edges(frontier)[2])
            frontier = targets[distances[targets] > hop]
            distances[frontier] = hop
        return distances

    def _bounds_to(self, entity: int) -> list[tuple[Int64s, Doubles]]:
        """For every number of remaining edges 0 … T: rows of entities [E], -1: none; and their bounds [rows, ranks, T+1].

        Entities are those from which a walk of so many edges leads to the end, and which the head is near enough to reach.
        """
        steps, levels = self._steps, []
        nodes, bounds = np.array([entity]), steps.end[None]
        for remaining in range(steps.num_hops + 1):
            if remaining:
                nodes, bounds = self._one_edge_back(nodes, bounds, steps.num_hops - remaining)
            places = np.full(self._graph.num_entities, -1)
            places[nodes] = np.arange(len(nodes))
            levels.append((places, bounds))
            if remaining:
                kept = (nodes != entity) & (nodes != self._head)  # a path starts at the one and ends at the other only
                nodes, bounds = nodes[kept], bounds[kept]
        return levels

    def _one_edge_back(self, nodes: NDArray[Any], bounds: Doubles, most: int) -> tuple[Int64s, Doubles]:
        """The entities at most `most` hops from the head with an edge to one of the nodes, and their bounds."""
        rows, relations, sources = self._edges(nodes)
        kept = self._distances[sources] <= most
        rows, relations, sources = rows[kept], self._inverses[relations[kept]], sources[kept]
        order = np.argsort(sources, kind="stable")
        rows, relations, sources = rows[order], relations[order], sources[order]
        distinct, first = np.unique(sources, return_index=True)
        if not len(distinct):
            return distinct.astype(np.int64), bounds[:0]
        values = np.einsum("klab,klb->kla", self._steps.step[relations], bounds[rows])
        return distinct.astype(np.int64), np.maximum.reduceat(values, first, axis=0)
