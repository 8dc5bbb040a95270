"""Propagation as a scorer: scores of all entities, made of the walks from the head and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.scorer import PathScorer, Pruned, ScoredPath
from hopwalk.propagation.graph import Int64s, build_run_graph
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.parameters import numbers_of_query
from hopwalk.propagation.paths import paths_behind
from hopwalk.propagation.prior import TailPrior
from hopwalk.propagation.pruning import find_pruning
from hopwalk.propagation.queries import hidden_positions, plain_tasks

QUERIES_AT_ONCE = 64  # parameters of so many queries are held at once
MOST_NUMBERS = 1 << 26  # or of fewer, so that they are no more than so many numbers


class PropagationScorer(PathScorer):
    """f(head, relation, tail) by propagation over a graph of facts. It has no entity embeddings: the graph can be exchanged.

    Entities that no walk of `propagation.layers` steps reaches share a probability that is learnt for each query relation
    (`TailPrior`). `model` has the parameters, fresh ones if it is not given.
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        settings: PropagationSettings,
        facts: Triples,
        model: Propagation | None = None,
    ) -> None:
        super().__init__(num_entities, num_relations)
        self.settings = settings
        self.model = model or Propagation(self.relation_ids.num_directed, settings, torch.Generator().manual_seed(settings.seed))
        self.engine = Engine(build_run_graph(facts, num_entities, num_relations), settings, torch.get_num_threads())
        self._prior = TailPrior(self.engine.graph, self.relation_ids, settings.prior)

    @property
    def max_hops(self) -> int:
        """The length of the longest walks: the number of layers."""
        return self.settings.layers

    @property
    def queries_at_once(self) -> int:
        """The number of queries whose parameters are held at once: fewer where there are very many relations."""
        of_query = numbers_of_query(self.settings, self.relation_ids.num_directed)
        return max(min(QUERIES_AT_ONCE, MOST_NUMBERS // max(of_query, 1)), 1)

    def score_reached(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores of the entities that the walks of each query reach; nothing here grows with the number of entities.

        `hidden` are facts that a query does not see, one `Triples` for each query; an empty sequence hides nothing.
        """
        if len(hidden) not in (0, len(heads)):
            raise ValueError(f"expected hidden facts for each of {len(heads)} queries, got {len(hidden)}")
        parts, at_once = [], self.queries_at_once
        for first in range(0, len(heads), at_once):
            rows = slice(first, first + at_once)
            edges = hidden_positions(self.engine.graph, hidden[rows], self.relation_ids) if len(hidden) else None
            parts.append(self.model.score_reached(self.engine, plain_tasks(heads[rows], relations[rows], edges)))
        return ReachedScores.concatenate(parts)

    def score_candidates(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores by which entities are ranked: of those that are reached, and of frequent tails of the relation."""
        return self._prior.applied(self.score_reached(heads, relations, hidden), relations, hidden)

    def reached(self, heads: Tensor, relations: Tensor) -> Int64s:
        """The number of entities that the walks of every query reach [Q]."""
        return self.score_reached(heads.numpy(), relations.numpy()).num_reached

    def paths_behind(
        self, head: int, relation: int, entities: Sequence[int], *, num_paths: int = 3, hidden: Triples | None = None
    ) -> list[list[ScoredPath]]:
        """The paths that carry the scores of some entities, for each the best first; none for an entity out of reach."""
        return paths_behind(self.model, self.engine, head, relation, entities, num_paths=num_paths, hidden=hidden)

    def pruned(self, head: int, relation: int, entity: int) -> Pruned | None:
        """The place where the walks lose an entity, if the fact is hidden; None if no path leads there."""
        hidden = hidden_positions(self.engine.graph, [Triples.of([(head, relation, entity)])], self.relation_ids)[0]
        return find_pruning(self.model, self.engine, head, relation, entity, hidden)

    def with_graph(self, facts: Triples, num_entities: int) -> Self:
        """The same model on another graph, which may have more entities; both share their parameters."""
        relations = self.require_fitting(facts, num_entities)
        other = type(self)(num_entities, relations, self.settings, facts, self.model)
        other.calibration = self.calibration
        return other.train(self.training)
