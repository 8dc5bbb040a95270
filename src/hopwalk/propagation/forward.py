"""One query through all layers, in one thread and in one piece of memory; `backward.py` is the way back.

Threads work on different queries and every query writes its own gradients, which are added up in the order of the queries: the
result does not depend on the number of threads. Letters: Q queries, L layers, E entities, R relations (inverses included),
D width, A attention width, I = D · (1 + number of aggregates) inputs of the node update.

Layer l, for a sender u and its edges (u, r, v):
    x_u = h_u · σ(p · h_u + p₀)                          (gated; else x_u = h_u)
    α_ur = σ(a · relu(S x_u + b_r(q) + s₀ log(1 + n_ur) + s₁ log(1 + n_u)) + c)      (s only with degrees)
    m_ur = α_ur (x_u ⊙ w_r(q) + o_r(q))                  (o_r only with additive messages)
Node update, for every node v reached so far:
    h'_v = h_v + relu(norm(W [h_v; c(Σ m); mean m; max m] + b + t₀ log(1 + n_v) + t₁ log(1 + m_v))),  c(x) = x / √(1 + |x|),
    norm(z) = g ⊙ (z − mean z) / √(var z + ε) + g₀                                    (t only with degrees)
n_u is the number of edges of u, n_ur of those with relation r, hidden ones aside; m_v is the number of messages that arrived. The
mean is over the messages that arrived, or with degrees over 1 + n_v edges, those without a message counting as 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hopwalk.propagation.frontier import Workspace, choose_senders, needed_room
from hopwalk.propagation.graph import (
    Floats,
    Int64s,
    RunGraph,
    compiled,
    count_hidden,
    inlined,
    is_hidden,
    kept_edge,
    num_kept,
    relation_count,
)
from hopwalk.propagation.parameters import Options, PerQuery, Shared, Task
from hopwalk.propagation.simd import absolute, axpy, load, positive, raise_maximum, root, splat, store, total

BLOCK = 4  # nodes updated together


@inlined
def sigmoid(x: float) -> float:
    """1 / (1 + exp(−x)) in float32."""
    return np.float32(1.0) / (np.float32(1.0) + math.exp(-np.float32(x)))


@inlined
def uniform(seed: int, number: int) -> float:
    """A number in [0, 1) for (seed, number), by the finaliser of splitmix64."""
    z = np.uint64(seed) + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) / np.float64(1 << 53)


@inlined
def attention_hidden(shared: Shared, per_query: PerQuery, query: int, layer: int, relation: int, source: Any, A: int) -> Any:
    """relu(… + b_r(q)), given all that does not depend on the query."""
    num_layers, num_relations = per_query.relation_bias.shape[1], per_query.relation_bias.shape[2]
    place = ((query * num_layers + layer) * num_relations + relation) * A
    return positive(source + load(per_query.relation_bias, place, A))


@inlined
def source_projection(
    shared: Shared, layer: int, node: int, x: Floats, options: Options, workspace: Workspace, D: int, A: int
) -> Any:
    """S x_u + s₁ log(1 + n_u) of a node u, given x_u [D]."""
    projected = splat(0.0, A)
    for column in range(D):
        projected = axpy(x[column], load(shared.source, (layer * D + column) * A, A), projected)
    if options.degrees:
        projected = axpy(workspace.log_degrees[node], load(shared.attention_degrees, (2 * layer + 1) * A, A), projected)
    return projected


@inlined
def log_length(graph: RunGraph, task: Task, run: int, any_hidden: bool) -> float:
    """log(1 + n_ur): the number of edges of a run, without hidden ones."""
    start, end = graph.run_starts[run], graph.run_starts[run + 1]
    return graph.log_counts[end - start - (count_hidden(task.hidden, start, end) if any_hidden else 0)]


@inlined
def has_hidden(graph: RunGraph, task: Task, entity: int) -> bool:
    """Whether some edges of an entity are hidden."""
    first, last = graph.run_offsets[entity], graph.run_offsets[entity + 1]
    return count_hidden(task.hidden, graph.run_starts[first], graph.run_starts[last]) > 0


@inlined
def add_degrees(z: Any, graph: RunGraph, layer: int, node: int, shared: Shared, workspace: Workspace, D: int) -> Any:
    """z + t₀ log(1 + n_v) + t₁ log(1 + m_v) of a node v."""
    log_messages = graph.log_counts[workspace.counts[workspace.row_starts[layer + 1] + node]]
    z = axpy(workspace.log_degrees[node], load(shared.state_degrees, 2 * layer * D, D), z)
    return axpy(log_messages, load(shared.state_degrees, (2 * layer + 1) * D, D), z)


@inlined
def share_of_message(workspace: Workspace, row: int, node: int, options: Options) -> float:
    """The weight of each message in the mean."""
    if options.degrees:
        return np.float32(1.0) / (np.float32(1.0) + workspace.degrees[node])
    return np.float32(1.0 / max(workspace.counts[row], 1))


@inlined
def _begin_node(graph: RunGraph, task: Task, node: int, entity: int, options: Options, workspace: Workspace) -> None:
    """Number an entity that is reached for the first time."""
    workspace.slots[entity] = node
    workspace.nodes[node] = entity
    if options.degrees:
        start = graph.run_starts[graph.run_offsets[entity]]
        end = graph.run_starts[graph.run_offsets[entity + 1]]
        degree = end - start - count_hidden(task.hidden, start, end)
        workspace.degrees[node], workspace.log_degrees[node] = degree, graph.log_counts[degree]


@inlined
def _start_rows(workspace: Workspace, row: int, end: int, has_max: int, D: int) -> None:
    """Rows without messages."""
    for number in range(row, end):
        store(workspace.sums, number * D, splat(0.0, D))
        workspace.counts[number] = 0
        if has_max:
            store(workspace.maxima, number * D, splat(-np.inf, D))


@compiled
def _send(
    graph: RunGraph, task: Task, query: int, layer: int, num_nodes: int, shared: Shared, per_query: PerQuery,
    options: Options, workspace: Workspace, D: int, A: int,
) -> int:  # fmt: skip
    """Send the messages of a layer; give how many nodes are reached afterwards."""
    ws = workspace
    row, next_row = ws.row_starts[layer], ws.row_starts[layer + 1]
    num_layers, num_relations = per_query.relation_weight.shape[1], per_query.relation_weight.shape[2]
    first_relation = (query * num_layers + layer) * num_relations
    num_reached = num_nodes
    _start_rows(ws, next_row, next_row + num_nodes, options.max, D)
    first_sender = ws.sender_starts[layer]
    num_runs = ws.sender_run_ends[first_sender - 1] if first_sender else 0
    num_edges = ws.run_ends[num_runs - 1] if num_runs else 0
    x_row = ws.scratch[:D]
    for number in range(first_sender, ws.sender_starts[layer + 1]):
        node = ws.senders[number]
        x = load(ws.states, (row + node) * D, D)
        if options.gate:
            x = sigmoid(ws.priorities[node] + shared.priority_bias[layer]) * x
        store(x_row, 0, x)
        source = source_projection(shared, layer, node, x_row, options, ws, D, A)
        entity = ws.nodes[node]
        first_run, last_run = graph.run_offsets[entity], graph.run_offsets[entity + 1]
        degree = graph.run_starts[last_run] - graph.run_starts[first_run]
        any_hidden = has_hidden(graph, task, entity)
        for run in range(first_run, last_run):
            relation = graph.run_relations[run]
            run_source = source
            if options.degrees:
                length = log_length(graph, task, run, any_hidden)
                run_source = axpy(length, load(shared.attention_degrees, 2 * layer * A, A), source)
            hidden = attention_hidden(shared, per_query, query, layer, relation, run_source, A)
            logit = total(hidden * load(shared.attention, layer * A, A)) + shared.attention_bias[layer]
            alpha = sigmoid(logit)
            message = x * load(per_query.relation_weight, (first_relation + relation) * D, D)
            if options.additive:
                message = message + load(per_query.relation_offset, (first_relation + relation) * D, D)
            message = alpha * message
            start, length = graph.run_starts[run], graph.run_starts[run + 1] - graph.run_starts[run]
            count = num_kept(length, degree, options.fan_out)
            offset = uniform(task.seed, run) if count < length else 0.0
            for place in range(count):
                edge = start + place if count == length else kept_edge(start, length, count, place, offset)
                if any_hidden and is_hidden(task.hidden, edge):
                    continue
                if options.drop > 0 and uniform(task.seed + 1, edge) < options.drop:
                    continue
                tail = graph.tails[edge]
                target = ws.slots[tail]
                if target < 0:
                    target = num_reached
                    num_reached += 1
                    _begin_node(graph, task, target, tail, options, ws)
                    _start_rows(ws, next_row + target, next_row + target + 1, options.max, D)
                place = (next_row + target) * D
                store(ws.sums, place, load(ws.sums, place, D) + message)
                if options.mean or options.max or options.degrees:
                    ws.counts[next_row + target] += 1
                if options.max:
                    raise_maximum(ws.maxima, ws.owners, place, message, num_runs)
                ws.edge_nodes[num_edges] = target
                ws.edge_ids[num_edges] = edge
                num_edges += 1
            ws.run_relations[num_runs] = relation
            ws.run_alphas[num_runs] = alpha
            ws.run_ends[num_runs] = num_edges
            num_runs += 1
        ws.sender_run_ends[number] = num_runs
    return num_reached


@inlined
def gather_inputs(
    workspace: Workspace, layer: int, node: int, num_before: int, options: Options, inputs: Floats, place: int, D: int
) -> None:
    """Write [h_v; c(Σ m); mean m; max m] to `inputs` from `place` on."""
    ws = workspace
    row = ws.row_starts[layer + 1] + node
    count = ws.counts[row]
    messages = load(ws.sums, row * D, D)
    state = splat(0.0, D)
    if node < num_before:
        state = load(ws.states, (ws.row_starts[layer] + node) * D, D)
    store(inputs, place, state)
    store(inputs, place + D, messages / root(splat(1.0, D) + absolute(messages)))
    place += 2 * D
    if options.mean:
        store(inputs, place, share_of_message(ws, row, node, options) * messages)
        place += D
    if options.max:
        largest = splat(0.0, D)
        if count:
            largest = load(ws.maxima, row * D, D)
        store(inputs, place, largest)


@inlined
def four_products(weight: Floats, first: int, inputs: Floats, start: int, num_inputs: int, start_sum: Any, D: int) -> Any:
    """W x for four rows of `inputs` [4, I], beginning with column `start`, on top of `start_sum`."""
    z0, z1, z2, z3 = start_sum, start_sum, start_sum, start_sum
    for column in range(start, num_inputs):
        w = load(weight, (first + column) * D, D)
        z0 = axpy(inputs[column], w, z0)
        z1 = axpy(inputs[num_inputs + column], w, z1)
        z2 = axpy(inputs[2 * num_inputs + column], w, z2)
        z3 = axpy(inputs[3 * num_inputs + column], w, z3)
    return z0, z1, z2, z3


@inlined
def centred(z: Any, epsilon: float, D: int) -> Any:
    """(z − mean z) / √(var z + ε), and 1 / √(var z + ε)."""
    centred = z - splat(total(z) * np.float32(1.0 / D), D)
    variance = total(centred * centred) * np.float32(1.0 / D)
    scale = np.float32(1.0) / np.float32(math.sqrt(variance + np.float32(epsilon)))
    return scale * centred, scale


@inlined
def _finish_node(
    z: Any,
    graph: RunGraph,
    layer: int,
    node: int,
    num_before: int,
    shared: Shared,
    options: Options,
    workspace: Workspace,
    D: int,
) -> None:
    """h'_v from W x + b, and its priority in the next layer."""
    ws = workspace
    if options.degrees:
        z = add_degrees(z, graph, layer, node, shared, ws, D)
    normal, _ = centred(z, options.epsilon, D)
    state = positive(normal * load(shared.norm_gain, layer * D, D) + load(shared.norm_bias, layer * D, D))
    if node < num_before:
        state = state + load(ws.states, (ws.row_starts[layer] + node) * D, D)
    store(ws.states, (ws.row_starts[layer + 1] + node) * D, state)
    if layer + 1 < shared.priority.shape[0]:
        ws.priorities[node] = total(state * load(shared.priority, (layer + 1) * D, D))


