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
from hopwalk.learning.reached import ReachedScores
from hopwalk.propagation.explaining import make_beam
from hopwalk.propagation.frontier import Capacity, Workspace, make_workspace
from hopwalk.propagation.graph import Floats, Int32s, Int64s, RunGraph
from hopwalk.propagation.kernels import compile_kernels
from hopwalk.propagation.parameters import Options, PerQuery, Shared, Tasks, Transposed, numbers_of_model
from hopwalk.utils.memory import require_memory

ALL_NODES = 1 << 30
ALL_EDGES = 1 << 40
ROOM_FOR_SCORES = 1 << 16  # of a call, in entities reached
FIRST_CAPACITY = Capacity(4096, 1024, 8192, 16384)
MANY_RELATIONS = "set a smaller propagation.width, layers, query_rank or batch_size, or give rare relations one name"
NO_EDGES = np.empty(0, dtype=np.float32)


class Candidates(NamedTuple):
    """The scores of some entities [N], -inf out of reach, and paths that may carry them [N, B, L].

    A path is the positions of its edges in the graph, the first edge first, and -1 behind the last; an empty one is none.
    `floors` [1] has the score that stands for no walk at all (`ReachedScores.floors`).
    """

    scores: Floats
    paths: Int64s
    floors: Floats


class Trace(NamedTuple):
    """A query's way through the layers. Nodes are numbered in the order in which they are reached."""

    nodes: Int32s  # [N] entity of a node
    counts: Int64s  # [L+1] number of nodes that were reached before each layer, and after the last
    senders: list[Int32s]  # of each layer, the nodes that go on
    priorities: list[Floats]  # of each layer, the priority of every node reached before it


def options_of(settings: PropagationSettings, *, drop: float = 0.0) -> Options:
    """The structure of the layers, for the kernels."""
    return Options(
        settings.senders or ALL_NODES,
        settings.fan_out or ALL_EDGES,
        int(settings.has_gate),
        int(settings.has_mean),
        int(settings.has_max),
        int(settings.additive),
        int(settings.counts),
        int(settings.degrees),
        settings.norm_epsilon,
        drop,
    )


