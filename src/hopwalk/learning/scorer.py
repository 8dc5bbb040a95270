"""The interface of everything that scores: one-hop models, propagation, ensembles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn

from hopwalk.data.relation_ids import RelationIds
from hopwalk.errors import DataError
from hopwalk.learning.calibration import Calibration
from hopwalk.learning.reached import ReachedScores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hopwalk.data.triples import Ids, Triples
    from hopwalk.learning.ranking import AllScores

__all__ = ["PathScorer", "Pruned", "ReachedScores", "ScoredPath", "Scorer", "Step"]

Step = tuple[int, int]  # relation, entity


class Scorer(nn.Module, ABC):
    """f(head, relation, tail). Relations are those of the data and their inverses; `(tail, relation⁻¹, ?)` is a query for heads.

    All ids are int64 tensors of one dimension. Q queries, E entities, N triples.
    """

    def __init__(self, num_entities: int, num_relations: int) -> None:
        super().__init__()
        self.num_entities = num_entities
        self.relation_ids = RelationIds(num_relations)
        self.calibration = Calibration()

    @abstractmethod
    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""

    @abstractmethod
    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]."""

    def log_odds_of_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The calibrated logit of P(answer) of every entity for every query [Q, E]."""
        return self.calibrated(self.score_all_tails(heads, relations))

    def calibrated(self, scores: Tensor) -> Tensor:
        """The calibrated logits of P(answer), given the scores of all entities [Q, E]."""
        if self.calibration.is_relative:
            scores = torch.log_softmax(scores, dim=1)
        return scores * self.calibration.slope + self.calibration.offset

    def log_odds_of_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The calibrated logit of P(true) of every triple [N]."""
        if self.calibration.is_relative:  # needs the scores of all tails anyway
            return self.log_odds_of_all_tails(heads, relations).gather(1, tails[:, None]).squeeze(1)
        return self.score_triples(heads, relations, tails) * self.calibration.slope + self.calibration.offset

    def probability_of_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The probability that each entity is an answer of each query [Q, E]."""
        return torch.sigmoid(self.log_odds_of_all_tails(heads, relations))

    def probability_of_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The probability that each triple is true [N]."""
        return torch.sigmoid(self.log_odds_of_triples(heads, relations, tails))

    @torch.inference_mode()
    def numpy_scores(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """`score_all_tails` of numpy ids without gradients, for `ranking.rank_answers` [Q, E]."""
        return self.score_all_tails(_to_tensor(heads), _to_tensor(relations)).contiguous().numpy()

    def compact_scores(self, heads: Ids, relations: Ids) -> AllScores:
        """The scores of all entities in their smallest form, for ranking and calibration: a table [Q, E]."""
        return self.numpy_scores(heads, relations)


@dataclass(frozen=True)
class ScoredPath:
    """A path from the head of a query, and how far the score of its end falls if its edges are taken away.

    In a list of paths of one entity, the fall without all of them is shared out among them. `share` is relative to the score
    above that of no walk at all (`ReachedScores.floors`); those of a list add up to at most 1.
    """

    steps: tuple[Step, ...]
    drop: float
    share: float


@dataclass(frozen=True)
class Pruned:
    """The place where the walks of a query lose an entity that a path leads to.

    They come as far as `entity`, `hops` before it, which in `layer` is at `place` by priority, where `kept` go on. With `place`
    None it went on, but only `kept` of its edges are walked.
    """

    layer: int
    entity: int
    hops: int
    place: int | None
    kept: int


class PathScorer(Scorer):
    """A scorer whose scores are made of walks over a graph of facts, which can be exchanged: it has no entity embeddings.

    `hidden` are facts, one `Triples` for each query, that it does not see, neither in the one direction nor in the other.
    """

    @property
    @abstractmethod
    def max_hops(self) -> int:
        """The length of the longest walks."""

    @abstractmethod
    def score_reached(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores of the entities that the walks of each query reach."""

    def score_candidates(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores by which entities are ranked: of those that are reached, and perhaps of some that are not."""
        return self.score_reached(heads, relations, hidden)

    def compact_scores(self, heads: Ids, relations: Ids) -> AllScores:
        """The scores of all entities in their smallest form, for ranking and calibration."""
        return self.score_candidates(heads, relations)

    def log_odds_of_reached(self, reached: ReachedScores) -> ReachedScores:
        """The calibrated logits of P(answer), given what `score_candidates` gave."""
        shifts = reached.log_normalisers(self.num_entities) if self.calibration.is_relative else np.zeros(len(reached))
        slope, offset = self.calibration.slope, self.calibration.offset
        scores = (reached.scores - shifts[reached.rows]) * slope + offset
        unreached = (reached.unreached - shifts) * slope + offset
        return replace(reached, scores=scores.astype(np.float32), unreached=unreached.astype(np.float32))

    @abstractmethod
    def paths_behind(
        self, head: int, relation: int, entities: Sequence[int], *, num_paths: int = 3, hidden: Triples | None = None
    ) -> list[list[ScoredPath]]:
        """The paths that carry the scores of some entities, for each the best first; none for an entity out of reach."""

    def pruned(self, head: int, relation: int, entity: int) -> Pruned | None:
        """The place where the walks lose an entity, if the fact is hidden; None if nothing is pruned, or no path leads there."""
        return None

    @abstractmethod
    def with_graph(self, facts: Triples, num_entities: int) -> Self:
        """The same model on another graph, which may have more entities."""

    def require_fitting(self, facts: Triples, num_entities: int) -> int:
        """An error if facts have other entities than these or other relations than training had; the number of relations."""
        relations, entities = self.relation_ids.num_relations, np.append(facts.heads, facts.tails)
        if len(facts) and (int(entities.max()) >= num_entities or int(facts.relations.max()) >= relations):
            raise DataError(
                f"the facts have more than {num_entities:,} entities or more than the {relations:,} relations of training",
                remedy="Count all entities, and use only relations that the model was trained with.",
            )
        return relations

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""
        return torch.from_numpy(self.score_candidates(heads.numpy(), relations.numpy()).dense(self.num_entities))

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]; every distinct query is walked once."""
        num_directed = self.relation_ids.num_directed
        distinct, rows = np.unique((heads * num_directed + relations).numpy(), return_inverse=True)
        queries = (distinct // num_directed).astype(np.int32), (distinct % num_directed).astype(np.int32)
        return torch.from_numpy(self.score_candidates(*queries).scores_of(rows, tails.numpy()))


def _to_tensor(ids: Ids) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