@compiled
def _update_nodes(
    graph: RunGraph, layer: int, num_before: int, num_nodes: int, shared: Shared, options: Options, workspace: Workspace, D: int
) -> None:
    """The new state of every node."""
    num_inputs = shared.weight.shape[1]
    inputs = workspace.scratch[: BLOCK * num_inputs]
    bias = load(shared.bias, layer * D, D)
    last = num_nodes - 1
    for node in range(0, num_nodes, BLOCK):
        for number in range(BLOCK):
            gather_inputs(workspace, layer, min(node + number, last), num_before, options, inputs, number * num_inputs, D)
        start = 0 if node < num_before else D  # new nodes have no state yet
        z0, z1, z2, z3 = four_products(shared.weight, layer * num_inputs, inputs, start, num_inputs, bias, D)
        _finish_node(z0, graph, layer, node, num_before, shared, options, workspace, D)
        if node + 1 <= last:
            _finish_node(z1, graph, layer, node + 1, num_before, shared, options, workspace, D)
        if node + 2 <= last:
            _finish_node(z2, graph, layer, node + 2, num_before, shared, options, workspace, D)
        if node + 3 <= last:
            _finish_node(z3, graph, layer, node + 3, num_before, shared, options, workspace, D)


@compiled
def _score_nodes(
    graph: RunGraph, task: Task, query: int, num_nodes: int, per_query: PerQuery, options: Options, workspace: Workspace, D: int
) -> None:
    """The score of every node reached."""
    ws = workspace
    num_layers = per_query.relation_weight.shape[1]
    first_row = ws.row_starts[num_layers]
    readout = load(per_query.readout, query * D, D)
    weights = per_query.feature_weight[query]
    for node in range(num_nodes):
        score = total(readout * load(ws.states, (first_row + node) * D, D))
        if options.features:
            f0, f1, f2 = features_of(graph, task, ws.nodes[node], per_query.relation_weight.shape[2])
            score += weights[0] * f0 + weights[1] * f1 + weights[2] * f2
        ws.scores[node] = score