class Engine:
    """A graph, and a workspace per thread to run the kernels on it.

    Memory of a workspace: about 16 D bytes for each (layer, node) that a query reaches (28 D with maxima), 12 bytes for each
    edge, and 4 bytes for each entity. It grows to what the largest query so far needed.
    """

    def __init__(self, graph: RunGraph, settings: PropagationSettings, num_threads: int = 1) -> None:
        self.graph, self.settings = graph, settings
        self.kernels = compile_kernels(settings.width, settings.attention_width)
        self._capacity = FIRST_CAPACITY
        self._workspaces = [self._workspace() for _ in range(num_threads)]
        self._pool = ThreadPoolExecutor(num_threads)
        self._lock = Lock()  # callers may be threads; the workspaces serve one call at a time

    @property
    def num_entities(self) -> int:
        """The number of entities of the graph."""
        return self.graph.num_entities

    @property
    def workspaces(self) -> list[Workspace]:
        """The memory that each thread has for a query, as large as the largest so far needed."""
        return self._workspaces

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

    def score(self, tasks: Tasks, shared: Shared, per_query: PerQuery) -> ReachedScores:
        """The scores of the entities that each query reaches, in the order in which they are reached."""
        num_queries = len(tasks.heads)
        num_reached = np.full(num_queries, -1)
        parts: list[tuple[Int32s, Floats]] = [(np.empty(0, dtype=np.int32), NO_EDGES)] * num_queries
        options = options_of(self.settings)

        def work(workspace: Workspace, counter: Any, needed: Any) -> None:
            room = max(len(workspace.nodes), ROOM_FOR_SCORES)  # for at least one query
            entities, scores = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.float32)
            own_starts = np.full(num_queries, -1)
            self.kernels.score_batch(
                self.graph, tasks, shared, per_query, options, workspace, entities, scores, own_starts, num_reached, counter,
                needed,
            )  # fmt: skip
            for query in np.flatnonzero(own_starts >= 0).tolist():
                rows = slice(own_starts[query], own_starts[query] + num_reached[query])
                parts[query] = entities[rows], scores[rows]

        with self._lock:
            while (num_reached < 0).any():
                self._share_out(work)
        offsets = np.append(0, np.cumsum(num_reached))
        entities, scores = (np.concatenate([part[column] for part in parts]) for column in range(2))
        return ReachedScores(offsets, entities, scores, per_query.unreached)

    def score_entities(self, tasks: Tasks, shared: Shared, per_query: PerQuery, entities: Int32s) -> Floats:
        """The score of one entity for each query, -inf out of reach [Q]; they have one relation, and `per_query` one row."""
        scores = np.full(len(entities), np.nan, dtype=np.float32)
        options = options_of(self.settings)

        def work(workspace: Workspace, counter: Any, needed: Any) -> None:
            self.kernels.score_entities(
                self.graph, tasks, shared, per_query, options, workspace, entities, scores, counter, needed
            )

        with self._lock:
            while np.isnan(scores).any():
                self._share_out(work)
        return scores

    def explain(self, tasks: Tasks, shared: Shared, per_query: PerQuery, entities: Int32s, num_paths: int) -> Candidates:
        """Simple paths from the head of the only query to each entity [N] whose edges have the largest derivatives."""
        with self._lock:
            return self._explain(tasks, shared, per_query, entities, num_paths)

    def trace(self, tasks: Tasks, shared: Shared, per_query: PerQuery) -> Trace:
        """What the only query has reached, and which nodes went on, layer by layer."""
        with self._lock:
            self._explain(tasks, shared, per_query, np.empty(0, dtype=np.int32), 1)
            ws, layers = self._workspaces[0], self.settings.layers
            counts = np.diff(ws.row_starts[: layers + 2])
            states = ws.states[: ws.row_starts[layers] * self.settings.width].reshape(-1, self.settings.width)
            rows = [slice(ws.row_starts[layer], ws.row_starts[layer + 1]) for layer in range(layers)]
            senders = [ws.senders[ws.sender_starts[layer] : ws.sender_starts[layer + 1]].copy() for layer in range(layers)]
            priorities = [states[rows[layer]] @ shared.priority[layer] for layer in range(layers)]
            return Trace(ws.nodes[: counts[-1]].copy(), counts, senders, priorities)

    def _explain(self, tasks: Tasks, shared: Shared, per_query: PerQuery, entities: Int32s, num_paths: int) -> Candidates:
        transposed = Transposed(*(np.ascontiguousarray(matrix.swapaxes(1, 2)) for matrix in (shared.weight, shared.source)))
        no_shared, no_query = (
            kind(*(np.empty((0,) * (array.ndim + extra), dtype=np.float32) for array in arrays))
            for kind, arrays, extra in ((Shared, shared, 1), (PerQuery, per_query, 0))
        )
        found = Candidates(
            np.empty(len(entities), dtype=np.float32),
            np.empty((len(entities), num_paths, self.settings.layers), dtype=np.int64),
            np.empty(1, dtype=np.float32),
        )
        options, is_done = options_of(self.settings), False
        while not is_done:
            needed, beam = np.zeros(4, dtype=np.int64), make_beam(self._capacity.rows, self._capacity.edges, num_paths)
            is_done = self.kernels.explain(
                self.graph, tasks, shared, transposed, per_query, options, self._workspaces[0], no_shared, no_query,
                entities, beam, *found, needed,
            )  # fmt: skip
            self._enlarge([needed])
        return found

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
        needed = 4 * 2 * numbers_of_model(settings, num_relations)  # made, and then copied
        require_memory(needed, f"a propagation model of {R // 2:,} relations", remedy=MANY_RELATIONS)

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
        self.attention_degrees, self.state_degrees = self._degree_weights(L, D, A)
        self.readout = normal(D, D, std=0.5 * D**-0.5)
        self.readout_bias = normal(D, std=D**-0.5)
        self.unreached = zeros(R)
        self.feature_weight = zeros(R, 3)

    def _degree_weights(self, num_layers: int, width: int, attention_width: int) -> tuple[Tensor, Tensor]:
        """The weights of numbers of edges; without them empty tensors that are no parameters."""
        if not self.settings.degrees:
            return torch.zeros(0, 2, attention_width), torch.zeros(0, 2, width)
        return nn.Parameter(torch.zeros(num_layers, 2, attention_width)), nn.Parameter(torch.zeros(num_layers, 2, width))

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
    def score_reached(self, engine: Engine, tasks: Tasks) -> ReachedScores:
        """The scores of the entities that each query reaches; cost and memory do not depend on the number of entities."""
        return engine.score(tasks, *self.arrays(tasks.relations))

    def score_all(self, engine: Engine, tasks: Tasks) -> tuple[Floats, Int64s]:
        """Scores of all entities [Q, E], and the number of entities reached [Q]."""
        reached = self.score_reached(engine, tasks)
        return reached.dense(engine.num_entities), reached.num_reached

    @torch.no_grad()
    def arrays(self, relations: Int32s) -> tuple[Shared, PerQuery]:
        """The parameters as arrays: those that all queries share, and those of the query relations [Q]."""
        shared: Any = self.shared()
        per_query: Any = self.per_query(torch.from_numpy(relations).long())
        return Shared(*(tensor.detach().numpy() for tensor in shared)), PerQuery(*(tensor.numpy() for tensor in per_query))
