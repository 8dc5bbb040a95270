"""Which answers lie within a given number of hops: an upper bound for every walk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.triples import Ids
from hopwalk.graph import Graph


def count_reached(graph: Graph, heads: Ids, tails: Ids, hops: int) -> int:
    """How many of the (head, tail) pairs a walk of `hops` steps can connect; stay edges allow shorter ones.

    The edge that is asked is not in the graph for held-out questions, so nothing is masked here.
    """
    entries_offsets, entries = _in_edges(graph)
    is_reached = np.zeros(graph.num_entities, dtype=np.bool_)
    num_reached = 0
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        # All but the last hop from the head, then one hop back from the tail: the last hop is the costliest.
        frontier = np.array([head], dtype=np.int32)
        is_reached[head] = True
        touched = [frontier]
        for _ in range(hops - 1):
            found = np.unique(_neighbours(graph.offsets, graph.tails, frontier))
            frontier = found[~is_reached[found]]
            is_reached[frontier] = True
            touched.append(frontier)
        num_reached += bool(is_reached[entries[entries_offsets[tail] : entries_offsets[tail + 1]]].any())
        is_reached[np.concatenate(touched)] = False
    return num_reached


def _neighbours(offsets: NDArray[np.int64], tails: Ids, entities: Ids) -> Ids:
    counts = offsets[entities + 1] - offsets[entities]
    ends = np.cumsum(counts)
    edges = np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets[entities] - (ends - counts), counts)
    neighbours: Ids = tails[edges]
    return neighbours


def _in_edges(graph: Graph) -> tuple[NDArray[np.int64], Ids]:
    """For each entity, the entities with an edge to it: a trimmed graph may have an edge without its inverse."""
    heads = np.repeat(np.arange(graph.num_entities, dtype=np.int32), graph.degrees)
    order = np.argsort(graph.tails, kind="stable")
    offsets = np.zeros(graph.num_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(graph.tails, minlength=graph.num_entities), out=offsets[1:])
    return offsets, heads[order]
