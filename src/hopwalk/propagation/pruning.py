"""The place where the walks of a query lose an entity: the nearest node that they reach, and why they do not go on from it."""

from __future__ import annotations

import numpy as np

from hopwalk.learning.scorer import Pruned
from hopwalk.propagation.graph import Int32s, Int64s, RunGraph
from hopwalk.propagation.model import Engine, Propagation, Trace
from hopwalk.propagation.queries import plain_tasks


def find_pruning(model: Propagation, engine: Engine, head: int, relation: int, entity: int, hidden: Int64s) -> Pruned | None:
    """The place where walks that do not see the edges `hidden` lose an entity; None if they reach it or no path leads there."""
    relations = np.array([relation], dtype=np.int32)
    trace = engine.trace(plain_tasks(np.array([head]), relations, [hidden]), *model.arrays(relations))
    layers = engine.settings.layers
    left = hops_to(engine.graph, entity, layers, hidden)[trace.nodes]  # of every node
    first = np.searchsorted(trace.counts, np.arange(len(trace.nodes)), side="right")  # the layer in which it could go on, from 0
    is_early = (left > 0) & (first + left <= layers)  # there are layers enough to go on to the entity
    if (left == 0).any() or not is_early.any():
        return None
    hops = int(left[is_early].min())
    nearest = np.flatnonzero(is_early & (left == hops))
    return _lost(engine, trace, nearest, first[nearest], hops)


def _lost(engine: Engine, trace: Trace, nodes: Int64s, first: Int64s, hops: int) -> Pruned:
    """Which of the nearest nodes came closest to going on, and in which layer."""
    found = []
    for layer in range(int(first.min()), engine.settings.layers - hops + 1):
        own = nodes[first <= layer]
        went_on = own[np.isin(own, trace.senders[layer])]
        if len(went_on):  # but not along every edge
            return Pruned(layer + 1, int(trace.nodes[went_on[0]]), hops, None, engine.settings.fan_out)
        priorities = trace.priorities[layer]
        node = own[np.argmax(priorities[own])]
        kept = len(trace.senders[layer])
        place = max(int((priorities > priorities[node]).sum()), kept) + 1  # of equals those that go on are first
        found.append((place, Pruned(layer + 1, int(trace.nodes[node]), hops, place, kept)))
    return min(found, key=lambda one: one[0])[1]


def hops_to(graph: RunGraph, entity: int, most: int, hidden: Int64s) -> Int32s:
    """The number of steps from every entity to one, at most `most`, else -1, without the edges `hidden` [E]."""
    offsets = graph.run_starts[graph.run_offsets]
    found = np.full(graph.num_entities, -1, dtype=np.int32)
    found[entity] = 0
    frontier = np.array([entity], dtype=np.int64)
    for hops in range(1, most + 1):
        counts = offsets[frontier + 1] - offsets[frontier]
        ends = np.cumsum(counts)
        edges = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[frontier] - (ends - counts), counts)
        if len(hidden):
            edges = edges[~np.isin(edges, hidden)]  # in both directions: steps back see what steps forth see
        frontier = np.unique(graph.tails[edges]).astype(np.int64)
        frontier = frontier[found[frontier] < 0]
        found[frontier] = hops
    return found
