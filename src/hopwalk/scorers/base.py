"""The interface of all scorers, and the base of those whose score is a product with the tail's embedding."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.errors import SettingsError
from hopwalk.learning.scorer import Scorer
from hopwalk.scorers.losses import binary_loss, softmax_loss
from hopwalk.scorers.queries import Batch, Candidates, sample_candidates
from hopwalk.utils.randomness import dropout

if TYPE_CHECKING:
    from hopwalk.config.settings import ScorerSettings
    from hopwalk.learning.optimizers import Optimizer


class TrainableScorer(Scorer):
    """A scorer that `EmbeddingLearner` can train."""

    @abstractmethod
    def learn(self, batch: Batch, optimizer: Optimizer, generator: torch.Generator) -> float:
        """Make a training step with a batch of queries; returns the loss before it, without penalties."""


class ProductScorer(TrainableScorer):
    """A scorer of the form `score = query_vector(head, relation) · entities[tail] + tail_bias[tail]`.

    The scores of all tails for many queries are then one matrix product. Models differ in the query vector, and in the number of
    floats of an embedding of a given dimension.
    """

    numbers_per_dimension: ClassVar[int] = 1

    def __init__(self, num_entities: int, num_relations: int, settings: ScorerSettings, generator: torch.Generator) -> None:
        super().__init__(num_entities, num_relations)
        if settings.relation_weight and type(self).pair_vectors is ProductScorer.pair_vectors:
            raise SettingsError(
                f"scorer.relation_weight = {settings.relation_weight} is not valid for {type(self).__name__}: "
                "its score is not a product with the relation's embedding",
                remedy="Set it to 0.",
            )
        if settings.gradient_clip and settings.num_sampled_tails and settings.optimizer == "adagrad":
            problem = f"scorer.gradient_clip = {settings.gradient_clip} is not valid with Adagrad and sampled tails"
            raise SettingsError(problem, remedy="Set scorer.optimizer=adam, or one of the two to 0.")
        self.settings = settings
        width = self.numbers_per_dimension * settings.dimension
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        self.relations = nn.Parameter(torch.empty(self.relation_ids.num_directed, width))
        self.tail_bias: nn.Parameter | None = None
        for table in (self.entities, self.relations):
            if settings.initial_scale:
                table.data.normal_(std=settings.initial_scale, generator=generator)
            else:
                nn.init.xavier_normal_(table, generator=generator)

    @abstractmethod
    def query_vectors(self, heads: Tensor, relations: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The query vectors of the embeddings of heads and relations, with dropout if a generator is given [Q, D]."""

    def moduli(self, embeddings: Tensor) -> Tensor:
        """The absolute values of the components of embeddings, for the N3 penalty [N, D]."""
        return embeddings.abs()

    def pair_vectors(self, heads: Tensor, tails: Tensor) -> Tensor:
        """The vectors of the embeddings of heads and tails whose product with a relation's embedding is the score [N, D].

        Only for models whose score is such a product.
        """
        raise NotImplementedError

    def learn(self, batch: Batch, optimizer: Optimizer, generator: torch.Generator) -> float:
        """Make a training step with a batch of queries; returns the loss before it, without penalties."""
        if not self.settings.num_sampled_tails:
            loss = self._backward(batch, Candidates.all(batch), self.entities, generator)
            self._clip(optimizer)
            optimizer.step()
            return loss
        rows, candidates = sample_candidates(batch, self.settings.num_sampled_tails, self.num_entities, generator)
        entities = self.entities.detach()[rows].requires_grad_()
        loss = self._backward(batch, candidates, entities, generator)
        optimizer.step_rows(self.entities, rows, cast("Tensor", entities.grad))
        self._clip(optimizer)
        optimizer.step()
        return loss

    def _clip(self, optimizer: Optimizer) -> None:
        if self.settings.gradient_clip:
            optimizer.clip(self.settings.gradient_clip)

    def _backward(self, batch: Batch, among: Candidates, entities: Tensor, generator: torch.Generator) -> float:
        """Compute the gradients of the loss; `entities` are the rows of the table that the batch needs. Returns the loss."""
        settings = self.settings
        # Not `entities[…]`: threads decide the order in which its gradient is summed, so the same seed could give other results.
        heads = functional.embedding(among.heads, entities)
        relations = functional.embedding(batch.relations, self.relations)
        vectors = self.query_vectors(heads, relations, generator)
        table = entities if among.entities is None else entities[: len(among.entities)]
        table = dropout(table, settings.tail_dropout, generator)  # one mask per batch, not per query
        bias = self.tail_bias if self.tail_bias is None or among.entities is None else self.tail_bias[among.entities]
        arguments = (vectors, table, bias, batch.queries, among.answers, among.weights)
        if settings.loss == "softmax":
            loss = softmax_loss(*arguments)
        else:
            loss = binary_loss(*arguments, settings.label_smoothing, settings.smoothing_sum)
        total = loss
        if settings.n3:
            total = total + settings.n3 * self._n3(batch, among, entities)
        if settings.relation_weight:
            total = total + settings.relation_weight * self._relation_loss(batch, among, entities)
        total.backward()
        return loss.item()

    def _relation_loss(self, batch: Batch, among: Candidates, entities: Tensor) -> Tensor:
        """The cross-entropy of predicting the relation of each fact from its head and tail, a mean (Chen et al., 2021)."""
        heads = functional.embedding(among.heads[batch.queries], entities)
        pairs = self.pair_vectors(heads, functional.embedding(among.answers, entities))
        return functional.cross_entropy(pairs @ self.relations.T, batch.relations[batch.queries])

    def _n3(self, batch: Batch, among: Candidates, entities: Tensor) -> Tensor:
        """The N3 penalty (Lacroix et al., 2018): the mean over facts of the cubed 3-norms of head, relation and tail.

        Every row that the facts use is read once, whatever the number of its uses.
        """
        facts_per_query = torch.bincount(batch.queries, minlength=len(batch.heads)).to(entities.dtype)
        uses = torch.bincount(among.answers, minlength=len(entities)).to(entities.dtype)
        uses.index_add_(0, among.heads, facts_per_query)
        relation_uses = uses.new_zeros(len(self.relations)).index_add_(0, batch.relations, facts_per_query)
        total = self._weighted_cubes(entities, uses) + self._weighted_cubes(self.relations, relation_uses)
        return total / len(batch.answers)

    def _weighted_cubes(self, table: Tensor, uses: Tensor) -> Tensor:
        used = uses.nonzero().squeeze(1)
        moduli = self.moduli(table[used])
        cubes: Tensor = uses[used] @ (moduli * moduli * moduli).sum(dim=1)
        return cubes

    def vectors_of_queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The query vectors of queries given by ids, without dropout [Q, D]."""
        return self.query_vectors(self.entities[heads], self.relations[relations])

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""
        scores = self.vectors_of_queries(heads, relations) @ self.entities.T
        return scores if self.tail_bias is None else scores + self.tail_bias

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]."""
        scores: Tensor = torch.linalg.vecdot(self.vectors_of_queries(heads, relations), self.entities[tails])
        return scores if self.tail_bias is None else scores + self.tail_bias[tails]
