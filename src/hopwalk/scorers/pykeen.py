"""Models of PyKEEN as scorers, by name (`pykeen:TransE`): built and trained here, or imported after training in PyKEEN.

PyKEEN scores heads in one of two ways. A model for inverse triples, as all that are built here, has a second embedding for every
relation: `(t, relation⁻¹, ?)` is then `score_t` with that embedding, as in PyKEEN's own `predict_h`, and a triple is `score_hrt`
with it. Other models have `score_h`, and a triple of an inverse relation is scored as the inverted triple.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hopwalk.config.settings import ScorerSettings
from hopwalk.data.triples import Triples
from hopwalk.scorers.base import TrainableScorer
from hopwalk.scorers.pykeen_models import build_model
from hopwalk.scorers.queries import Batch, Candidates, sample_candidates

if TYPE_CHECKING:
    from hopwalk.learning.optimizers import Optimizer

BYTES_AT_ONCE = 2**27


class PykeenScorer(TrainableScorer):
    """A PyKEEN model over the R relations of the data. `entity_rows` [E] and `relation_rows` [R] are PyKEEN's ids of our ids.

    The number of queries and candidates that are scored at once keeps the tensors of a forward pass within 128 MB
    (`BYTES_AT_ONCE`), by a measurement of the model; the backward pass takes about three times as much. Memory that does not grow
    with queries or candidates is not included: the resulting scores, or the messages passed over the graph.

    `scorer.n3`, `relation_weight`, `initial_scale` and the dropouts do not apply to these models: they have their own
    regularizers, initializers and dropouts, which `model_options` can set.
    """

    entity_rows: Tensor
    relation_rows: Tensor

    def __init__(self, model: Any, settings: ScorerSettings) -> None:
        super().__init__(model.num_entities, model.num_real_relations)
        self.model = model
        self.settings = settings
        self.register_buffer("entity_rows", torch.arange(model.num_entities))
        self.register_buffer("relation_rows", torch.arange(model.num_real_relations))
        # Callers of `state_dict` may change the parameters, so cached results of message passing must be dropped.
        cast("Any", self).register_state_dict_pre_hook(lambda module, prefix, keep_vars: module.forget_messages())

    @staticmethod
    def build(num_entities: int, num_relations: int, settings: ScorerSettings, facts: Triples | None = None) -> PykeenScorer:
        """The model of the settings, with initial parameters from their seed.

        Models that pass messages over the graph (RGCN, CompGCN, NodePiece) need the facts; others need only the numbers of
        entities and relations.
        """
        return PykeenScorer(build_model(num_entities, num_relations, settings, facts), settings)

    def train(self, mode: bool = True) -> PykeenScorer:
        """Set training or evaluation mode."""
        self.forget_messages()
        super().train(mode)
        return self

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""
        if not len(heads):
            return torch.empty(0, self.num_entities)
        num_queries, num_candidates = self.cost.at_once(self.num_entities)
        candidates = _slices(None, self.num_entities, num_candidates)
        return torch.cat(
            [
                _joined([self.score_candidates(*queries, rows) for rows in candidates])
                for queries in zip(torch.split(heads, num_queries), torch.split(relations, num_queries), strict=True)
            ]
        )

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]."""
        if not len(heads):
            return torch.empty(0)
        given, relations, is_inverse = self._rows(heads, relations)
        tails = self.entity_rows[tails]
        if not self.model.use_inverse_triples:
            given, tails = torch.where(is_inverse, tails, given), torch.where(is_inverse, given, tails)
        parts = torch.split(torch.stack([given, relations, tails], dim=1), self.cost.triples_at_once)
        with _unchanged_sparse_checks():
            return torch.cat([self.model.score_hrt(part) for part in parts]).squeeze(1)

    def learn(self, batch: Batch, optimizer: Optimizer, generator: torch.Generator) -> float:
        """Make a training step with a batch of queries; returns the loss before it, without the model's penalties.

        The gradients of its parts add up to those of the batch. Only batch normalisation depends on the parts: it uses their
        statistics, and for a part of one query the running ones.
        """
        among = Candidates.all(batch)
        if self.settings.num_sampled_tails:
            _, among = sample_candidates(batch, self.settings.num_sampled_tails, self.num_entities, generator)
        placed = Batch(batch.heads, batch.relations, batch.queries, among.answers)
        num_candidates = self.num_entities if among.entities is None else len(among.entities)
        at_once, most = self.cost.at_once(num_candidates)
        slices = _slices(among.entities, num_candidates, most)
        num_answers, seed, loss = max(len(batch.answers), 1), int(torch.randint(2**62, (), generator=generator)), 0.0
        with torch.random.fork_rng(devices=[]):  # PyKEEN's dropout draws from the global generator
            torch.default_generator.manual_seed(seed)
            for first in range(0, len(batch.heads), at_once):
                part = _part(placed, first, first + at_once)
                query_share, answer_share = len(part.heads) / len(batch.heads), len(part.answers) / num_answers
                loss_share = answer_share if self.settings.loss == "softmax" else query_share
                with _running_statistics(self.model, is_needed=len(part.heads) == 1):
                    loss += self._backward(part, slices, among.weights, loss_share, query_share)
        optimizer.step()
        with torch.no_grad():
            self.model.post_parameter_update()
        return loss

    def _backward(self, part: Batch, slices: list[Any], weights: Tensor | None, loss_share: float, penalty_share: float) -> float:
        """Add the gradients of a part of the batch; returns its loss. The shares are those of the part in the batch."""
        if len(slices) == 1:
            loss = loss_share * loss_of_scores(self._fresh_scores(part, slices[0]), part, self.settings, weights)
            torch.autograd.backward(loss + penalty_share * self._penalty(part))
            return loss.item()
        # Too many candidates for memory: first all scores without gradients, then slice by slice with gradients.
        state = torch.get_rng_state()
        with torch.no_grad():
            scores = _joined([self._fresh_scores(part, candidates) for candidates in slices]).requires_grad_()
        loss = loss_share * loss_of_scores(scores, part, self.settings, weights)
        gradients = torch.autograd.grad(loss, scores)[0].split([len(candidates) for candidates in slices], dim=1)
        torch.set_rng_state(state)
        for candidates, gradient in zip(slices, gradients, strict=True):
            total = (self._fresh_scores(part, candidates) * gradient).sum()
            torch.autograd.backward(total + penalty_share * len(candidates) / scores.shape[1] * self._penalty(part))
        return loss.item()

    def _penalty(self, part: Batch) -> Tensor:
        """The penalty of the model's regularizers for the part; a mean if its scores took two calls."""
        directions = self.relation_ids.is_inverse(part.relations).unique()
        num_calls = 1 if self.model.use_inverse_triples else len(directions)
        return torch.as_tensor(self.model.collect_regularization_term()).sum() / num_calls

    def _fresh_scores(self, part: Batch, candidates: Tensor | None) -> Tensor:
        self.forget_messages()
        return self.score_candidates(part.heads, part.relations, candidates)

    def score_candidates(self, heads: Tensor, relations: Tensor, candidates: Tensor | None) -> Tensor:
        """The scores of some candidates or of all entities, in one pass [Q, C]."""
        given, relations, is_inverse = self._rows(heads, relations)
        is_in_order = candidates is None and torch.equal(self.entity_rows, torch.arange(self.num_entities))
        rows = None if is_in_order else self.entity_rows if candidates is None else self.entity_rows[candidates]
        if self.model.use_inverse_triples:
            return self.model.score_t(torch.stack([given, relations], dim=1), tails=rows)  # type: ignore[no-any-return]
        forward, backward = (~is_inverse).nonzero().squeeze(1), is_inverse.nonzero().squeeze(1)
        parts = []
        with _unchanged_sparse_checks():
            if len(forward):
                parts.append(self.model.score_t(torch.stack([given[forward], relations[forward]], dim=1), tails=rows))
            if len(backward):
                parts.append(self.model.score_h(torch.stack([relations[backward], given[backward]], dim=1), heads=rows))
        return parts[0] if len(parts) == 1 else torch.cat(parts)[torch.cat([forward, backward]).argsort()]

    def _rows(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """PyKEEN's ids of the entities and relations of queries, and a mask of the inverse relations [Q] each."""
        is_inverse: Tensor = self.relation_ids.is_inverse(relations)
        rows = self.relation_rows[torch.where(is_inverse, self.relation_ids.inverse(relations), relations)]
        if self.model.use_inverse_triples:
            inverter = self.model.relation_inverter
            rows = inverter.map(rows[:, None], index=0).squeeze(1)
            rows = torch.where(is_inverse, inverter.get_inverse_id(rows), rows)
        return self.entity_rows[heads], rows, is_inverse

    def forget_messages(self) -> None:
        """Drop what message-passing models cache between calls."""
        for module in self.modules():
            for name in ("enriched_embeddings", "enriched_representations"):
                if getattr(module, name, None) is not None:
                    setattr(module, name, None)

    @cached_property
    def cost(self) -> ScoringCost:
        """The memory that scoring takes; measured on first use."""
        is_training = self.training
        self.eval()
        directions = (0,) if self.model.use_inverse_triples else (0, self.relation_ids.num_relations)
        cost = ScoringCost.highest(*(ScoringCost.measured(self, relation_id) for relation_id in directions))
        self.train(is_training)
        return cost


@dataclass(frozen=True)
class ScoringCost:
    """Memory of Q queries with C candidates, in bytes: `constant + C · of_candidate + Q · (of_query + C · of_pair)`."""

    of_query: float
    of_candidate: float
    of_pair: float

    def at_once(self, num_candidates: int, most_bytes: int = BYTES_AT_ONCE) -> tuple[int, int]:
        """The numbers of queries and candidates within `most_bytes`: all candidates if possible; at least one of each."""
        room = most_bytes - self.of_candidate * num_candidates
        if self.of_query + self.of_pair * num_candidates > room:
            room = most_bytes / 2  # half for what the candidates share, half for what each query adds
            limit = min(room / max(self.of_candidate, 1), (room - self.of_query) / max(self.of_pair, 1))
            num_candidates = max(min(int(limit), num_candidates), 1)
        num_queries = room // max(self.of_query + self.of_pair * num_candidates, 1)
        return max(int(num_queries), 1), num_candidates

    @property
    def triples_at_once(self) -> int:
        """The number of triples within `BYTES_AT_ONCE`; at least one."""
        return max(int(BYTES_AT_ONCE // max(self.of_query + self.of_candidate + self.of_pair, 1)), 1)

    @staticmethod
    def measured(scorer: PykeenScorer, relation_id: int) -> ScoringCost:
        """The cost measured by scoring few queries of a relation with few candidates."""
        (few, more), (some, others) = (2, 4), (8, 16)
        made = {}
        for queries, candidates in itertools.product((few, more), (some, others)):
            heads, rows = (torch.arange(count) % scorer.num_entities for count in (queries, candidates))
            with torch.inference_mode(False), torch.no_grad(), CountedBytes() as counted:
                scorer.forget_messages()
                scorer.score_candidates(heads, torch.full_like(heads, relation_id), rows)
            made[queries, candidates] = counted.total
        pairs = (others - some) * (more - few)
        of_pair = max((made[more, others] - made[more, some] - made[few, others] + made[few, some]) / pairs, 0)
        of_query = (made[more, some] - made[few, some]) / (more - few) - some * of_pair
        of_candidate = (made[few, others] - made[few, some]) / (others - some) - few * of_pair
        return ScoringCost(max(of_query, 0), max(of_candidate, 0), of_pair)

    @staticmethod
    def highest(*costs: ScoringCost) -> ScoringCost:
        """The highest value of each number."""
        return ScoringCost(*(max(getattr(cost, name) for cost in costs) for name in ScoringCost.__dataclass_fields__))


class CountedBytes(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Counts the bytes of the tensors that operations create, as if none were freed. Views do not count."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {value.untyped_storage().data_ptr() for value in args if _is_dense(value)}
        for made in result if isinstance(result, list | tuple) else [result]:
            if _is_dense(made) and made.untyped_storage().data_ptr() not in given:
                self.total += made.untyped_storage().nbytes()
        return result


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided


def loss_of_scores(scores: Tensor, batch: Batch, settings: ScorerSettings, weights: Tensor | None = None) -> Tensor:
    """The loss of scores [Q, C] by plain autograd, equal to `losses.softmax_loss` and `losses.binary_loss` of these scores."""
    answer_score = scores[batch.queries, batch.answers].sum()
    if settings.loss == "softmax":
        counts = torch.bincount(batch.queries, minlength=len(scores)).to(scores.dtype)
        totals = torch.logsumexp(scores if weights is None else scores + weights.log(), dim=1)
        return (counts @ totals - answer_score) / max(len(batch.answers), 1)
    num_entities = scores.shape[1] if weights is None else float(weights.sum())
    losses = nn.functional.softplus(scores) - settings.label_smoothing / num_entities * scores
    if weights is not None:
        losses = losses * weights
    return (losses.sum() - (1 - settings.label_smoothing) * answer_score) / (num_entities * len(scores))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _part(batch: Batch, first: int, last: int) -> Batch:
    """The queries from `first` to before `last`."""
    rows = (batch.queries >= first) & (batch.queries < last)
    return Batch(batch.heads[first:last], batch.relations[first:last], batch.queries[rows] - first, batch.answers[rows])


def _slices(rows: Tensor | None, count: int, size: int) -> list[Any]:
    """The rows in slices of at most `size`; None stands for all of `count` rows, and is kept if they fit into one slice."""
    return [rows] if size >= count else list(torch.split(torch.arange(count) if rows is None else rows, size))


@contextmanager
def _running_statistics(model: nn.Module, is_needed: bool) -> Iterator[None]:
    """Use the running statistics of batch normalisation within the block: a single query has no variance."""
    layers = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training]
    layers = layers if is_needed else []
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()


def _unchanged_sparse_checks() -> Any:
    """Set PyTorch's checks of sparse tensors to their present value: without a value, it warns about RGCN's tensors."""
    checks: Any = torch.sparse.check_sparse_tensor_invariants
    return checks(checks.is_enabled())
