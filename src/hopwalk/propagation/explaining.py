"""From a score back to its walks: derivatives by edges, and the simple paths whose edges have the largest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hopwalk.propagation.forward import sigmoid
from hopwalk.propagation.frontier import Workspace
from hopwalk.propagation.graph import Floats, Int32s, Int64s, compiled, inlined
from hopwalk.propagation.parameters import Options, PerQuery, Shared
from hopwalk.propagation.simd import load, total, where_owner


class Beam(NamedTuple):
    """Paths that end at a node in a layer, the best first. B are kept for each row, which is a (layer, node) pair.

    A path is the one in the slot `parents` and one more edge; slots are numbered row · B + place.
    """

    values: Floats  # [edges] derivative of the score by a weight of 1 on the message of an edge
    counts: Int32s  # [rows] how many paths there are
    weights: Floats  # [rows * B] product of the derivatives of the edges, each relative to the largest of all
    parents: Int64s  # [rows * B] -1: the path without edges
    edges: Int64s  # [rows * B] number of the last edge among those that carried messages


def make_beam(rows: int, edges: int, size: int) -> Beam:
    """An empty beam of `size` paths for each row."""
    slots = rows * size
    return Beam(
        np.empty(edges, dtype=np.float32),
        np.empty(rows, dtype=np.int32),
        np.empty(slots, dtype=np.float32),
        np.empty(slots, dtype=np.int64),
        np.empty(slots, dtype=np.int64),
    )


@compiled
def edge_derivatives(
    query: int, layer: int, shared: Shared, per_query: PerQuery, options: Options, workspace: Workspace, values: Floats, D: int
) -> None:
    """The derivative of the score by a weight of 1 on the message of every edge of a layer."""
    ws = workspace
    row, next_row = ws.row_starts[layer], ws.row_starts[layer + 1]
    num_layers, num_relations = per_query.relation_weight.shape[1], per_query.relation_weight.shape[2]
    first_relation = (query * num_layers + layer) * num_relations
    priority = load(shared.priority, layer * D, D)
    first_sender = ws.sender_starts[layer]
    run = ws.sender_run_ends[first_sender - 1] if first_sender else 0
    edge = ws.run_ends[run - 1] if run else 0
    for number in range(first_sender, ws.sender_starts[layer + 1]):
        x = load(ws.states, (row + ws.senders[number]) * D, D)
        if options.gate:
            x = np.float32(sigmoid(total(x * priority) + shared.priority_bias[layer])) * x
        while run < ws.sender_run_ends[number]:
            place = (first_relation + ws.run_relations[run]) * D
            message = x * load(per_query.relation_weight, place, D)
            if options.additive:
                message = message + load(per_query.relation_offset, place, D)
            message = ws.run_alphas[run] * message
            while edge < ws.run_ends[run]:
                target = next_row + ws.edge_nodes[edge]
                derivative = np.float32(0.0)
                if ws.is_active[target]:
                    derivative = total(message * load(ws.d_sums, target * D, D))
                    if options.max:
                        d_largest = where_owner(ws.owners, target * D, run, load(ws.d_maxima, target * D, D))
                        derivative += total(message * d_largest)
                values[edge] = derivative
                edge += 1
            run += 1


@inlined
def _passes(beam: Beam, workspace: Workspace, slot: int, node: int) -> bool:
    """Whether the path in a slot passes a node; all pass the head, which is node 0."""
    if node == 0:
        return True
    while beam.parents[slot] >= 0:
        if workspace.edge_nodes[beam.edges[slot]] == node:
            return True
        slot = beam.parents[slot]
    return False


@inlined
def _is_same(beam: Beam, workspace: Workspace, slot: int, other: int) -> bool:
    """Whether two slots have the same edges, perhaps in other layers."""
    while beam.parents[slot] >= 0 and beam.parents[other] >= 0:
        if workspace.edge_ids[beam.edges[slot]] != workspace.edge_ids[beam.edges[other]]:
            return False
        slot, other = beam.parents[slot], beam.parents[other]
    return beam.parents[slot] < 0 and beam.parents[other] < 0


@inlined
def _put(beam: Beam, first: int, place: int, weight: float, parent: int, edge: int) -> None:
    beam.weights[first + place] = weight
    beam.parents[first + place] = parent
    beam.edges[first + place] = edge


@compiled
def _insert(beam: Beam, workspace: Workspace, row: int, weight: float, parent: int, edge: int, size: int) -> None:
    """Put a path among those of a row, in the order of weights. The same path with a smaller weight goes."""
    first, count = row * size, beam.counts[row]
    place = count
    for number in range(count):
        slot = first + number
        is_same_edge = beam.parents[slot] >= 0 and workspace.edge_ids[beam.edges[slot]] == workspace.edge_ids[edge]
        if is_same_edge and _is_same(beam, workspace, beam.parents[slot], parent):
            if beam.weights[slot] >= weight:
                return
            place = number
            break
    if place == size:
        place = size - 1
        if beam.weights[first + place] >= weight:
            return
    elif place == count:
        beam.counts[row] = count + 1
    while place > 0 and beam.weights[first + place - 1] < weight:
        before = first + place - 1
        _put(beam, first, place, beam.weights[before], beam.parents[before], beam.edges[before])
        place -= 1
    _put(beam, first, place, weight, parent, edge)


@compiled
def _extend(beam: Beam, workspace: Workspace, layer: int, end_node: int, scale: float, size: int) -> None:
    """Paths at the nodes of a layer, with at most one edge more; those of the layer before stay, as states do."""
    ws = workspace
    row, next_row = ws.row_starts[layer], ws.row_starts[layer + 1]
    num_before = next_row - row
    for node in range(ws.row_starts[layer + 2] - next_row):
        count = beam.counts[row + node] if node < num_before else 0
        beam.counts[next_row + node] = count
        for place in range(count):
            slot = (row + node) * size + place
            _put(beam, (next_row + node) * size, place, beam.weights[slot], beam.parents[slot], beam.edges[slot])
    first_sender = ws.sender_starts[layer]
    run = ws.sender_run_ends[first_sender - 1] if first_sender else 0
    edge = ws.run_ends[run - 1] if run else 0
    for number in range(first_sender, ws.sender_starts[layer + 1]):
        source = row + ws.senders[number]
        run = ws.sender_run_ends[number]
        end = ws.run_ends[run - 1] if run else 0
        count = beam.counts[source]
        if count == 0 or ws.senders[number] == end_node:
            edge = end
        while edge < end:
            value = scale * beam.values[edge]
            if value > 0:
                target = ws.edge_nodes[edge]
                for place in range(count):
                    slot = source * size + place
                    if not _passes(beam, ws, slot, target):
                        _insert(beam, ws, next_row + target, beam.weights[slot] * value, slot, edge, size)
            edge += 1


@compiled
def _search(beam: Beam, workspace: Workspace, num_layers: int, node: int, size: int) -> int:
    """Find the paths to a node; give the row that has them."""
    ws = workspace
    largest = np.float32(0.0)
    for edge in range(_num_edges(ws, num_layers)):
        largest = max(largest, beam.values[edge])
    scale = np.float32(1.0) / largest if largest > 0 else np.float32(0.0)
    beam.counts[0] = 1
    _put(beam, 0, 0, 1.0, -1, -1)
    for layer in range(num_layers):
        _extend(beam, ws, layer, node, scale, size)
    return ws.row_starts[num_layers] + node


@inlined
def _num_edges(workspace: Workspace, num_layers: int) -> int:
    """The number of edges that carried messages, in all layers."""
    num_runs = workspace.sender_run_ends[workspace.sender_starts[num_layers] - 1]
    return workspace.run_ends[num_runs - 1] if num_runs else 0


@compiled
def find_paths(beam: Beam, workspace: Workspace, num_layers: int, node: int, size: int, paths: Int64s) -> None:
    """Write the simple paths from the head to a node with the largest products of derivatives, given `beam.values`.

    `paths` [B, L] gets positions of edges in the graph, the first edge first, and -1 behind the last. A product, relative to the
    largest derivative, because a sum would favour long paths. If no path has positive derivatives only, signs do not matter, and
    edges without a derivative have a small one.
    """
    ws = workspace
    paths[:, :] = -1
    if node == 0:
        return
    row = _search(beam, ws, num_layers, node, size)
    if beam.counts[row] == 0:
        for edge in range(_num_edges(ws, num_layers)):
            beam.values[edge] = abs(beam.values[edge]) + np.float32(1e-6)
        row = _search(beam, ws, num_layers, node, size)
    for number in range(beam.counts[row]):
        slot, length = row * size + number, 0
        while beam.parents[slot] >= 0:
            slot, length = beam.parents[slot], length + 1
        slot = row * size + number
        while beam.parents[slot] >= 0:
            length -= 1
            paths[number, length] = ws.edge_ids[beam.edges[slot]]
            slot = beam.parents[slot]
