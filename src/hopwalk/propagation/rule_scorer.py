"""NeuralLP and DRUM as scorers, the paths behind their scores, and the soft rules they have learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from hopwalk.config.settings import RuleSettings
from hopwalk.data.triples import Ids, Triples
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.scorer import PathScorer, ScoredPath
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.queries import hidden_positions, plain_tasks
from hopwalk.propagation.rule_model import RuleEngine, RuleModel
from hopwalk.propagation.rule_search import PathSearch, best_rules, following_relations, steps_of

QUERIES_AT_ONCE = 64  # attentions of so many queries are held at once
LEAST = 1e-9  # probability that entities out of reach stand for: their score is its logarithm


class RuleScorer(PathScorer):
    """log p(tail | head, relation) by soft rules over a graph of facts. It has no entity embeddings: the graph can be exchanged.

    Entities that no walk of `rules.hops` steps reaches have the score log 1e-9.
    """

    def __init__(
        self, num_entities: int, num_relations: int, settings: RuleSettings, facts: Triples, *, is_drum: bool = False
    ) -> None:
        super().__init__(num_entities, num_relations)
        self.settings = settings
        ids = self.relation_ids
        self.model = RuleModel(ids.num_directed, settings, torch.Generator().manual_seed(settings.seed), is_drum=is_drum)
        inverses = ids.inverse(np.arange(ids.num_directed)).astype(np.int32)
        graph = build_run_graph(facts, num_entities, num_relations)
        self.engine = RuleEngine(graph, inverses, settings.hops, torch.get_num_threads())

    @property
    def max_hops(self) -> int:
        """T: the length of the longest walks."""
        return self.settings.hops

    def score_reached(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The scores of the entities that the walks of each query reach.

        `hidden` are facts that a query does not see, one `Triples` for each query; an empty sequence hides nothing.
        """
        if len(hidden) not in (0, len(heads)):
            raise ValueError(f"expected hidden facts for each of {len(heads)} queries, got {len(hidden)}")
        parts = []
        for first in range(0, len(heads), QUERIES_AT_ONCE):
            rows = slice(first, first + QUERIES_AT_ONCE)
            edges = hidden_positions(self.engine.graph, hidden[rows], self.relation_ids) if len(hidden) else None
            probabilities = self.model.score_all(self.engine, plain_tasks(heads[rows], relations[rows], edges))[0]
            queries, entities = np.nonzero(probabilities)
            offsets = np.searchsorted(queries, np.arange(len(probabilities) + 1))
            scores = np.log(np.maximum(probabilities[queries, entities], np.float32(LEAST)))
            unreached = np.full(len(probabilities), math.log(LEAST), dtype=np.float32)
            parts.append(ReachedScores(offsets, entities.astype(np.int32), scores, unreached))
        return ReachedScores.concatenate(parts)

    def paths_behind(
        self, head: int, relation: int, entities: Sequence[int], *, num_paths: int = 3, hidden: Triples | None = None
    ) -> list[list[ScoredPath]]:
        """The paths that carry the probabilities of some entities, for each the best first; none for an entity out of reach.

        The probability of an entity is a sum over walks: `drop` is the term of the path, `share` its part of the sum. Walks that
        pass an entity twice are part of the sum too, but are not given.
        """
        facts = Triples.of([]) if hidden is None else hidden
        (edges,) = hidden_positions(self.engine.graph, [facts], self.relation_ids)
        tasks = plain_tasks(np.array([head]), np.array([relation]), [edges])
        probabilities, totals = self.model.score_all(self.engine, tasks)
        attentions = self.model.plain_attentions(torch.tensor([relation]))
        search = PathSearch(self.engine.graph, self.engine.inverses, steps_of(attentions, 0, totals[0]), head, edges)
        found = []
        for entity in entities:
            whole = float(probabilities[0, entity])
            paths = search.best(entity, num_paths) if whole > 0 else []
            found.append([ScoredPath(steps, weight, min(weight / whole, 1.0)) for weight, steps in paths])
        return found

    def with_graph(self, facts: Triples, num_entities: int) -> Self:
        """The same model on another graph, which may have more entities; both share their parameters."""
        relations = self.require_fitting(facts, num_entities)
        other = type(self)(num_entities, relations, self.settings, facts, is_drum=self.model.is_drum)
        other.model, other.calibration = self.model, self.calibration
        return other.train(self.training)


@dataclass(frozen=True)
class SoftRule:
    """A rule `head(X, Y) ⇐ body`, its relations by name with whether each is walked against its arrow, and its weight.

    The weights of all sequences of relations, with the empty one, add up to 1.
    """

    head: tuple[str, bool]
    body: tuple[tuple[str, bool], ...]
    weight: float


def soft_rules(scorer: RuleScorer, relations: Vocabulary, relation: int, *, num_rules: int = 10) -> list[SoftRule]:
    """The rules that a model has learnt for a relation or an inverse, the largest weights first.

    The weight of a rule is the product of its attentions, summed up over ranks and over the steps that it can be applied at. How
    many walks it has does not count: since memories are divided by their sums, attention to a rule without walks costs a model
    nothing. So rules are left out if neighbouring relations never meet at an entity of the graph, or the first never leaves the
    head or the last never reaches the tail of a fact of this relation.
    """
    ids, engine = scorer.relation_ids, scorer.engine

    def named(id_: int) -> tuple[str, bool]:
        is_inverse = bool(ids.is_inverse(id_))
        return relations.name(ids.inverse(id_) if is_inverse else id_), is_inverse

    steps = steps_of(scorer.model.plain_attentions(torch.tensor([relation])), 0)
    may_follow, around = following_relations(engine.graph, engine.inverses), ids.inverse(relation)
    if not may_follow[around].any():  # no fact of this relation is in the graph
        may_follow[around, :] = may_follow[:, around] = True
    found = best_rules(steps, num_rules, may_follow, around)
    return [SoftRule(named(relation), tuple(map(named, body)), weight) for weight, body in found]
