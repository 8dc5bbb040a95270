"""The loss of one query and its gradients, back through all layers of `forward.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hopwalk.propagation.explaining import edge_derivatives
from hopwalk.propagation.forward import (
    BLOCK,
    add_degrees,
    attention_hidden,
    centred,
    features_of,
    four_products,
    gather_inputs,
    has_hidden,
    log_length,
    share_of_message,
    sigmoid,
    source_projection,
    uniform,
)
from hopwalk.propagation.frontier import Workspace
from hopwalk.propagation.graph import Floats, RunGraph, compiled, inlined
from hopwalk.propagation.parameters import Options, PerQuery, Shared, Task, Transposed
from hopwalk.propagation.simd import absolute, axpy, load, root, splat, store, total, where_owner, where_positive


@compiled
def replace_scores_by_gradients(
    task: Task, query: int, num_nodes: int, per_query: PerQuery, workspace: Workspace, threshold: float,
    gradient: PerQuery,
) -> float:  # fmt: skip
    """Mean over targets of −log softmax among the target and all entities that are no known answer.

    The scores are replaced by their gradients. A negative whose gradient is below `threshold` is kept with probability
    gradient / threshold, and then weighs `threshold`: the expectation stays, and most of the backward pass is saved.
    """
    ws = workspace
    constant = np.float64(per_query.unreached[query])
    largest = constant
    for node in range(num_nodes):
        largest = max(largest, np.float64(ws.scores[node]))
    num_unreached = len(ws.slots) - num_nodes
    num_targets = len(task.targets)
    target_scores = ws.priorities  # no longer needed
    for number in range(num_targets):
        node = ws.slots[task.targets[number]]
        num_unreached -= node < 0
        target_scores[number] = ws.scores[node] if node >= 0 else per_query.unreached[query]
    for entity in task.targets:
        if ws.slots[entity] >= 0:
            ws.scores[ws.slots[entity]] = -np.inf
    for entity in task.filtered:
        node = ws.slots[entity]
        num_unreached -= node < 0
        if node >= 0:
            ws.scores[node] = -np.inf
    negatives = num_unreached * math.exp(constant - largest)
    for node in range(num_nodes):
        ws.scores[node] = math.exp(ws.scores[node] - np.float32(largest))
        negatives += np.float64(ws.scores[node])
    loss, inverse = 0.0, 0.0
    for number in range(num_targets):
        normaliser = negatives + math.exp(target_scores[number] - largest)
        loss += (math.log(normaliser) + largest - target_scores[number]) / num_targets
        inverse += 1.0 / (normaliser * num_targets)
    for node in range(num_nodes):
        share = ws.scores[node] * inverse
        if share < threshold:
            share = threshold if uniform(task.seed, node) * threshold < share else 0.0
        ws.scores[node] = share
    d_unreached = num_unreached * math.exp(constant - largest) * inverse
    for number in range(num_targets):
        own = math.exp(target_scores[number] - largest)
        d_score = (own / (negatives + own) - 1.0) / num_targets
        node = ws.slots[task.targets[number]]
        if node >= 0:
            ws.scores[node] = d_score
        else:
            d_unreached += d_score
    gradient.unreached[query] = d_unreached
    return loss


@compiled
def _backward_scores(
    graph: RunGraph, task: Task, query: int, num_nodes: int, per_query: PerQuery, options: Options, workspace: Workspace,
    gradient: PerQuery, is_training: bool, D: int,
) -> None:  # fmt: skip
    """From gradients of the scores to those of the last states."""
    ws = workspace
    num_layers = per_query.relation_weight.shape[1]
    first_row = ws.row_starts[num_layers]
    readout = load(per_query.readout, query * D, D)
    d_readout = splat(0.0, D)
    d_features = gradient.feature_weight[query]
    for node in range(num_nodes):
        d_score = ws.scores[node]
        row = first_row + node
        ws.is_active[row] = d_score != 0
        if d_score == 0:
            continue
        store(ws.d_states, row * D, d_score * readout)
        if not is_training:
            continue
        d_readout = axpy(d_score, load(ws.states, row * D, D), d_readout)
        if options.features:
            f0, f1, f2 = features_of(graph, task, ws.nodes[node], per_query.relation_weight.shape[2])
            d_features[0] += d_score * f0
            d_features[1] += d_score * f1
            d_features[2] += d_score * f2
    if is_training:
        store(gradient.readout, query * D, d_readout)


@inlined
def _backward_norm(
    z: Any, graph: RunGraph, node: int, layer: int, query: int, weight: float, shared: Shared, options: Options,
    workspace: Workspace, d_shared: Shared, is_training: bool, D: int,
) -> Any:  # fmt: skip
    """The gradient of W x + b of one node; `weight` 0 for the rows that only fill a block up."""
    row = workspace.row_starts[layer + 1] + node
    place = (query * shared.weight.shape[0] + layer) * D
    if options.degrees:
        z = add_degrees(z, graph, layer, node, shared, workspace, D)
    normal, scale = centred(z, options.epsilon, D)
    gain = load(shared.norm_gain, layer * D, D)
    output = normal * gain + load(shared.norm_bias, layer * D, D)
    d_output = np.float32(weight) * where_positive(output, load(workspace.d_states, row * D, D))
    d_normal = d_output * gain
    mean = splat(total(d_normal) * np.float32(1.0 / D), D)
    along = total(d_normal * normal) * np.float32(1.0 / D)
    d_z = scale * (d_normal - mean - along * normal)
    if is_training:
        store(d_shared.norm_bias, place, load(d_shared.norm_bias, place, D) + d_output)
        store(d_shared.norm_gain, place, load(d_shared.norm_gain, place, D) + d_output * normal)
        store(d_shared.bias, place, load(d_shared.bias, place, D) + d_z)
        if options.degrees:
            first, second = 2 * place, 2 * place + D
            log_messages = graph.log_counts[workspace.counts[row]]
            store(d_shared.state_degrees, first, axpy(workspace.log_degrees[node], d_z, load(d_shared.state_degrees, first, D)))
            store(d_shared.state_degrees, second, axpy(log_messages, d_z, load(d_shared.state_degrees, second, D)))
    return d_z


@inlined
def _backward_inputs(
    layer: int, node: int, num_before: int, part: int, d_input: Any, options: Options, workspace: Workspace, D: int
) -> None:
    """Pass the gradient of one part of [h_v; c(Σ m); mean m; max m] on."""
    ws = workspace
    row, next_row = ws.row_starts[layer] + node, ws.row_starts[layer + 1] + node
    if part == 0:
        if node < num_before:
            store(ws.d_states, row * D, load(ws.d_states, next_row * D, D) + d_input)
            ws.is_active[row] = 1
    elif part == 1:
        size = absolute(load(ws.sums, next_row * D, D))
        one = splat(1.0, D)
        below = one + size
        store(ws.d_sums, next_row * D, d_input * (one + np.float32(0.5) * size) / (below * root(below)))
    elif part == 2 and options.mean:
        share = share_of_message(ws, next_row, node, options)
        store(ws.d_sums, next_row * D, axpy(share, d_input, load(ws.d_sums, next_row * D, D)))
    else:
        store(ws.d_maxima, next_row * D, d_input)


@compiled
def _backward_nodes(
    graph: RunGraph, query: int, layer: int, num_before: int, num_nodes: int, shared: Shared, transposed: Transposed,
    options: Options, workspace: Workspace, d_shared: Shared, is_training: bool, D: int,
) -> None:  # fmt: skip
    """Backward of the node update, for the nodes whose gradient is not 0. W x is computed again: most nodes have none."""
    ws = workspace
    num_layers, num_inputs = shared.weight.shape[0], shared.weight.shape[1]
    row, next_row = ws.row_starts[layer], ws.row_starts[layer + 1]
    inputs = ws.scratch[: BLOCK * num_inputs]
    d_zs = ws.scratch[BLOCK * num_inputs : BLOCK * num_inputs + BLOCK * D]
    bias = load(shared.bias, layer * D, D)
    first_weight = (query * num_layers + layer) * num_inputs
    for node in range(num_before):
        ws.is_active[row + node] = 0
    found = ws.block
    node = 0
    while True:
        count = 0
        while node < num_nodes and count < BLOCK:
            if ws.is_active[next_row + node]:
                found[count] = node
                count += 1
            node += 1
        if count == 0:
            break
        for number in range(count, BLOCK):
            found[number] = found[0]
        for number in range(BLOCK):
            gather_inputs(ws, layer, found[number], num_before, options, inputs, number * num_inputs, D)
        z0, z1, z2, z3 = four_products(shared.weight, layer * num_inputs, inputs, 0, num_inputs, bias, D)
        d0 = _backward_norm(z0, graph, found[0], layer, query, 1.0, shared, options, ws, d_shared, is_training, D)
        d1 = _backward_norm(z1, graph, found[1], layer, query, count > 1, shared, options, ws, d_shared, is_training, D)
        d2 = _backward_norm(z2, graph, found[2], layer, query, count > 2, shared, options, ws, d_shared, is_training, D)
        d3 = _backward_norm(z3, graph, found[3], layer, query, count > 3, shared, options, ws, d_shared, is_training, D)
        for column in range(num_inputs if is_training else 0):
            place = (first_weight + column) * D
            d_weight = axpy(inputs[column], d0, load(d_shared.weight, place, D))
            d_weight = axpy(inputs[num_inputs + column], d1, d_weight)
            d_weight = axpy(inputs[2 * num_inputs + column], d2, d_weight)
            d_weight = axpy(inputs[3 * num_inputs + column], d3, d_weight)
            store(d_shared.weight, place, d_weight)
        store(d_zs, 0, d0)
        store(d_zs, D, d1)
        store(d_zs, 2 * D, d2)
        store(d_zs, 3 * D, d3)
        for part in range(num_inputs // D):
            i0, i1, i2, i3 = _four_transposed(transposed.weight, layer, part, num_inputs, d_zs, D)
            _backward_inputs(layer, found[0], num_before, part, i0, options, ws, D)
            if count > 1:
                _backward_inputs(layer, found[1], num_before, part, i1, options, ws, D)
            if count > 2:
                _backward_inputs(layer, found[2], num_before, part, i2, options, ws, D)
            if count > 3:
                _backward_inputs(layer, found[3], num_before, part, i3, options, ws, D)


@inlined
def _four_transposed(weight: Floats, layer: int, part: int, num_inputs: int, d_zs: Floats, D: int) -> Any:
    """One part of Wᵀ dz for four rows of `d_zs` [4, D]."""
    zero = splat(0.0, D)
    i0, i1, i2, i3 = zero, zero, zero, zero
    for output in range(D):
        w = load(weight, (layer * D + output) * num_inputs + part * D, D)
        i0 = axpy(d_zs[output], w, i0)
        i1 = axpy(d_zs[D + output], w, i1)
        i2 = axpy(d_zs[2 * D + output], w, i2)
        i3 = axpy(d_zs[3 * D + output], w, i3)
    return i0, i1, i2, i3


@compiled
def _backward_messages(
    graph: RunGraph, task: Task, query: int, layer: int, shared: Shared, transposed: Transposed, per_query: PerQuery,
    options: Options, workspace: Workspace, d_shared: Shared, gradient: PerQuery, is_training: bool, D: int, A: int,
) -> None:  # fmt: skip
    """Backward of the messages of a layer: to the states of the senders and to all parameters of messages and attention."""
    ws = workspace
    row, next_row = ws.row_starts[layer], ws.row_starts[layer + 1]
    num_layers, num_relations = per_query.relation_weight.shape[1], per_query.relation_weight.shape[2]
    first_relation = (query * num_layers + layer) * num_relations
    shared_place = query * num_layers + layer
    attention = load(shared.attention, layer * A, A)
    priority = load(shared.priority, layer * D, D)
    d_attention, d_lengths, d_degrees, d_priority = splat(0.0, A), splat(0.0, A), splat(0.0, A), splat(0.0, D)
    d_attention_bias, d_priority_bias = np.float32(0.0), np.float32(0.0)
    x_row = ws.scratch[:D]
    d_source_row = ws.scratch[D : D + A]
    first_sender = ws.sender_starts[layer]
    run = ws.sender_run_ends[first_sender - 1] if first_sender else 0
    edge = ws.run_ends[run - 1] if run else 0
    for number in range(first_sender, ws.sender_starts[layer + 1]):
        node = ws.senders[number]
        state = load(ws.states, (row + node) * D, D)
        gate, x = np.float32(1.0), state
        if options.gate:
            logit = total(state * priority) + shared.priority_bias[layer]
            gate = np.float32(sigmoid(logit))
            x = gate * state
        store(x_row, 0, x)
        source, is_source_known = splat(0.0, A), False
        run_of_graph = graph.run_offsets[ws.nodes[node]]
        any_hidden = options.degrees and has_hidden(graph, task, ws.nodes[node])
        d_x, d_source = splat(0.0, D), splat(0.0, A)
        while run < ws.sender_run_ends[number]:
            d_message = splat(0.0, D)
            is_used = False
            while edge < ws.run_ends[run]:
                target = next_row + ws.edge_nodes[edge]
                if ws.is_active[target]:
                    is_used = True
                    d_message = d_message + load(ws.d_sums, target * D, D)
                    if options.max:
                        d_largest = where_owner(ws.owners, target * D, run, load(ws.d_maxima, target * D, D))
                        d_message = d_message + d_largest
                edge += 1
            if is_used:
                if not is_source_known:
                    source, is_source_known = source_projection(shared, layer, node, x_row, options, ws, D, A), True
                relation, alpha = ws.run_relations[run], ws.run_alphas[run]
                place = (first_relation + relation) * D
                weight = load(per_query.relation_weight, place, D)
                product = x * weight
                d_product = alpha * d_message
                if options.additive:
                    product = product + load(per_query.relation_offset, place, D)
                d_x = d_x + d_product * weight
                run_source, length = source, np.float32(0.0)
                if options.degrees:
                    length = log_length(graph, task, run_of_graph, any_hidden)
                    run_source = axpy(length, load(shared.attention_degrees, 2 * layer * A, A), source)
                hidden = attention_hidden(shared, per_query, query, layer, relation, run_source, A)
                d_logit = total(d_message * product) * alpha * (np.float32(1.0) - alpha)
                d_hidden = where_positive(hidden, d_logit * attention)
                d_source = d_source + d_hidden
                if is_training:
                    d_attention = axpy(d_logit, hidden, d_attention)
                    d_attention_bias += d_logit
                    if options.additive:
                        store(gradient.relation_offset, place, load(gradient.relation_offset, place, D) + d_product)
                    store(gradient.relation_weight, place, load(gradient.relation_weight, place, D) + d_product * x)
                    place = (first_relation + relation) * A
                    store(gradient.relation_bias, place, load(gradient.relation_bias, place, A) + d_hidden)
                    d_lengths = axpy(length, d_hidden, d_lengths)
            run += 1
            run_of_graph += 1
        if not is_source_known:
            continue
        store(d_source_row, 0, d_source)
        if is_training and options.degrees:
            d_degrees = axpy(ws.log_degrees[node], d_source, d_degrees)
        for column in range(D if is_training else 0):
            place = (shared_place * D + column) * A
            store(d_shared.source, place, axpy(x_row[column], d_source, load(d_shared.source, place, A)))
        for column in range(A):
            d_x = axpy(d_source_row[column], load(transposed.source, (layer * A + column) * D, D), d_x)
        d_state = gate * d_x
        if options.gate:
            d_gate = total(d_x * state) * gate * (np.float32(1.0) - gate)
            d_state = axpy(d_gate, priority, d_state)
            d_priority = axpy(d_gate, state, d_priority)
            d_priority_bias += d_gate
        if ws.is_active[row + node]:
            d_state = d_state + load(ws.d_states, (row + node) * D, D)
        store(ws.d_states, (row + node) * D, d_state)
        ws.is_active[row + node] = 1
    if is_training:
        store(d_shared.attention, shared_place * A, d_attention)
        store(d_shared.priority, shared_place * D, d_priority)
        if options.degrees:
            store(d_shared.attention_degrees, 2 * shared_place * A, d_lengths)
            store(d_shared.attention_degrees, (2 * shared_place + 1) * A, d_degrees)
        d_shared.attention_bias[query, layer] = d_attention_bias
        d_shared.priority_bias[query, layer] = d_priority_bias


@compiled
def backward(
    graph: RunGraph, task: Task, query: int, num_nodes: int, shared: Shared, transposed: Transposed, per_query: PerQuery,
    options: Options, workspace: Workspace, d_shared: Shared, gradient: PerQuery, edge_values: Floats, D: int, A: int,
) -> None:  # fmt: skip
    """Backward of `forward`, from the gradients of the scores that `workspace.scores` holds. Gradients must start at 0.

    With room in `edge_values`, that gets the derivative by a weight of 1 on every edge that carried a message, and the
    gradients of the parameters are not computed.
    """
    ws = workspace
    is_training = len(edge_values) == 0
    _backward_scores(graph, task, query, num_nodes, per_query, options, ws, gradient, is_training, D)
    for step in range(shared.weight.shape[0]):
        layer = shared.weight.shape[0] - 1 - step
        num_before = ws.row_starts[layer + 1] - ws.row_starts[layer]
        num_after = ws.row_starts[layer + 2] - ws.row_starts[layer + 1]
        _backward_nodes(graph, query, layer, num_before, num_after, shared, transposed, options, ws, d_shared, is_training, D)
        if not is_training:
            edge_derivatives(query, layer, shared, per_query, options, ws, edge_values, D)
            if layer == 0:
                return
        _backward_messages(
            graph, task, query, layer, shared, transposed, per_query, options, ws, d_shared, gradient, is_training, D, A
        )
    if ws.is_active[0]:
        store(gradient.head_state, query * D, load(ws.d_states, 0, D))
