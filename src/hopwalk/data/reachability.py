"""Reachability of answers within a number of hops: an upper bound for every walk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.graph import Graph
from hopwalk.data.triples import Ids

MOST_EDGES_READ = 300_000_000  # a few seconds


def reached(graph: Graph, heads: Ids, tails: Ids, hops: int, *, most_edges: int = MOST_EDGES_READ) -> NDArray[np.bool_]:
    """Whether a walk of at most `hops` steps connects each head with its tail, bool [N].

    After `most_edges` edges the other pairs are skipped, and the result is shorter than the input. Nothing is masked: the edge
    of a held-out query is not in the graph.
    """
    entry_offsets, entries = _in_edges(graph)
    is_visited = np.zeros(graph.num_entities, dtype=np.bool_)
    place = np.empty(graph.num_entities, dtype=np.int64)  # work space of `_distinct`
    results: list[bool] = []
    num_read = 0
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        if num_read > most_edges:
            break
        # All but the last hop from the head, then one hop back from the tail: the last hop is the most expensive.
        frontier = np.array([head], dtype=np.int32)
        is_visited[head] = True
        visited = [frontier]
        for _ in range(hops - 1):
            found = _neighbours(graph.offsets, graph.tails, frontier)
            num_read += len(found)
            frontier = _distinct(found[~is_visited[found]], place)
            is_visited[frontier] = True
            visited.append(frontier)
        results.append(bool(is_visited[entries[entry_offsets[tail] : entry_offsets[tail + 1]]].any()))
        is_visited[np.concatenate(visited)] = False
    return np.array(results, dtype=np.bool_)


def _distinct(ids: Ids, place: NDArray[np.int64]) -> Ids:
    """The ids without duplicates, unsorted: each is kept where it was last written."""
    rows = np.arange(len(ids))
    place[ids] = rows
    distinct: Ids = ids[place[ids] == rows]
    return distinct


def _neighbours(offsets: NDArray[np.int64], tails: Ids, entities: Ids) -> Ids:
    counts = offsets[entities + 1] - offsets[entities]
    ends = np.cumsum(counts)
    edges = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[entities] - (ends - counts), counts)
    neighbours: Ids = tails[edges]
    return neighbours


def _in_edges(graph: Graph) -> tuple[NDArray[np.int64], Ids]:
    """The entities with an edge to each entity: in a trimmed graph an edge may lack its inverse."""
    heads = np.repeat(np.arange(graph.num_entities, dtype=np.int32), graph.degrees)
    order = np.argsort(graph.tails, kind="stable")
    offsets = np.zeros(graph.num_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(graph.tails, minlength=graph.num_entities), out=offsets[1:])
    return offsets, heads[order]