@inlined
def features_of(graph: RunGraph, task: Task, entity: int, num_directed: int) -> tuple[float, float, float]:
    """log(1 + n), n > 0 and log(1 + degree), where n is how often the entity is a tail of the asked relation."""
    inverse = (task.relation + num_directed // 2) % num_directed
    count = relation_count(graph, entity, inverse, task.hidden)
    if count == 0:
        return np.float32(0.0), np.float32(0.0), graph.log_degrees[entity]
    return np.float32(math.log(np.float32(1 + count))), np.float32(1.0), graph.log_degrees[entity]


@compiled
def forward(
    graph: RunGraph, task: Task, query: int, shared: Shared, per_query: PerQuery, options: Options, workspace: Workspace,
    needed: Int64s, D: int, A: int,
) -> int:  # fmt: skip
    """Run all layers; give how many nodes are reached, or -1 if the workspace is too small for what `needed` then says."""
    ws = workspace
    num_layers = shared.weight.shape[0]
    _begin_node(graph, task, 0, task.head, options, ws)
    state = load(per_query.head_state, query * D, D)
    store(ws.states, 0, state)
    ws.priorities[0] = total(state * load(shared.priority, 0, D))
    ws.row_starts[0], ws.row_starts[1] = 0, 1
    ws.sender_starts[0] = 0
    num_nodes, num_runs, num_edges = 1, 0, 0
    for layer in range(num_layers):
        first = ws.sender_starts[layer]
        if first + min(num_nodes, options.num_senders) > len(ws.senders):
            needed[1] = first + min(num_nodes, options.num_senders)
            forget(num_nodes, ws)
            return -1
        count = choose_senders(ws.priorities, num_nodes, options.num_senders, ws.senders[first:], ws.scores)
        ws.sender_starts[layer + 1] = first + count
        runs, edges = needed_room(graph, ws.nodes, ws.senders[first:], count, options.fan_out)
        next_row = ws.row_starts[layer] + num_nodes
        ws.row_starts[layer + 1] = next_row
        needed[0] = max(next_row + min(num_nodes + edges, len(ws.slots)), len(task.targets))
        needed[2], needed[3] = num_runs + runs, num_edges + edges
        if needed[0] > len(ws.counts) or needed[2] > len(ws.run_ends) or needed[3] > len(ws.edge_nodes):
            forget(num_nodes, ws)
            return -1
        num_before = num_nodes
        num_nodes = _send(graph, task, query, layer, num_before, shared, per_query, options, ws, D, A)
        num_runs = ws.sender_run_ends[first + count - 1]
        num_edges = ws.run_ends[num_runs - 1] if num_runs else 0
        _update_nodes(graph, layer, num_before, num_nodes, shared, options, ws, D)
    ws.row_starts[num_layers + 1] = ws.row_starts[num_layers] + num_nodes
    _score_nodes(graph, task, query, num_nodes, per_query, options, ws, D)
    return num_nodes


@compiled
def forget(num_nodes: int, workspace: Workspace) -> None:
    """Make the workspace ready for the next query."""
    for node in range(num_nodes):
        workspace.slots[workspace.nodes[node]] = -1
