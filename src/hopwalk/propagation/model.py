"""The propagation model: parameters in torch; layers, loss and gradients in compiled kernels."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hopwalk.config.settings import PropagationSettings
from hopwalk.propagation.forward import forget
from hopwalk.propagation.frontier import Capacity, Workspace, make_workspace
from hopwalk.propagation.graph import Floats, Int32s, Int64s, RunGraph
from hopwalk.propagation.kernels import compile_kernels
from hopwalk.propagation.parameters import Options, PerQuery, Shared, Tasks, Transposed

ALL_NODES = 1 << 30
NO_EDGES = np.empty(0, dtype=np.float32)


class EdgeGradients(NamedTuple):
    """The derivative of a score by a weight of 1 on every edge that carried a message [M].

    Those of layer l are at `offsets[l]:offsets[l + 1]`.
    """

    offsets: Int64s
    sources: Int32s
    relations: Int32s
    targets: Int32s
    values: Floats


def options_of(settings: PropagationSettings, *, drop: float = 0.0) -> Options:
    """The structure of the layers, for the kernels."""
    return Options(
        settings.senders or ALL_NODES,
        int(settings.has_gate),
        int(settings.has_mean),
        int(settings.has_max),
        int(settings.additive),
        int(settings.counts),
        settings.norm_epsilon,
        drop,
    )


class Engine:
    """A graph, and a workspace per thread to run the kernels on it.

    Memory of a workspace: about 16 D bytes for each (layer, node) that a query reaches (28 D with maxima), 4 bytes for each
    edge, and 4 bytes for each entity. It grows to what the largest query so far needed.
    """

    def __init__(self, graph: RunGraph, settings: PropagationSettings, num_threads: int = 1) -> None:
        self.graph, self.settings = graph, settings
        self.kernels = compile_kernels(settings.width, settings.attention_width)
        self._capacity = Capacity(4096, 1024, 8192, 16384)
        self._workspaces = [self._workspace() for _ in range(num_threads)]
        self._pool = ThreadPoolExecutor(num_threads)
        self._lock = Lock()  # callers may be threads; the workspaces serve one call at a time

    @property
    def num_entities(self) -> int:
        """The number of entities of the graph."""
        return self.graph.num_entities

    def train(
        self, tasks: Tasks, shared: Shared, per_query: PerQuery, threshold: float = 0.0, drop: float = 0.0
    ) -> tuple[NDArray[np.float64], Shared, PerQuery]:
        """The losses [Q] and the gradients; those of `shared` are added up over the queries."""
        num_queries = len(tasks.heads)
        transposed = Transposed(*(np.ascontiguousarray(matrix.swapaxes(1, 2)) for matrix in (shared.weight, shared.source)))
        d_shared = Shared(*(np.zeros((num_queries, *array.shape), dtype=np.float32) for array in shared))
        gradient = PerQuery(*(np.zeros_like(array) for array in per_query))
        losses = np.full(num_queries, np.nan)
        options = options_of(self.settings, drop=drop)

        def work(workspace: Workspace, counter: Any, needed: Any) -> None:
            self.kernels.train_batch(
                self.graph, tasks, shared, transposed, per_query, options, workspace, threshold, d_shared, gradient,
                NO_EDGES, losses, counter, needed,
            )  # fmt: skip

        with self._lock:
            while np.isnan(losses).any():
                self._share_out(work)
        return losses, Shared(*(array.sum(axis=0) for array in d_shared)), gradient

    def score(self, tasks: Tasks, shared: Shared, per_query: PerQuery) -> tuple[Floats, NDArray[np.int64]]:
        """Scores of all entities [Q, E], and the number of entities reached [Q]."""
        scores = np.empty((len(tasks.heads), self.num_entities), dtype=np.float32)
        num_reached = np.full(len(tasks.heads), -1)
        options = options_of(self.settings)

        def work(workspace: Workspace, counter: Any, needed: Any) -> None:
            self.kernels.score_batch(
                self.graph, tasks, shared, per_query, options, workspace, scores, num_reached, counter, needed
            )

        with self._lock:
            while (num_reached < 0).any():
                self._share_out(work)
        return scores, num_reached

    def explain(self, tasks: Tasks, shared: Shared, per_query: PerQuery, entity: int) -> EdgeGradients | None:
        """The derivatives of an entity's score by the edges of the only query; None if the entity is not reached."""
        transposed = Transposed(*(np.ascontiguousarray(matrix.swapaxes(1, 2)) for matrix in (shared.weight, shared.source)))
        options = options_of(self.settings)
        found = -1
        with self._lock:
            while found == -1:
                d_shared = Shared(*(np.zeros((1, *array.shape), dtype=np.float32) for array in shared))
                gradient = PerQuery(*(np.zeros_like(array) for array in per_query))
                workspace, needed = self._workspaces[0], np.zeros(4, dtype=np.int64)
                values = np.zeros(self._capacity.edges, dtype=np.float32)
                found = self.kernels.explain(
                    self.graph, tasks, shared, transposed, per_query, options, workspace, d_shared, gradient, values,
                    entity, needed,
                )  # fmt: skip
                if found == -1:
                    self._enlarge([needed])
            if found < 0:
                return None
            edges = _edges_of(workspace, self.settings.layers, values)
            forget(found, workspace)
        return edges

    def _share_out(self, work: Any) -> None:
        """Call `work` in every thread; enlarge the workspaces if one was too small."""
        counter = np.zeros(1, dtype=np.int64)
        needed = [np.zeros(4, dtype=np.int64) for _ in self._workspaces]
        calls = [(workspace, counter, need) for workspace, need in zip(self._workspaces, needed, strict=True)]
        if len(calls) == 1:
            work(*calls[0])
        else:
            list(self._pool.map(lambda call: work(*call), calls))
        self._enlarge(needed)

    def _enlarge(self, needed: list[Int64s]) -> None:
        """Larger workspaces, if one was too small for what was needed."""
        most = Capacity(*np.max(needed, axis=0).tolist())
        if any(need > room for need, room in zip(most, self._capacity, strict=True)):
            sizes = zip(most, self._capacity, strict=True)
            self._capacity = Capacity(*(math.ceil(1.3 * need) if need > room else room for need, room in sizes))
            self._workspaces = [self._workspace() for _ in self._workspaces]

    def _workspace(self) -> Workspace:
        settings = self.settings
        return make_workspace(self.num_entities, settings.layers, settings.width, self._capacity, has_max=settings.has_max)


