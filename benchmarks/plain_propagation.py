"""The same model in plain torch, differentiated by autograd: what the kernels are tested against, in float32 or float64.

Nodes of all queries of a batch are rows of one table; edges are gathered, messages computed per edge and added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hopwalk.propagation.graph import RunGraph
from hopwalk.propagation.model import ALL_NODES, Propagation
from hopwalk.propagation.parameters import PerQuery, Shared, Tasks

Ints = NDArray[np.int64]


@dataclass
class Frontier:
    """The nodes that the queries have reached, in the order of discovery: query and entity of each [N]."""

    queries: Ints
    entities: Ints

    def keys(self, num_entities: int) -> Ints:
        """Query and entity of every node as one integer [N]."""
        return self.queries * num_entities + self.entities


@dataclass(frozen=True)
class Edges:
    """Edges of one layer: rows of source and target among the nodes, relation and query, and run of the graph [M]."""

    sources: Tensor
    relations: Tensor
    targets: Tensor
    queries: Tensor
    runs: Ints


def scores(model: Propagation, graph: RunGraph, tasks: Tasks, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Scores of all entities [Q, E], and which were reached."""
    settings = model.settings
    num_entities = len(graph.run_offsets) - 1
    relations = torch.from_numpy(tasks.relations).long()
    shared = Shared(*(tensor.to(dtype) for tensor in model.shared()))
    per_query = PerQuery(*(tensor.to(dtype) for tensor in model.per_query(relations)))
    heads = tasks.heads.astype(np.int64)
    frontier = Frontier(np.arange(len(heads)), heads)
    h = per_query.head_state
    for layer in range(settings.layers):
        priorities = h @ shared.priority[layer]
        senders = _best_senders(priorities.detach().numpy(), frontier.queries, settings.senders or ALL_NODES)
        frontier, edges = _expand(graph, tasks, frontier, senders)
        x = h * torch.sigmoid(priorities + shared.priority_bias[layer])[:, None] if settings.has_gate else h
        h = functional.pad(h, (0, 0, 0, len(frontier.entities) - len(h)))
        degrees = _Degrees(graph, tasks, frontier, dtype) if settings.degrees else None
        messages = _messages(x, edges, layer, shared, per_query, degrees, additive=settings.additive)
        flags = {"mean": settings.has_mean, "largest": settings.has_max}
        h = _update(h, messages, edges.targets, layer, shared, degrees, epsilon=settings.norm_epsilon, **flags)
    queries = torch.from_numpy(frontier.queries)
    own = (h * per_query.readout[queries]).sum(1)
    if settings.counts:
        features = _features(graph, tasks, frontier, model.num_relations)
        own = own + (torch.from_numpy(features).to(dtype) * per_query.feature_weight[queries]).sum(1)
    place = queries, torch.from_numpy(frontier.entities)
    every = per_query.unreached[:, None].expand(-1, num_entities)
    is_reached = torch.zeros(len(heads), num_entities, dtype=torch.bool).index_put(place, torch.tensor(True))
    return every.index_put(place, own), is_reached


def mean_loss(model: Propagation, graph: RunGraph, tasks: Tasks, dtype: torch.dtype = torch.float32) -> Tensor:
    """Mean over queries of the mean over targets of −log softmax, other known answers left out."""
    every, _ = scores(model, graph, tasks, dtype)
    losses = []
    for query, row in enumerate(every):
        targets = torch.from_numpy(_part(tasks.targets, tasks.target_offsets, query)).long()
        filtered = torch.from_numpy(_part(tasks.filtered, tasks.filtered_offsets, query)).long()
        is_negative = torch.ones(len(row), dtype=torch.bool)
        is_negative[targets] = is_negative[filtered] = False
        negatives = torch.logsumexp(row[is_negative], 0)
        losses.append((torch.logaddexp(negatives, row[targets]) - row[targets]).mean())
    return torch.stack(losses).mean()


def _part(values: NDArray[Any], offsets: Ints, query: int) -> NDArray[Any]:
    return values[offsets[query] : offsets[query + 1]]


def _best_senders(priorities: NDArray[Any], queries: Ints, num_senders: int) -> Ints:
    """Rows of the nodes of highest priority of every query, ascending; of equals the first are taken."""
    order = np.lexsort((np.arange(len(queries)), -priorities, queries))
    starts = np.searchsorted(queries[order], queries[order])
    return np.sort(order[np.arange(len(order)) - starts < num_senders])


def _expand(graph: RunGraph, tasks: Tasks, frontier: Frontier, senders: Ints) -> tuple[Frontier, Edges]:
    """The edges that leave the senders, hidden ones left out, and the frontier with the nodes they reach."""
    num_entities = len(graph.run_offsets) - 1
    entities, queries = frontier.entities[senders], frontier.queries[senders]
    first = graph.run_starts[graph.run_offsets[entities]]
    counts = graph.run_starts[graph.run_offsets[entities + 1]] - first
    rows = np.repeat(np.arange(len(senders)), counts)
    edges = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
    hidden_queries = np.repeat(np.arange(len(tasks.heads)), np.diff(tasks.hidden_offsets))
    is_hidden = np.isin(queries[rows] * len(graph.tails) + edges, hidden_queries * len(graph.tails) + tasks.hidden)
    rows, edges = rows[~is_hidden], edges[~is_hidden]
    runs = np.searchsorted(graph.run_starts, edges, side="right") - 1
    target_keys = queries[rows] * num_entities + graph.tails[edges]
    every = np.concatenate([frontier.keys(num_entities), target_keys])
    distinct, first_seen, inverse = np.unique(every, return_index=True, return_inverse=True)
    order = np.argsort(first_seen)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    reached = distinct[order]
    targets = place[inverse[len(frontier.entities) :]]
    columns = senders[rows], graph.run_relations[runs].astype(np.int64), targets, queries[rows]
    rows_of_sources, relations, rows_of_targets, queries_of = map(torch.from_numpy, columns)
    return Frontier(reached // num_entities, reached % num_entities), Edges(
        rows_of_sources, relations, rows_of_targets, queries_of, runs
    )


