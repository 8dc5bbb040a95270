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
from hopwalk.propagation.explaining import find_paths
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
    score_entities: Callable[..., None]
    explain: Callable[..., bool]


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
    def score_batch(
        graph, tasks, shared, per_query, options, workspace, entities, scores, starts, num_reached, counter, needed
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        """Append entities and scores of what is reached, for every query whose `num_reached` [Q] is -1.

        `starts` [Q] gets the place of the query's first entity. A call ends early if there is no room left for a query.
        """
        used = 0
        while True:
            query = take_number(counter)
            if query >= len(num_reached):
                break
            if num_reached[query] >= 0:
                continue
            num_nodes = forward(graph, _task(tasks, query), query, shared, per_query, options, workspace, needed, D, A)
            if num_nodes < 0:
                break
            has_room = used + num_nodes <= len(entities)
            if has_room:
                for node in range(num_nodes):
                    entities[used + node] = workspace.nodes[node]
                    scores[used + node] = workspace.scores[node]
                starts[query], num_reached[query] = used, num_nodes
                used += num_nodes
            forget(num_nodes, workspace)
            if not has_room:
                break

    @compiled
    def score_entities(graph, tasks, shared, per_query, options, workspace, entities, scores, counter, needed):  # type: ignore[no-untyped-def]
        """Write the score of one entity, -inf out of reach, for every query [Q] where that is NaN; parameters are of query 0."""
        while True:
            query = take_number(counter)
            if query >= len(scores):
                break
            if not np.isnan(scores[query]):
                continue
            num_nodes = forward(graph, _task(tasks, query), 0, shared, per_query, options, workspace, needed, D, A)
            if num_nodes < 0:
                break
            node = workspace.slots[entities[query]]
            scores[query] = workspace.scores[node] if node >= 0 else -np.inf
            forget(num_nodes, workspace)

    @compiled
    def explain(
        graph, tasks, shared, transposed, per_query, options, workspace, no_shared, no_query, entities, beam, scores, paths,
        floors, needed,
    ):  # type: ignore[no-untyped-def]  # fmt: skip
        """Write the score of every entity [N] and paths behind it [N, B, L] for the only query; whether there was room.

        Entities out of reach have the score -inf and no path; `floors` [1] gets the score that stands for no walk at all. The
        beam must have as much room as the workspace.
        """
        ws, task = workspace, _task(tasks, 0)
        num_nodes = forward(graph, task, 0, shared, per_query, options, ws, needed, D, A)
        if num_nodes < 0:
            return False
        for number in range(len(entities)):
            node = ws.slots[entities[number]]
            scores[number] = ws.scores[node] if node >= 0 else -np.inf
        floors[0] = per_query.unreached[0]
        if num_nodes == len(ws.slots):  # then that score was never trained
            floors[0] = ws.scores[:num_nodes].mean()
        for number in range(len(entities)):
            node = ws.slots[entities[number]]
            paths[number, :, :] = -1
            if node < 0:
                continue
            ws.scores[:num_nodes] = 0.0
            ws.scores[node] = 1.0
            backward(
                graph, task, 0, num_nodes, shared, transposed, per_query, options, ws, no_shared, no_query, beam.values, D, A
            )
            find_paths(beam, ws, paths.shape[2], node, paths.shape[1], paths[number])
        forget(num_nodes, ws)
        return True

    return Kernels(train_batch, score_batch, score_entities, explain)