def _edges_of(workspace: Workspace, num_layers: int, values: Floats) -> EdgeGradients:
    """The edges that a workspace holds after a forward pass, with their derivatives."""
    ws, offsets = workspace, np.zeros(num_layers + 1, dtype=np.int64)
    ends = np.append(0, ws.sender_run_ends[: ws.sender_starts[num_layers]])
    for layer in range(num_layers):
        last_run = ends[ws.sender_starts[layer + 1]]
        offsets[layer + 1] = ws.run_ends[last_run - 1] if last_run else 0
    num_runs, num_edges = int(ends[-1]), int(offsets[-1])
    edges_of_runs = np.diff(ws.run_ends[:num_runs], prepend=0)
    sources = np.repeat(np.repeat(ws.nodes[ws.senders[: len(ends) - 1]], np.diff(ends)), edges_of_runs)
    relations = np.repeat(ws.run_relations[:num_runs], edges_of_runs)
    return EdgeGradients(offsets, sources, relations, ws.nodes[ws.edge_nodes[:num_edges]], values[:num_edges])


class _MeanLoss(torch.autograd.Function):
    """The mean loss of a batch. Gradients are computed with it, while everything about a query is in the cache."""

    @staticmethod
    def forward(ctx: Any, engine: Engine, tasks: Tasks, threshold: float, drop: float, *tensors: Tensor) -> Tensor:
        arrays = [tensor.detach().numpy() for tensor in tensors]
        num_shared = len(Shared._fields)
        losses, d_shared, gradient = engine.train(
            tasks, Shared(*arrays[:num_shared]), PerQuery(*arrays[num_shared:]), threshold, drop
        )
        ctx.gradients = [torch.from_numpy(array) for array in (*d_shared, *gradient)]
        ctx.scale = 1 / len(losses)
        return torch.tensor(losses.mean(), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        scale = float(grad_outputs[0]) * ctx.scale
        return None, None, None, None, *(gradient.mul_(scale) for gradient in ctx.gradients)


class Propagation(nn.Module):
    """Scores of all entities for queries (head, relation, ?), made of the walks that leave the head. R counts inverses."""

    def __init__(self, num_relations: int, settings: PropagationSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.settings, self.num_relations = settings, num_relations
        L, R, D, A = settings.layers, num_relations, settings.width, settings.attention_width

        def normal(*shape: int, std: float, mean: float = 0.0) -> nn.Parameter:
            return nn.Parameter(mean + std * torch.randn(*shape, generator=generator))

        def zeros(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(*shape))

        C = settings.query_rank or D
        num_inputs = D * (2 + settings.has_mean + settings.has_max)
        self.query = normal(R, D, std=1.0)
        self.projection = normal(D, settings.query_rank, std=D**-0.5)
        self.relation_weight = normal(C, L * R * D, std=0.5 * C**-0.5)
        self.relation_weight_bias = normal(L * R * D, std=0.5, mean=0.5)
        self.relation_bias = normal(C, L * R * A, std=C**-0.5)
        self.relation_bias_bias = zeros(L * R * A)
        num_offsets = L * R * D if settings.additive else 0
        self.relation_offset = normal(C, num_offsets, std=0.5 * C**-0.5)
        self.relation_offset_bias = zeros(num_offsets)
        self.weight = normal(L, num_inputs, D, std=num_inputs**-0.5)
        self.bias = zeros(L, D)
        self.norm_gain = nn.Parameter(torch.ones(L, D))
        self.norm_bias = zeros(L, D)
        self.source = normal(L, D, A, std=D**-0.5)
        self.attention = normal(L, A, std=A**-0.5)
        self.attention_bias = zeros(L)
        self.priority = normal(L, D, std=D**-0.5)
        self.priority_bias = nn.Parameter(torch.full((L,), 1.0))
        self.readout = normal(D, D, std=0.5 * D**-0.5)
        self.readout_bias = normal(D, std=D**-0.5)
        self.unreached = zeros(R)
        self.feature_weight = zeros(R, 3)

    def shared(self) -> Shared:
        """The parameters that all queries share, as tensors."""
        return Shared(*(getattr(self, name) for name in Shared._fields))

    def per_query(self, relations: Tensor) -> PerQuery:
        """The parameters that depend on the query relations [Q], as tensors."""
        Q, s = len(relations), self.settings
        shape = (Q, s.layers, self.num_relations)
        q = self.query[relations]
        c = q @ self.projection if s.query_rank else q
        tensors: dict[str, Any] = {
            "head_state": q,
            "relation_weight": torch.addmm(self.relation_weight_bias, c, self.relation_weight).view(*shape, s.width),
            "relation_bias": torch.addmm(self.relation_bias_bias, c, self.relation_bias).view(*shape, s.attention_width),
            "relation_offset": (
                torch.addmm(self.relation_offset_bias, c, self.relation_offset).view(*shape, s.width)
                if s.additive
                else torch.zeros(0, 0, 0, 0)
            ),
            "readout": torch.addmm(self.readout_bias, q, self.readout),
            "unreached": self.unreached[relations],
            "feature_weight": self.feature_weight[relations],
        }
        return PerQuery(**tensors)

    def mean_loss(self, engine: Engine, tasks: Tasks, threshold: float = 0.0, drop: float = 0.0) -> Tensor:
        """The mean loss of a batch of queries.

        Gradients of negatives below `threshold` are sampled, without bias, which saves most of the backward pass. With `drop`
        each query misses a random part of the edges.
        """
        per_query = self.per_query(torch.from_numpy(tasks.relations).long())
        return _MeanLoss.apply(engine, tasks, threshold, drop, *self.shared(), *per_query)  # type: ignore[no-any-return, no-untyped-call]

    @torch.no_grad()
    def score_all(self, engine: Engine, tasks: Tasks) -> tuple[Floats, NDArray[np.int64]]:
        """Scores of all entities [Q, E], and the number of entities reached [Q]."""
        shared: Any = self.shared()
        per_query: Any = self.per_query(torch.from_numpy(tasks.relations).long())
        arrays = Shared(*(tensor.detach().numpy() for tensor in shared)), PerQuery(*(tensor.numpy() for tensor in per_query))
        return engine.score(tasks, *arrays)

    @torch.no_grad()
    def explain(self, engine: Engine, tasks: Tasks, entity: int) -> EdgeGradients | None:
        """The derivatives of an entity's score by the edges of the only query; None if the entity is not reached."""
        shared: Any = self.shared()
        per_query: Any = self.per_query(torch.from_numpy(tasks.relations).long())
        arrays = Shared(*(tensor.detach().numpy() for tensor in shared)), PerQuery(*(tensor.numpy() for tensor in per_query))
        return engine.explain(tasks, *arrays, entity)
