"""The compiled entry points of NeuralLP and DRUM: probabilities of a batch of queries, and their gradients.

One rank of one query, with operator attentions a, memory attentions b and the operators M, one for every relation, every inverse
and the identity:
    u_0 = one at the head,  m_t = Σ_τ≤t b_tτ u_τ
    u_{t+1} = Σ_k a_tk M_k m_t / z_t,  z_t = max(tiny, sum of the numerator),  t = 0 … T−1
    p = Σ_τ≤T b_Tτ u_τ
The probability of an entity is the mean of p over the ranks. Threads work on different queries, and every query writes gradients
of its own: results do not depend on the number of threads. Hidden edges are hidden together with their inverses.

Training needs p at the targets only. So its last hop walks the edges of the targets backwards, and of the other nodes it only
adds up z: no edge of the last hop is followed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopwalk.propagation.graph import Int32s, Int64s, RunGraph, compiled, count_hidden, inlined, is_hidden
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.simd import take_number

TINY = 1e-20  # the smallest divisor, and the smallest probability in the loss
Doubles = NDArray[np.float64]


class Attentions(NamedTuple):
    """The attentions of a batch of queries, and in the same shapes their gradients. K: relations, inverses, identity."""

    operators: Any  # a [Q, ranks, T, K]
    memories: Any  # b [Q, ranks, T+1, T+1]; 0 above the diagonal


class RuleWorkspace(NamedTuple):
    """Memory that one thread uses for one rank of one query at a time; all rows of entities are 0 between queries."""

    is_reached: NDArray[np.uint8]  # [E]
    nodes: Int32s  # [E] entities in the order in which they are reached
    levels: Int64s  # [T+1] how many are reached within t hops
    memories: Doubles  # u [T+1, E]
    reads: Doubles  # m [T, E]
    outs: Doubles  # [T, E] derivative of z_t by m_t
    masses: Doubles  # [T, K] derivative of z_t by a_t
    totals: Doubles  # z [T]
    probabilities: Doubles  # [E]
    slopes: Doubles  # [E] of the loss by p, target by target
    d_memories: Doubles  # [T+1, E]
    d_reads: Doubles  # [E]


def make_rule_workspace(num_entities: int, num_hops: int, num_operators: int) -> RuleWorkspace:
    """An empty workspace. Memory: 8 · (4 T + 5) bytes for each entity."""
    E, T = num_entities, num_hops
    return RuleWorkspace(
        is_reached=np.zeros(E, dtype=np.uint8),
        nodes=np.zeros(E, dtype=np.int32),
        levels=np.zeros(T + 1, dtype=np.int64),
        memories=np.zeros((T + 1, E)),
        reads=np.zeros((T, E)),
        outs=np.zeros((T, E)),
        masses=np.zeros((T, num_operators)),
        totals=np.zeros(T),
        probabilities=np.zeros(E),
        slopes=np.zeros(E),
        d_memories=np.zeros((T + 1, E)),
        d_reads=np.zeros(E),
    )


@inlined
def _read(ws: RuleWorkspace, b: Doubles, step: int) -> None:
    """Write m_t of every node that is reached within t hops."""
    for number in range(ws.levels[step]):
        entity = ws.nodes[number]
        value = 0.0
        for memory in range(step + 1):
            value += b[step, memory] * ws.memories[memory, entity]
        ws.reads[step, entity] = value


@compiled
def _hop(graph: RunGraph, hidden: Int64s, a: Doubles, ws: RuleWorkspace, step: int, follows_edges: bool) -> None:
    """Write z_t with its derivatives and, if edges are followed, u_{t+1}."""
    identity = a.shape[1] - 1
    ws.masses[step, :] = 0.0
    num_reached, total = ws.levels[step + 1], 0.0
    if num_reached == 0:  # the first rank finds out which nodes are reached
        num_reached = ws.levels[step]
    for number in range(ws.levels[step]):
        entity = ws.nodes[number]
        read = ws.reads[step, entity]
        out = a[step, identity]
        ws.masses[step, identity] += read
        first_run, last_run = graph.run_offsets[entity], graph.run_offsets[entity + 1]
        any_hidden = count_hidden(hidden, graph.run_starts[first_run], graph.run_starts[last_run]) > 0
        for run in range(first_run, last_run):
            start, stop = graph.run_starts[run], graph.run_starts[run + 1]
            relation = graph.run_relations[run]
            weight = a[step, relation]
            count = stop - start
            if any_hidden:
                count -= count_hidden(hidden, start, stop)
            out += weight * count
            ws.masses[step, relation] += read * count
            if not follows_edges:
                continue
            value = weight * read
            for edge in range(start, stop):
                if any_hidden and is_hidden(hidden, edge):
                    continue
                tail = graph.tails[edge]
                if ws.is_reached[tail] == 0:
                    ws.is_reached[tail] = 1
                    ws.nodes[num_reached] = tail
                    num_reached += 1
                ws.memories[step + 1, tail] += value
        ws.outs[step, entity] = out
        total += read * out
        if follows_edges:
            ws.memories[step + 1, entity] += a[step, identity] * read
    ws.totals[step] = max(total, TINY)
    if follows_edges:
        ws.levels[step + 1] = num_reached
        for number in range(num_reached):
            ws.memories[step + 1, ws.nodes[number]] /= ws.totals[step]


@inlined
def _start(ws: RuleWorkspace, head: int) -> None:
    """The head is reached, and nothing else."""
    ws.is_reached[head] = 1
    ws.nodes[0] = head
    ws.levels[:] = 0
    ws.levels[0] = 1


@inlined
def _forget_rank(ws: RuleWorkspace, num_nodes: int, targets: Int32s) -> None:
    """Clear the rows of nodes and targets, but not which nodes are reached."""
    for step in range(len(ws.memories)):
        for number in range(num_nodes):
            ws.memories[step, ws.nodes[number]] = 0.0
            ws.d_memories[step, ws.nodes[number]] = 0.0
        for target in targets:
            ws.memories[step, target] = 0.0
            ws.d_memories[step, target] = 0.0
    for step in range(len(ws.reads)):
        for number in range(num_nodes):
            ws.reads[step, ws.nodes[number]] = 0.0


@inlined
def _forget(ws: RuleWorkspace, num_nodes: int) -> None:
    """Clear which nodes are reached, and their probabilities."""
    for number in range(num_nodes):
        ws.is_reached[ws.nodes[number]] = 0
        ws.probabilities[ws.nodes[number]] = 0.0


@inlined
def _last_hop_to(graph: RunGraph, hidden: Int64s, a: Doubles, inverses: Int32s, ws: RuleWorkspace, target: int) -> None:
    """Write u_T of a target, by its edges backwards."""
    step = len(ws.reads) - 1
    value = a[step, a.shape[1] - 1] * ws.reads[step, target]
    for run in range(graph.run_offsets[target], graph.run_offsets[target + 1]):
        arriving = 0.0
        for edge in range(graph.run_starts[run], graph.run_starts[run + 1]):
            if not is_hidden(hidden, edge):
                arriving += ws.reads[step, graph.tails[edge]]
        value += a[step, inverses[graph.run_relations[run]]] * arriving
    ws.memories[step + 1, target] = value / ws.totals[step]


@compiled
def _forward_to_targets(
    graph: RunGraph, hidden: Int64s, targets: Int32s, a: Doubles, b: Doubles, inverses: Int32s, head: int, ws: RuleWorkspace
) -> None:
    """One rank of one query, up to u_T of the targets."""
    num_hops = len(a)
    ws.memories[0, head] = 1.0
    for step in range(num_hops):
        _read(ws, b, step)
        _hop(graph, hidden, a, ws, step, step < num_hops - 1)
    for target in targets:
        _last_hop_to(graph, hidden, a, inverses, ws, target)


@inlined
def _last_hop_back(
    graph: RunGraph, hidden: Int64s, targets: Int32s, a: Doubles, inverses: Int32s, ws: RuleWorkspace, d_a: Doubles
) -> float:
    """Write the gradients of m_{T−1} and a_{T−1} but for what passes z; give u_T · d u_T."""
    step, identity, inner = len(ws.reads) - 1, a.shape[1] - 1, 0.0
    for target in targets:
        slope = ws.d_memories[step + 1, target] / ws.totals[step]
        inner += ws.d_memories[step + 1, target] * ws.memories[step + 1, target]
        if ws.is_reached[target]:
            ws.d_reads[target] += a[step, identity] * slope
            d_a[step, identity] += ws.reads[step, target] * slope
        for run in range(graph.run_offsets[target], graph.run_offsets[target + 1]):
            relation = inverses[graph.run_relations[run]]
            arriving = 0.0
            for edge in range(graph.run_starts[run], graph.run_starts[run + 1]):
                source = graph.tails[edge]
                if ws.is_reached[source] and not is_hidden(hidden, edge):
                    ws.d_reads[source] += a[step, relation] * slope
                    arriving += ws.reads[step, source]
            d_a[step, relation] += arriving * slope
    return inner


@inlined
def _hop_back(graph: RunGraph, hidden: Int64s, a: Doubles, ws: RuleWorkspace, step: int, d_a: Doubles) -> float:
    """Write the gradients of m_t and a_t but for what passes z; give u_{t+1} · d u_{t+1}."""
    identity, scale, inner = a.shape[1] - 1, 1.0 / ws.totals[step], 0.0
    for number in range(ws.levels[step + 1]):
        entity = ws.nodes[number]
        inner += ws.d_memories[step + 1, entity] * ws.memories[step + 1, entity]
    for number in range(ws.levels[step]):
        entity = ws.nodes[number]
        slope, read = ws.d_memories[step + 1, entity] * scale, ws.reads[step, entity]
        d_read = a[step, identity] * slope
        d_a[step, identity] += read * slope
        first_run, last_run = graph.run_offsets[entity], graph.run_offsets[entity + 1]
        any_hidden = count_hidden(hidden, graph.run_starts[first_run], graph.run_starts[last_run]) > 0
        for run in range(first_run, last_run):
            arriving = 0.0
            for edge in range(graph.run_starts[run], graph.run_starts[run + 1]):
                if any_hidden and is_hidden(hidden, edge):
                    continue
                arriving += ws.d_memories[step + 1, graph.tails[edge]]
            relation = graph.run_relations[run]
            d_read += a[step, relation] * arriving * scale
            d_a[step, relation] += read * arriving * scale
        ws.d_reads[entity] += d_read
    return inner


@compiled
def _backward(
    graph: RunGraph, hidden: Int64s, targets: Int32s, slopes: Doubles, a: Doubles, b: Doubles, inverses: Int32s,
    ws: RuleWorkspace, d_a: Doubles, d_b: Doubles,
) -> None:  # fmt: skip
    """Add the gradients of one rank of one query; `slopes` are those of p at the targets."""
    num_hops = len(a)
    for place in range(len(targets)):
        for memory in range(num_hops + 1):
            d_b[num_hops, memory] += slopes[place] * ws.memories[memory, targets[place]]
            ws.d_memories[memory, targets[place]] += slopes[place] * b[num_hops, memory]
    for step in range(num_hops - 1, -1, -1):
        if step == num_hops - 1:
            inner = _last_hop_back(graph, hidden, targets, a, inverses, ws, d_a)
        else:
            inner = _hop_back(graph, hidden, a, ws, step, d_a)
        d_total = -inner / ws.totals[step] if ws.totals[step] > TINY else 0.0
        for operator in range(a.shape[1]):
            d_a[step, operator] += d_total * ws.masses[step, operator]
        for number in range(ws.levels[step]):
            entity = ws.nodes[number]
            d_read = ws.d_reads[entity] + d_total * ws.outs[step, entity]
            ws.d_reads[entity] = 0.0
            for memory in range(step + 1):
                d_b[step, memory] += d_read * ws.memories[memory, entity]
                ws.d_memories[memory, entity] += d_read * b[step, memory]


@compiled
def train_rules(
    graph: RunGraph, tasks: Tasks, inverses: Int32s, attentions: Attentions, ws: RuleWorkspace, gradient: Attentions,
    losses: Doubles, counter: Int64s,
) -> None:  # fmt: skip
    """Write the loss of every query, the mean of −log p over its targets [Q], and its gradients, which must be 0 before."""
    num_ranks, num_hops = attentions.operators.shape[1], attentions.operators.shape[2]
    while True:
        query = take_number(counter)
        if query >= len(losses):
            break
        hidden = tasks.hidden[tasks.hidden_offsets[query] : tasks.hidden_offsets[query + 1]]
        targets = tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]]
        slopes = ws.slopes[: len(targets)]
        slopes[:] = 0.0
        _start(ws, tasks.heads[query])
        for rank in range(num_ranks):
            a, b = attentions.operators[query, rank], attentions.memories[query, rank]
            _forward_to_targets(graph, hidden, targets, a, b, inverses, tasks.heads[query], ws)
            for place in range(len(targets)):
                for memory in range(num_hops + 1):
                    slopes[place] += b[num_hops, memory] * ws.memories[memory, targets[place]] / num_ranks
            if num_ranks > 1:
                _forget_rank(ws, ws.levels[num_hops - 1], targets)
        loss = 0.0
        for place in range(len(targets)):
            p = slopes[place]
            loss -= math.log(max(p, TINY)) / len(targets)
            slopes[place] = -1.0 / (p * len(targets) * num_ranks) if p > TINY else 0.0
        for rank in range(num_ranks):
            a, b = attentions.operators[query, rank], attentions.memories[query, rank]
            if num_ranks > 1:
                _forward_to_targets(graph, hidden, targets, a, b, inverses, tasks.heads[query], ws)
            d_a, d_b = gradient.operators[query, rank], gradient.memories[query, rank]
            _backward(graph, hidden, targets, slopes, a, b, inverses, ws, d_a, d_b)
            _forget_rank(ws, ws.levels[num_hops - 1], targets)
        _forget(ws, ws.levels[num_hops - 1])
        losses[query] = loss


@compiled
def score_rules(
    graph: RunGraph, tasks: Tasks, attentions: Attentions, ws: RuleWorkspace, probabilities: Any, totals: Doubles, counter: Int64s
) -> None:
    """Write the probabilities of all entities [Q, E], which must be 0 before, and z of every rank and hop [Q, ranks, T]."""
    num_ranks, num_hops = attentions.operators.shape[1], attentions.operators.shape[2]
    while True:
        query = take_number(counter)
        if query >= len(probabilities):
            break
        hidden = tasks.hidden[tasks.hidden_offsets[query] : tasks.hidden_offsets[query + 1]]
        _start(ws, tasks.heads[query])
        for rank in range(num_ranks):
            a, b = attentions.operators[query, rank], attentions.memories[query, rank]
            ws.memories[0, tasks.heads[query]] = 1.0
            for step in range(num_hops):
                _read(ws, b, step)
                _hop(graph, hidden, a, ws, step, True)
                totals[query, rank, step] = ws.totals[step]
            for number in range(ws.levels[num_hops]):
                entity = ws.nodes[number]
                for memory in range(num_hops + 1):
                    ws.probabilities[entity] += b[num_hops, memory] * ws.memories[memory, entity] / num_ranks
            _forget_rank(ws, ws.levels[num_hops], tasks.targets[:0])
        for number in range(ws.levels[num_hops]):
            probabilities[query, ws.nodes[number]] = ws.probabilities[ws.nodes[number]]
        _forget(ws, ws.levels[num_hops])
