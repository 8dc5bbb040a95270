"""Ragged frontiers: the memory of one query, the nodes it has reached, and which of them send messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopwalk.propagation.graph import Floats, Int32s, Int64s, RunGraph, compiled, num_kept


class Workspace(NamedTuple):
    """Memory that one thread uses for one query at a time; rows are (layer, node) pairs, one layer after the other.

    Nodes are numbered in the order in which they are reached, so those of a layer are a prefix of those of the next.
    """

    slots: Int32s  # [E] number of an entity among the reached nodes, -1: not reached
    nodes: Int32s  # [nodes] entity of a node
    degrees: Floats  # [nodes] number of edges, without hidden ones
    log_degrees: Floats  # [nodes] log(1 + that number)
    priorities: Floats  # [nodes]
    scores: Floats  # [nodes] score, later its gradient
    row_starts: Int64s  # [L+2] first row of every layer
    sender_starts: Int64s  # [L+1] first sender of every layer
    states: Floats  # [rows * D]
    sums: Floats  # [rows * D] messages that arrived, added up
    counts: Int32s  # [rows] how many arrived
    maxima: Floats  # [rows * D] the largest of them
    owners: Int32s  # [rows * D] run that sent the largest
    is_active: NDArray[np.uint8]  # [rows] whether the gradient is not 0
    d_states: Floats
    d_sums: Floats
    d_maxima: Floats
    senders: Int32s  # [senders] node
    sender_run_ends: Int64s  # [senders]
    run_relations: Int32s  # [runs]
    run_alphas: Floats  # [runs] attention
    run_ends: Int64s  # [runs]
    edge_nodes: Int32s  # [edges] node that an edge leads to
    edge_ids: Int64s  # [edges] position in the graph; for explanations
    scratch: Floats
    block: Int32s  # [4] nodes updated together


class Capacity(NamedTuple):
    """The rows, senders, runs and edges that a workspace has room for."""

    rows: int
    senders: int
    runs: int
    edges: int


def make_workspace(num_entities: int, num_layers: int, width: int, capacity: Capacity, *, has_max: bool) -> Workspace:
    """An empty workspace. Memory: about 16 D bytes a row (28 D with maxima) and 12 bytes an edge."""
    rows = capacity.rows
    wide = rows * width
    maxima = wide if has_max else 1

    def floats(size: int) -> Floats:
        return np.empty(size, dtype=np.float32)

    return Workspace(
        slots=np.full(num_entities, -1, dtype=np.int32),
        nodes=np.empty(rows, dtype=np.int32),
        degrees=floats(rows),
        log_degrees=floats(rows),
        priorities=floats(rows),
        scores=floats(rows),
        row_starts=np.zeros(num_layers + 2, dtype=np.int64),
        sender_starts=np.zeros(num_layers + 1, dtype=np.int64),
        states=floats(wide),
        sums=floats(wide),
        counts=np.empty(rows, dtype=np.int32),
        maxima=floats(maxima),
        owners=np.empty(maxima, dtype=np.int32),
        is_active=np.empty(rows, dtype=np.uint8),
        d_states=floats(wide),
        d_sums=floats(wide),
        d_maxima=floats(maxima),
        senders=np.empty(capacity.senders, dtype=np.int32),
        sender_run_ends=np.empty(capacity.senders, dtype=np.int64),
        run_relations=np.empty(capacity.runs, dtype=np.int32),
        run_alphas=floats(capacity.runs),
        run_ends=np.empty(capacity.runs, dtype=np.int64),
        edge_nodes=np.empty(capacity.edges, dtype=np.int32),
        edge_ids=np.empty(capacity.edges, dtype=np.int64),
        scratch=floats(64 * width + 1024),
        block=np.empty(4, dtype=np.int32),
    )


@compiled
def _nth_smallest(values: Floats, count: int, nth: int) -> float:
    """The value that would be at place `nth` if the first `count` were sorted; reorders them (Hoare's quickselect)."""
    low, high = 0, count - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if nth <= right:
            high = right
        elif nth >= left:
            low = left
        else:
            break
    return values[nth]


@compiled
def choose_senders(priorities: Floats, num_nodes: int, num_senders: int, senders: Int32s, scratch: Floats) -> int:
    """Write the `num_senders` nodes of highest priority in ascending order; give how many. Of equals the first are taken."""
    if num_nodes <= num_senders:
        for node in range(num_nodes):
            senders[node] = node
        return num_nodes
    for node in range(num_nodes):
        scratch[node] = priorities[node]
    threshold = _nth_smallest(scratch, num_nodes, num_nodes - num_senders)
    num_above = 0
    for node in range(num_nodes):
        num_above += priorities[node] > threshold
    num_level = num_senders - num_above
    count = 0
    for node in range(num_nodes):
        is_level = priorities[node] == threshold
        if priorities[node] > threshold or (is_level and num_level > 0):
            num_level -= is_level
            senders[count] = node
            count += 1
    return count


@compiled
def needed_room(graph: RunGraph, nodes: Int32s, senders: Int32s, num_senders: int, fan_out: int) -> tuple[int, int]:
    """The number of runs and of edges that leave the senders."""
    runs, edges = 0, 0
    for number in range(num_senders):
        entity = nodes[senders[number]]
        first, last = graph.run_offsets[entity], graph.run_offsets[entity + 1]
        runs += last - first
        degree = graph.run_starts[last] - graph.run_starts[first]
        if degree <= fan_out:
            edges += degree
        else:
            for run in range(first, last):
                edges += num_kept(graph.run_starts[run + 1] - graph.run_starts[run], degree, fan_out)
    return runs, edges