class _Degrees:
    """Numbers of edges, without hidden ones: of every node [N], and of the run of every edge."""

    def __init__(self, graph: RunGraph, tasks: Tasks, frontier: Frontier, dtype: torch.dtype) -> None:
        self._graph, self._tasks, self._dtype = graph, tasks, dtype
        starts = graph.run_starts[graph.run_offsets]
        self.of_nodes = self._visible(starts[frontier.entities], starts[frontier.entities + 1], frontier.queries)

    def of_runs(self, edges: Edges) -> Tensor:
        """The number of edges that the source of each edge [M] has with its relation."""
        starts, ends = self._graph.run_starts[edges.runs], self._graph.run_starts[edges.runs + 1]
        return self._visible(starts, ends, edges.queries.numpy())

    def _visible(self, starts: Ints, ends: Ints, queries: Ints) -> Tensor:
        return torch.from_numpy(_num_visible(self._graph, self._tasks, starts, ends, queries)).to(self._dtype)


def _num_visible(graph: RunGraph, tasks: Tasks, starts: Ints, ends: Ints, queries: Ints) -> Ints:
    """The number of edges in each range of positions that its query sees [N]."""
    hidden_queries = np.repeat(np.arange(len(tasks.heads)), np.diff(tasks.hidden_offsets))
    hidden = hidden_queries * len(graph.tails) + tasks.hidden  # ascending
    first, last = (np.searchsorted(hidden, queries * len(graph.tails) + places) for places in (starts, ends))
    visible: Ints = ends - starts - (last - first)
    return visible


def _messages(
    x: Tensor, edges: Edges, layer: int, shared: Shared, per_query: PerQuery, degrees: _Degrees | None, *, additive: bool
) -> Tensor:
    """The message of every edge [M, D]."""
    source = (x @ shared.source[layer])[edges.sources]
    if degrees is not None:
        logs = torch.stack([degrees.of_runs(edges), degrees.of_nodes[edges.sources]], 1).log1p()
        source = source + logs @ shared.attention_degrees[layer]
    hidden = functional.relu(source + per_query.relation_bias[edges.queries, layer, edges.relations])
    alpha = torch.sigmoid(hidden @ shared.attention[layer] + shared.attention_bias[layer])
    message = x[edges.sources] * per_query.relation_weight[edges.queries, layer, edges.relations]
    if additive:
        message = message + per_query.relation_offset[edges.queries, layer, edges.relations]
    weighted: Tensor = alpha[:, None] * message
    return weighted


def _update(
    h: Tensor, messages: Tensor, targets: Tensor, layer: int, shared: Shared, degrees: _Degrees | None, *, mean: bool,
    largest: bool, epsilon: float,
) -> Tensor:  # fmt: skip
    """The new state of every node [N, D]."""
    counts = torch.bincount(targets, minlength=len(h))
    sums = torch.zeros_like(h).index_add(0, targets, messages)
    inputs = [h, sums / torch.sqrt(1 + sums.abs())]
    if mean:
        num_averaged = counts.clamp(min=1) if degrees is None else 1 + degrees.of_nodes
        inputs.append(sums / num_averaged[:, None])
    if largest:
        inputs.append(_largest(messages, targets, len(h)))
    z = torch.cat(inputs, 1) @ shared.weight[layer] + shared.bias[layer]
    if degrees is not None:
        z = z + torch.stack([degrees.of_nodes, counts], 1).log1p() @ shared.state_degrees[layer]
    normal = functional.layer_norm(z, z.shape[1:], eps=epsilon)
    return h + functional.relu(normal * shared.norm_gain[layer] + shared.norm_bias[layer])


def _largest(messages: Tensor, targets: Tensor, num_nodes: int) -> Tensor:
    """The largest message of every node [N, D], 0 where none arrived. Of equals the first edge gets the gradient."""
    index = targets[:, None].expand_as(messages)
    with torch.no_grad():
        start = messages.new_full((num_nodes, messages.shape[1]), -torch.inf)
        maxima = start.scatter_reduce(0, index, messages, "amax")
        edge = torch.arange(len(messages))[:, None].expand_as(messages)
        edge = torch.where(messages == maxima.gather(0, index), edge, len(messages))
        first = torch.full(maxima.shape, len(messages)).scatter_reduce(0, index, edge, "amin")
    return functional.pad(messages, (0, 0, 0, 1)).gather(0, first)


def _features(graph: RunGraph, tasks: Tasks, frontier: Frontier, num_relations: int) -> NDArray[np.float64]:
    """log(1 + n), n > 0 and log(1 + degree) of every node [N, 3]; n counts the asked relation's facts with this tail."""
    inverse = (tasks.relations.astype(np.int64) + num_relations // 2) % num_relations
    run_keys = np.repeat(np.arange(graph.num_entities), np.diff(graph.run_offsets)) * num_relations + graph.run_relations
    keys = frontier.entities * num_relations + inverse[frontier.queries]
    runs = np.minimum(np.searchsorted(run_keys, keys), len(run_keys) - 1)
    visible = _num_visible(graph, tasks, graph.run_starts[runs], graph.run_starts[runs + 1], frontier.queries)
    n = np.where(run_keys[runs] == keys, visible, 0)
    return np.stack([np.log1p(n), n > 0, graph.log_degrees[frontier.entities].astype(np.float64)], axis=1)
