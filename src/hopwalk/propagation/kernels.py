"""The compiled entry points: train on a batch of queries, score a batch of queries.

Threads work on different queries, and every query writes gradients of its own, which are added up in the order of the queries:
the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from hopwalk.propagation.backward import backward, replace_scores_by_gradients
from hopwalk.propagation.forward import forget, forward
from hopwalk.propagation.graph import compiled, inlined
from hopwalk.propagation.parameters import Task, Tasks
from hopwalk.propagation.simd import take_number


@inlined
def _task(tasks: Tasks, query: int) -> Task:
    return Task(
        tasks.heads[query],
        tasks.relations[query],
        tasks.hidden[tasks.hidden_offsets[query] : tasks.hidden_offsets[query + 1]],
        tasks.targets[tasks.target_offsets[query] : tasks.target_offsets[query + 1]],
        tasks.filtered[tasks.filtered_offsets[query] : tasks.filtered_offsets[query + 1]],
        tasks.seeds[query],
    )


class Kernels(NamedTuple):
    """The compiled entry points for one width and attention width."""

    train_batch: Callable[..., None]
    score_batch: Callable[..., None]
    explain: Callable[..., int]


@cache
def compile_kernels(width: int, attention_width: int) -> Kernels:
    """Kernels for a width and an attention width; compiled at the first call, then read from numba's cache on disk.

    Several threads may call an entry point at once with the same `counter`, each with its own workspace: they share the queries
    out. If a workspace is too small the call ends early, `needed` says what is missing, and the query stays undone.
    """
    D, A = width, attention_width

    @compiled
    def train_batch(
        graph, tasks, shared, transposed, per_query, options, workspace, threshold, d_shared, gradient, no_edges, losses, counter,
        needed,
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        """Write the loss of every query that is NaN in `losses` [Q], and its gradients, which must be 0 before."""
        while True:
            query = take_number(counter)
            if query >= len(losses):
                break
            if not np.isnan(losses[query]):
                continue
            task = _task(tasks, query)
            num_nodes = forward(graph, task, query, shared, per_query, options, workspace, needed, D, A)
            if num_nodes < 0:
                break
            loss = replace_scores_by_gradients(task, query, num_nodes, per_query, workspace, threshold, gradient)
            backward(
                graph,
                task,
                query,
                num_nodes,
                shared,
                transposed,
                per_query,
                options,
                workspace,
                d_shared,
                gradient,
                no_edges,
                D,
                A,
            )
            forget(num_nodes, workspace)
            losses[query] = np.inf if np.isnan(loss) else loss  # NaN: not done yet

    @compiled
    def score_batch(graph, tasks, shared, per_query, options, workspace, scores, num_reached, counter, needed):  # type: ignore[no-untyped-def]
        """Write the scores of all entities [Q, E] and how many were reached [Q] for every query where that is -1."""
        while True:
            query = take_number(counter)
            if query >= len(num_reached):
                break
            if num_reached[query] >= 0:
                continue
            num_nodes = forward(graph, _task(tasks, query), query, shared, per_query, options, workspace, needed, D, A)
            if num_nodes < 0:
                break
            scores[query, :] = per_query.unreached[query]
            for node in range(num_nodes):
                scores[query, workspace.nodes[node]] = workspace.scores[node]
            forget(num_nodes, workspace)
            num_reached[query] = num_nodes

    @compiled
    def explain(
        graph, tasks, shared, transposed, per_query, options, workspace, d_shared, gradient, edge_gradients, entity, needed
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        """Write the derivatives of the score of an entity by the edges of the only query; the number of nodes reached.

        -1 if the workspace or `edge_gradients` is too small, -2 if the entity is not reached. The caller calls `forget`.
        """
        task = _task(tasks, 0)
        num_nodes = forward(graph, task, 0, shared, per_query, options, workspace, needed, D, A)
        if num_nodes < 0:
            return -1
        if workspace.slots[entity] < 0 or needed[3] > len(edge_gradients):
            code = -1 if needed[3] > len(edge_gradients) else -2
            forget(num_nodes, workspace)
            return code
        for node in range(num_nodes):
            workspace.scores[node] = 0.0
        workspace.scores[workspace.slots[entity]] = 1.0
        backward(
            graph, task, 0, num_nodes, shared, transposed, per_query, options, workspace, d_shared, gradient, edge_gradients, D, A
        )
        return num_nodes

    return Kernels(train_batch, score_batch, explain)
