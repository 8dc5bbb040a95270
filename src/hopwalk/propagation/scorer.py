"""Propagation as a scorer: scores of all entities, made of the walks from the head and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.triples import Triples
from hopwalk.learning.scorer import ScoredPath, Scorer
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.paths import paths_behind
from hopwalk.propagation.queries import plain_tasks

QUERIES_AT_ONCE = 64  # parameters of so many queries are held at once


class PropagationScorer(Scorer):
    """f(head, relation, tail) by propagation over a graph of facts. It has no entity embeddings: the graph can be exchanged.

    Entities that no walk of `propagation.layers` steps reaches have the same score, learnt for each query relation.
    """

    def __init__(self, num_entities: int, num_relations: int, settings: PropagationSettings, facts: Triples) -> None:
        super().__init__(num_entities, num_relations)
        self.settings = settings
        self.model = Propagation(self.relation_ids.num_directed, settings, torch.Generator().manual_seed(settings.seed))
        self.engine = Engine(build_run_graph(facts, num_entities, num_relations), settings, torch.get_num_threads())

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The score of every entity as the tail of every query [Q, E]."""
        scores = torch.empty(len(heads), self.num_entities)
        for first in range(0, len(heads), QUERIES_AT_ONCE):
            rows = slice(first, first + QUERIES_AT_ONCE)
            tasks = plain_tasks(heads[rows].numpy(), relations[rows].numpy())
            scores[rows] = torch.from_numpy(self.model.score_all(self.engine, tasks)[0])
        return scores

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The score of every triple [N]; every distinct query is propagated once."""
        pairs = heads * self.relation_ids.num_directed + relations
        distinct, rows = torch.unique(pairs, return_inverse=True)
        found = torch.empty(len(heads))
        num_directed = self.relation_ids.num_directed
        for first in range(0, len(distinct), QUERIES_AT_ONCE):
            part = distinct[first : first + QUERIES_AT_ONCE]
            scores = self.score_all_tails(part // num_directed, part % num_directed)
            is_own = (rows >= first) & (rows < first + len(part))
            found[is_own] = scores[rows[is_own] - first, tails[is_own]]
        return found

    def paths_behind(
        self, head: int, relation: int, entities: Sequence[int], *, num_paths: int = 3, hidden: Triples | None = None
    ) -> list[list[ScoredPath]]:
        """The paths that carry the scores of some entities, for each the best first; none for an entity out of reach."""
        return paths_behind(self.model, self.engine, head, relation, entities, num_paths=num_paths, hidden=hidden)

    def reached(self, heads: Tensor, relations: Tensor) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of entities that the walks of every query reach [Q]."""
        return self.model.score_all(self.engine, plain_tasks(heads.numpy(), relations.numpy()))[1]
