"""The graph as runs of edges, for propagation: all edges of one node with one relation form a run.

Attention and message of an edge depend on its source and relation only, so they are computed once per run; an edge itself costs
one vector addition. Positions of edges count from 0 in the order (source, relation, tail).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pooch
from numba import njit
from numpy.typing import NDArray

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import TriplePacking, Triples

# numba notices changes in the file of a compiled function only, and not in those it calls: a cache for each state of the sources.
if not numba.config.CACHE_DIR:
    _sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    numba.config.CACHE_DIR = str(pooch.os_cache("hopwalk") / f"kernels-{hashlib.sha256(_sources).hexdigest()[:16]}")

# Compiled functions never allocate, so they need no reference counts, which would take twice the time of the kernels: numba
# counts every array of every named tuple at every call. `inlined` is for the small ones.
compiled = njit(cache=True, nogil=True, _nrt=False)
inlined = njit(cache=True, nogil=True, _nrt=False, forceinline=True)

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float32]


class RunGraph(NamedTuple):
    """Edges and inverse edges, sorted by (source, relation, tail).

    The runs of node e are `run_offsets[e]:run_offsets[e + 1]` [E+1]; run j has relation `run_relations[j]` and the edges
    `run_starts[j]:run_starts[j + 1]`, whose tails are in `tails` [number of edges].
    """

    run_offsets: Int64s
    run_relations: Int32s
    run_starts: Int64s
    tails: Int32s
    log_degrees: Floats  # log(1 + number of edges) of every node [E]
    log_counts: Floats  # log(1 + n) for n from 0 to the most edges of a node, to be looked up

    @property
    def num_entities(self) -> int:
        """The number of entities."""
        return len(self.run_offsets) - 1


def build_run_graph(facts: Triples, num_entities: int, num_relations: int) -> RunGraph:
    """The graph of the facts and their inverses. Memory: at most 40 bytes a fact more than the graph's own, for sorting."""
    ids = RelationIds(num_relations)
    packing = TriplePacking(num_entities, ids.num_directed)
    backward = packing.pack(facts.tails, ids.inverse(facts.relations), facts.heads)
    keys = np.concatenate([packing.pack_all(facts), backward])
    del backward
    keys.sort()
    edges = packing.unpack(keys)
    sources, links, targets = edges.heads, edges.relations, edges.tails
    del keys
    is_first = np.ones(len(sources), dtype=np.bool_)
    is_first[1:] = (sources[1:] != sources[:-1]) | (links[1:] != links[:-1])
    starts = np.flatnonzero(is_first)
    run_offsets = np.zeros(num_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources[starts], minlength=num_entities), out=run_offsets[1:])
    run_starts = np.append(starts, len(sources)).astype(np.int64)
    degrees = np.diff(run_starts[run_offsets])
    log_counts = np.log1p(np.arange(degrees.max(initial=0) + 1)).astype(np.float32)
    return RunGraph(run_offsets, links[starts], run_starts, targets, log_counts[degrees], log_counts)


