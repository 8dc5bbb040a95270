"""NeuralLP and DRUM: attentions over relations by an LSTM in torch; the walks they weigh, in compiled kernels.

Both score an entity by a sum over the walks that lead to it, each weighed by a product of attentions (`rule_kernels.py` has the
equations). NeuralLP (Yang, Yang and Cohen 2017) has one LSTM, and attends at every step over all earlier memories, so walks may
be shorter than T hops. DRUM (Sadeghian et al. 2019) adds several such models, each with a bidirectional LSTM, and has the
identity among its operators instead of memory attention.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hopwalk.config.settings import RuleSettings
from hopwalk.propagation.graph import Floats, Int32s, RunGraph
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.rule_kernels import Attentions, RuleWorkspace, make_rule_workspace, score_rules, train_rules

Doubles = NDArray[np.float64]


class RuleEngine:
    """A graph, and a workspace per thread to run the kernels on it. `inverses` has the inverse of every relation."""

    def __init__(self, graph: RunGraph, inverses: Int32s, num_hops: int, num_threads: int = 1) -> None:
        self.graph, self.inverses = graph, inverses
        size = graph.num_entities, num_hops, len(inverses) + 1
        self._workspaces = [make_rule_workspace(*size) for _ in range(num_threads)]
        self._pool = ThreadPoolExecutor(num_threads)
        self._lock = Lock()  # callers may be threads; the workspaces serve one call at a time

    def train(self, tasks: Tasks, attentions: Attentions) -> tuple[Doubles, Attentions]:
        """The losses [Q] and the gradients of the attentions."""
        gradient = Attentions(*(np.zeros_like(array) for array in attentions))
        losses = np.empty(len(tasks.heads))

        def work(workspace: RuleWorkspace, counter: Any) -> None:
            train_rules(self.graph, tasks, self.inverses, attentions, workspace, gradient, losses, counter)

        self._share_out(work)
        return losses, gradient

    def score(self, tasks: Tasks, attentions: Attentions) -> tuple[Floats, Doubles]:
        """The probabilities of all entities [Q, E], and the divisor of every rank and hop [Q, ranks, T]."""
        probabilities = np.zeros((len(tasks.heads), self.graph.num_entities), dtype=np.float32)
        totals = np.empty(attentions.operators.shape[:3])

        def work(workspace: RuleWorkspace, counter: Any) -> None:
            score_rules(self.graph, tasks, attentions, workspace, probabilities, totals, counter)

        self._share_out(work)
        return probabilities, totals

    def _share_out(self, work: Any) -> None:
        """Call `work` in every thread."""
        counter = np.zeros(1, dtype=np.int64)
        with self._lock:
            if len(self._workspaces) == 1:
                work(self._workspaces[0], counter)
            else:
                list(self._pool.map(lambda workspace: work(workspace, counter), self._workspaces))


class _MeanLoss(torch.autograd.Function):
    """The mean loss of a batch. Gradients are computed with it, while everything about a query is in the cache."""

    @staticmethod
    def forward(ctx: Any, engine: RuleEngine, tasks: Tasks, *tensors: Tensor) -> Tensor:
        losses, gradient = engine.train(tasks, Attentions(*(tensor.detach().contiguous().numpy() for tensor in tensors)))
        ctx.gradients = [torch.from_numpy(array) for array in gradient]
        ctx.scale = 1 / len(losses)
        return torch.tensor(losses.mean())

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        scale = float(grad_outputs[0]) * ctx.scale
        return None, None, *(gradient.mul_(scale) for gradient in ctx.gradients)


class RuleModel(nn.Module):
    """Probabilities of all entities for queries (head, relation, ?): walks weighed by attentions. R counts inverses."""

    def __init__(self, num_relations: int, settings: RuleSettings, generator: torch.Generator, *, is_drum: bool) -> None:
        super().__init__()
        self.num_relations, self.num_hops, self.is_drum = num_relations, settings.hops, is_drum
        D, H, ranks = settings.dimension, settings.hidden_dimension, settings.rank if is_drum else 1
        self.query = nn.Parameter(torch.randn(num_relations + 1, D, generator=generator))  # the last row marks the end
        self.lstms = nn.ModuleList(
            nn.LSTM(D, H, batch_first=True, bidirectional=is_drum, device="meta").to_empty(device="cpu") for _ in range(ranks)
        )  # "meta": their own initial values would come from the global generator
        self.operator = nn.Linear(H * (1 + is_drum), num_relations + is_drum, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            for parameter in (*self.lstms.parameters(), *self.operator.parameters()):
                parameter.uniform_(-(H**-0.5), H**-0.5, generator=generator)

    def attentions(self, relations: Tensor) -> Attentions:
        """The attentions of queries with these relations [Q], as float64 tensors."""
        distinct, rows = torch.unique(relations, return_inverse=True)
        end = torch.full((len(distinct), 1), self.num_relations)
        inputs = self.query[torch.cat([distinct[:, None].expand(-1, self.num_hops), end], dim=1)]
        outputs = torch.stack([lstm(inputs)[0] for lstm in self.lstms], dim=1).double()  # [Q, ranks, T+1, H]
        logits = outputs[:, :, :-1] @ self.operator.weight.T.double() + self.operator.bias.double()
        operators = torch.softmax(logits, dim=-1)
        if not self.is_drum:
            operators = nn.functional.pad(operators, (0, 1))  # no identity
        return Attentions(operators[rows], self._memory_attention(outputs)[rows])

    def _memory_attention(self, outputs: Tensor) -> Tensor:
        """The weights of the memories that each step reads [Q, ranks, T+1, T+1]; DRUM reads the last one only."""
        size = self.num_hops + 1
        if self.is_drum:
            return torch.eye(size, dtype=outputs.dtype).expand(*outputs.shape[:2], size, size)
        is_later = torch.ones(size, size, dtype=torch.bool).triu(1)
        return torch.softmax((outputs @ outputs.mT).masked_fill(is_later, -torch.inf), dim=-1)

    def mean_loss(self, engine: RuleEngine, tasks: Tasks) -> Tensor:
        """The mean loss of a batch of queries."""
        attentions = self.attentions(torch.from_numpy(tasks.relations).long())
        return _MeanLoss.apply(engine, tasks, *attentions)  # type: ignore[no-any-return, no-untyped-call]

    @torch.no_grad()
    def score_all(self, engine: RuleEngine, tasks: Tasks) -> tuple[Floats, Doubles]:
        """The probabilities of all entities [Q, E], and the divisor of every rank and hop [Q, ranks, T]."""
        return engine.score(tasks, self.plain_attentions(torch.from_numpy(tasks.relations).long()))

    @torch.no_grad()
    def plain_attentions(self, relations: Tensor) -> Attentions:
        """The attentions of queries with these relations [Q], as arrays."""
        return Attentions(*(tensor.contiguous().numpy() for tensor in self.attentions(relations)))