@inlined
def first_not_below(values: Int64s, value: int) -> int:
    """The number of sorted values that are below a value."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def count_hidden(hidden: Int64s, start: int, end: int) -> int:
    """The number of sorted hidden edges in `start:end`."""
    if len(hidden) == 0:
        return 0
    return first_not_below(hidden, end) - first_not_below(hidden, start)


@inlined
def is_hidden(hidden: Int64s, edge: int) -> bool:
    """Whether an edge is among the sorted hidden edges."""
    place = first_not_below(hidden, edge)
    return place < len(hidden) and hidden[place] == edge


@inlined
def num_kept(length: int, degree: int, fan_out: int) -> int:
    """How many edges of a run are used if its node uses about `fan_out` of its edges: its share, and at least one."""
    return length if degree <= fan_out else max(length * fan_out // degree, 1)


@inlined
def kept_edge(start: int, length: int, count: int, number: int, offset: float) -> int:
    """Position of the edge `number` of `count` that are spread evenly over a run; `offset` in [0, 1) shifts them."""
    return start + (number * length + int(offset * length)) // count


@inlined
def find_run(graph: RunGraph, entity: int, relation: int) -> int:
    """The run of an entity and a relation; -1 if there is none."""
    low, high = graph.run_offsets[entity], graph.run_offsets[entity + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if graph.run_relations[middle] < relation:
            low = middle + 1
        else:
            high = middle
    if low == end or graph.run_relations[low] != relation:
        return -1
    return low


@inlined
def find_in_run(graph: RunGraph, run: int, tail: int) -> int:
    """The edge of a run that leads to a tail; -1 if there is none."""
    low, high = graph.run_starts[run], graph.run_starts[run + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if graph.tails[middle] < tail:
            low = middle + 1
        else:
            high = middle
    if low == end or graph.tails[low] != tail:
        return -1
    return low


@inlined
def relation_count(graph: RunGraph, entity: int, relation: int, hidden: Int64s) -> int:
    """The number of edges with a relation that leave an entity, without hidden ones."""
    run = find_run(graph, entity, relation)
    if run < 0:
        return 0
    start, stop = graph.run_starts[run], graph.run_starts[run + 1]
    return stop - start - count_hidden(hidden, start, stop)


@compiled
def _write_edges_of_queries(graph: RunGraph, heads: Int32s, relations: Int32s, starts: Int64s, ends: Int64s) -> None:
    for query in range(len(heads)):
        run = find_run(graph, heads[query], relations[query])
        if run >= 0:
            starts[query], ends[query] = graph.run_starts[run], graph.run_starts[run + 1]


def edges_of_queries(graph: RunGraph, heads: Int32s, relations: Int32s) -> tuple[Int64s, Int64s]:
    """The edges of each query's head with its relation: their first positions, and where they end [Q]."""
    starts, ends = np.zeros((2, len(heads)), dtype=np.int64)
    _write_edges_of_queries(graph, heads, relations, starts, ends)
    return starts, ends


@compiled
def _write_hidden(
    graph: RunGraph, head: int, relation: int, inverse: int, tail: int, all_between: bool, out: Int64s, count: int
) -> int:
    """Write the edges of a fact, or all edges between its ends, in both directions; give the new count.

    An empty `out` only counts.
    """
    for direction in range(2):
        source, target, link = (head, tail, relation) if direction == 0 else (tail, head, inverse)
        if all_between:
            for run in range(graph.run_offsets[source], graph.run_offsets[source + 1]):
                edge = find_in_run(graph, run, target)
                if edge >= 0:
                    if len(out):
                        out[count] = edge
                    count += 1
        else:
            run = find_run(graph, source, link)
            edge = find_in_run(graph, run, target) if run >= 0 else -1
            if edge >= 0:
                if len(out):
                    out[count] = edge
                count += 1
    return count


@compiled
def _hidden_of_queries(
    graph: RunGraph, heads: Int32s, relations: Int32s, inverses: Int32s, offsets: Int64s, targets: Int32s, all_between: bool,
    counts: Int64s, out: Int64s,
) -> None:  # fmt: skip
    """Write the hidden edges of every query to `out`, and where those of each end to `counts`."""
    count = 0
    for query in range(len(heads)):
        for place in range(offsets[query], offsets[query + 1]):
            count = _write_hidden(graph, heads[query], relations[query], inverses[query], targets[place], all_between, out, count)
        counts[query] = count


def hidden_edges(
    graph: RunGraph, heads: Int32s, relations: Int32s, inverses: Int32s, offsets: Int64s, targets: Int32s, *, all_between: bool
) -> tuple[Int64s, Int64s]:
    """The edges of the facts (head, relation, target) of each query and of their inverses: offsets [Q+1], sorted positions.

    With `all_between`, all edges between head and target. `targets` are those of query q at `offsets[q]:offsets[q + 1]`.
    """
    ends = np.zeros(len(heads) + 1, dtype=np.int64)
    columns = graph, heads, relations, inverses, offsets, targets, all_between, ends[1:]
    _hidden_of_queries(*columns, np.empty(0, dtype=np.int64))
    out = np.empty(max(int(ends[-1]), 1), dtype=np.int64)
    _hidden_of_queries(*columns, out)
    out = out[: ends[-1]]
    queries = np.repeat(np.arange(len(heads)), np.diff(ends))
    order = np.lexsort((out, queries))
    queries, out = queries[order], out[order]
    is_new = np.ones(len(out), dtype=np.bool_)
    is_new[1:] = (np.diff(out) != 0) | (np.diff(queries) != 0)
    counts = np.bincount(queries[is_new], minlength=len(heads))
    return np.append(0, np.cumsum(counts)).astype(np.int64), out[is_new]
