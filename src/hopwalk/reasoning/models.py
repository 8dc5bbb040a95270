"""The two abilities of everything that answers: rank the entities of a query, and give the paths behind a rank.

A walker ranks by the probability of its paths. A scorer that is made of walks ranks by its score, and knows the paths that carry
it. An embedding scorer ranks too, but has no paths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hopwalk.config.settings import GraphSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.reachability import reached as within_reach
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import SettingsError
from hopwalk.learning.calibration import Calibration
from hopwalk.learning.probability import FactProbability, log_normalisers
from hopwalk.learning.ranking import AllScores, tell_progress
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.scorer import PathScorer, Pruned, Scorer, Step
from hopwalk.reasoning.rules import RuleCounter
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.utils.text import counted, ordinal

Floats = NDArray[np.float64]
QueryIds = tuple[int, int]  # head, relation
FactIds = tuple[int, int, int]  # head, relation, tail
PathIds = tuple[tuple[Step, ...], float]  # steps, and the share of the answer's score that they carry


@dataclass(frozen=True, eq=False)
class Candidates:
    """The entities that may answer a query, best first [N]; `relative` is the log-softmax of scores over all entities."""

    entities: NDArray[np.int64]
    scores: Floats
    relative: Floats

    def part(self, places: NDArray[np.integer[Any] | np.bool_] | slice) -> Candidates:
        """Some of them."""
        return Candidates(self.entities[places], self.scores[places], self.relative[places])


class Ranking(ABC):
    """The candidates of Q queries, and the paths behind their scores."""

    candidates: list[Candidates]

    @abstractmethod
    def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> list[list[list[PathIds]]]:
        """For each query and each of its chosen entities, the paths that carry its score, the best first."""


class AnswerModel(ABC):
    """A trained model on a graph of facts. `known` are the answers that the graph or the training queries have."""

    dataset: Dataset
    known: KnownAnswers
    calibration: Calibration | None  # of the scores of one direction
    probability: FactProbability | None  # of facts, from the scores of both directions; None without dev facts
    max_hops: int  # of its paths; 0: it has none
    ranks_by: str  # in words, for people

    @property
    def queries_at_once(self) -> int:
        """How many queries are ranked together."""
        return 64

    @property
    def takes_new_entities(self) -> bool:
        """Whether entities that it was not trained with can be asked about and be answers."""
        return False

    @abstractmethod
    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        """The candidates of queries, all or the best `k`; with `only_new` none that is a known answer."""

    @abstractmethod
    def rank_facts(self, facts: Triples) -> Ranking:
        """The candidates of the queries of facts; each fact is hidden from its query, other known answers are left out."""

    @abstractmethod
    def score_all_tails(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> AllScores:
        """The scores of all entities, -inf for those out of reach of a walker [Q, E]; or of those that are reached.

        `hidden` are facts, for each query, that it does not see.
        """

    def comparable_scores(self, heads: Ids, relations: Ids) -> AllScores:
        """Scores of all entities that can be compared between queries."""
        return self.score_all_tails(heads, relations)

    def score_facts(self, facts: Triples) -> Floats:
        """The score of every fact, comparable between queries; -inf out of reach of a walker [N]."""
        pairs, rows = np.unique(np.stack([facts.heads, facts.relations], axis=1), axis=0, return_inverse=True)
        found, at_once = np.empty(len(facts)), self.queries_at_once
        for first in range(0, len(pairs), at_once):
            part = pairs[first : first + at_once]
            scores = self.comparable_scores(part[:, 0], part[:, 1])
            own = np.flatnonzero((rows >= first) & (rows < first + len(part)))
            of_query, tails = rows[own] - first, facts.tails[own]
            found[own] = scores.scores_of(of_query, tails) if isinstance(scores, ReachedScores) else scores[of_query, tails]
            tell_progress(first + len(part), len(pairs))
        return found

    @abstractmethod
    def scores_without(self, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query does not see some facts, in neither direction [Q, E]."""

    @abstractmethod
    def scores_with_only(self, heads: Ids, relations: Ids, facts: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query sees no other facts than some [Q, E]."""

    @abstractmethod
    def floors(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """The score that stands for no walk at all, -inf if scores are logarithms of probabilities [Q]."""

    @abstractmethod
    def with_data(self, dataset: Dataset, added: Triples) -> AnswerModel:
        """The same model on the graph of another data set, which has some facts more, and perhaps entities."""

    @cached_property
    def rule_counter(self) -> RuleCounter:
        """Counts how often rules hold in the graph, and keeps the counts."""
        return RuleCounter(self.dataset.facts, self.dataset)

    def why_not(self, fact: FactIds) -> str:
        """Why the tail of a fact is not among the candidates of its query, in a sentence without a full stop."""
        if is_within_reach(self.dataset, fact, self.max_hops):
            return ""
        itself = " but the fact itself" if self.known.contains(*(np.array([id_], dtype=np.int32) for id_ in fact))[0] else ""
        return f"no path of at most {self.max_hops} hops{itself} leads there"


class ScorerModel(AnswerModel):
    """A scorer that answers: propagation and its family, with paths; an embedding model, without."""

    def __init__(self, scorer: Scorer, dataset: Dataset, ranks_by: str, probability: FactProbability | None = None) -> None:
        self.scorer, self.dataset, self.ranks_by = scorer, dataset, ranks_by
        self.calibration, self.probability = scorer.calibration, probability
        self.known = KnownAnswers([dataset.facts, dataset.train], len(dataset.entities), len(dataset.relations))
        self._path_scorer = path_scorer_of(scorer)
        self.max_hops = self._path_scorer.max_hops if self._path_scorer else 0

    @property
    def takes_new_entities(self) -> bool:
        """Whether the scorer is made of walks, so that it has no embeddings of entities."""
        return isinstance(self.scorer, PathScorer)

    def rank(self, queries: Sequence[QueryIds], *, only_new: bool = False, k: int | None = None) -> Ranking:
        """The candidates of queries, all or the best `k`; with `only_new` none that is a known answer."""
        heads, relations = (np.array(ids, dtype=np.int32) for ids in zip(*queries, strict=True))
        offsets, known = self.known.answers(heads, relations)
        known_of = [known[offsets[row] : offsets[row + 1]] for row in range(len(queries))]
        left_out = known_of if only_new else [known[:0]] * len(queries)
        return _ScorerRanking(self._path_scorer, queries, self._candidates(heads, relations, (), left_out, k), known_of)

    def rank_facts(self, facts: Triples) -> Ranking:
        """The candidates of the queries of facts; each fact is hidden from its query, other known answers are left out."""
        hidden = [facts[row : row + 1] for row in range(len(facts))]
        offsets, known = self.known.answers(facts.heads, facts.relations)
        left_out = [
            others[others != tail] for tail, others in zip(facts.tails.tolist(), np.split(known, offsets[1:-1]), strict=True)
        ]
        queries = list(zip(facts.heads.tolist(), facts.relations.tolist(), strict=True))
        known_of = [facts.tails[row : row + 1] for row in range(len(facts))]
        candidates = self._candidates(facts.heads, facts.relations, hidden, left_out, None)
        return _ScorerRanking(self._path_scorer, queries, candidates, known_of)

    def _candidates(
        self, heads: Ids, relations: Ids, hidden: Sequence[Triples], left_out: Sequence[Ids], k: int | None
    ) -> list[Candidates]:
        found = self.score_all_tails(heads, relations, hidden)
        if isinstance(found, ReachedScores):
            normalisers = found.log_normalisers(len(self.dataset.entities))
            ends = found.offsets[1:-1]
            columns = np.split(found.entities, ends), np.split(found.scores, ends), normalisers.tolist(), left_out
            return [best_candidates(*own, k) for own in zip(*columns, strict=True)]
        everything, normalisers = np.arange(found.shape[1]), log_normalisers(found)
        return [
            best_candidates(everything, scores, normaliser, without, k)
            for scores, normaliser, without in zip(found, normalisers, left_out, strict=True)
        ]

    def score_all_tails(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> AllScores:
        """The scores of all entities [Q, E], or of those that are reached; `hidden` are facts that each query does not see."""
        if not hidden:
            return self.scorer.compact_scores(heads, relations)
        if isinstance(self.scorer, PathScorer):
            return self.scorer.score_candidates(heads, relations, hidden)
        with torch.inference_mode():
            return all_scores(self.scorer, heads, relations, hidden).numpy()

    def comparable_scores(self, heads: Ids, relations: Ids) -> AllScores:
        """The log-odds of all entities [Q, E], or of those that are reached."""
        if isinstance(self.scorer, PathScorer):
            return self.scorer.log_odds_of_reached(self.scorer.score_reached(heads, relations))
        with torch.inference_mode():
            return all_log_odds(self.scorer, heads, relations, ()).numpy()

    def scores_without(self, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query does not see some facts, in neither direction [Q, E]."""
        return self._made_of_walks().score_reached(heads, relations, hidden).dense(len(self.dataset.entities), -np.inf)

    def scores_with_only(self, heads: Ids, relations: Ids, facts: Sequence[Triples]) -> NDArray[np.float32]:
        """The scores of all entities, -inf out of reach, if each query sees no other facts than some [Q, E]."""
        scorer, found = self._made_of_walks(), np.empty((len(heads), len(self.dataset.entities)), dtype=np.float32)
        for row, part in enumerate(facts):
            own = slice(row, row + 1)
            reached = scorer.with_graph(part, found.shape[1]).score_reached(heads[own], relations[own])
            found[own] = reached.dense(found.shape[1], -np.inf)
        return found

    def floors(self, heads: Ids, relations: Ids) -> NDArray[np.float32]:
        """The score that stands for no walk at all [Q]."""
        return self._made_of_walks().score_reached(heads, relations).floors(len(self.dataset.entities))

    def _made_of_walks(self) -> PathScorer:
        if not isinstance(self.scorer, PathScorer):
            raise SettingsError(
                "the scores of this model are not made of walks alone: without facts of the graph they stay as they are",
                remedy="Use a propagation model, NeuralLP, DRUM or a walker.",
            )
        return self.scorer

    def with_data(self, dataset: Dataset, added: Triples) -> ScorerModel:
        """The same scorer on another graph; the scores of an embedding model stay as they are."""
        scorer = self.scorer
        if isinstance(scorer, PathScorer):
            scorer = scorer.with_graph(dataset.facts, len(dataset.entities))
        return ScorerModel(scorer, dataset, self.ranks_by, self.probability)

    def why_not(self, fact: FactIds) -> str:
        """Why the tail of a fact is not among the candidates of its query."""
        if too_far := super().why_not(fact):
            return too_far
        pruned = self._path_scorer.pruned(*fact) if self._path_scorer else None
        return self._pruned_text(pruned) if pruned else "the walks to it were pruned: they are not among the most promising"

    def _pruned_text(self, pruned: Pruned) -> str:
        if pruned.place is None:
            return f"the paths to it are cut by the fan-out limit of {pruned.kept:,} edges of an entity (propagation.fan_out)"
        where = f"the walks to it were pruned at layer {pruned.layer} of {self.max_hops}"
        last = f"{self.dataset.entities.name(pruned.entity)}, {counted(pruned.hops, 'hop')} before it"
        return f"{where}: {last}, is {ordinal(pruned.place)} by priority, and they go on from {counted(pruned.kept, 'entity')}"


class _ScorerRanking(Ranking):
    def __init__(
        self, scorer: PathScorer | None, queries: Sequence[QueryIds], candidates: list[Candidates], known: Sequence[Ids]
    ) -> None:
        self.candidates, self._scorer, self._queries = candidates, scorer, queries
        self._known = [set(ids.tolist()) for ids in known]

    def paths(self, chosen: Sequence[Sequence[int]], num_paths: int) -> list[list[list[PathIds]]]:
        """The paths of each chosen entity. A known fact is no reason for itself: it is hidden where its paths are looked for."""
        return [self._paths_of(row, entities, num_paths) for row, entities in enumerate(chosen)]

    def _paths_of(self, row: int, entities: Sequence[int], num_paths: int) -> list[list[PathIds]]:
        if self._scorer is None:
            return [[] for _ in entities]
        (head, relation), known = self._queries[row], self._known[row]
        new = [entity for entity in entities if entity not in known]
        found = dict(zip(new, self._scorer.paths_behind(head, relation, new, num_paths=num_paths), strict=True)) if new else {}
        for entity in known.intersection(entities):
            itself = Triples.of([(head, relation, entity)])
            found[entity] = self._scorer.paths_behind(head, relation, [entity], num_paths=num_paths, hidden=itself)[0]
        return [[(path.steps, path.share) for path in found[entity]] for entity in entities]


def path_scorer_of(scorer: Scorer) -> PathScorer | None:
    """The scorer, or the first member of an ensemble with a weight, that knows the paths behind its scores; None if none does."""
    if isinstance(scorer, PathScorer):
        return scorer
    members = scorer.weighted() if isinstance(scorer, Ensemble) else []
    return next((found for member, _ in members if (found := path_scorer_of(member))), None)


def all_log_odds(scorer: Scorer, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> Tensor:
    """The calibrated logits of P(answer) of all entities [Q, E]; members made of walks do not see the facts `hidden`."""
    return scorer.calibrated(all_scores(scorer, heads, relations, hidden))


def all_scores(scorer: Scorer, heads: Ids, relations: Ids, hidden: Sequence[Triples]) -> Tensor:
    """The scores of all entities [Q, E]; members made of walks do not see the facts `hidden`."""
    if isinstance(scorer, PathScorer):
        return torch.from_numpy(scorer.score_candidates(heads, relations, hidden).dense(scorer.num_entities))
    if isinstance(scorer, Ensemble):
        scores = torch.zeros(len(heads), scorer.num_entities)
        for member, weight in scorer.weighted():
            scores += weight * all_log_odds(member, heads, relations, hidden)
        return scores
    return scorer.score_all_tails(*(torch.from_numpy(ids.astype(np.int64)) for ids in (heads, relations)))


def best_candidates(
    entities: NDArray[np.integer[Any]], scores: NDArray[np.floating[Any]], normaliser: float, left_out: Ids, k: int | None
) -> Candidates:
    """The candidates, best first, of equals the one with the smaller id; all or `k` of them."""
    if len(left_out):
        is_kept = ~np.isin(entities, left_out)
        entities, scores = entities[is_kept], scores[is_kept]
    if k is not None and k < len(scores):
        is_kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        entities, scores = entities[is_kept], scores[is_kept]
    order = np.lexsort((entities, -scores))[:k]
    best = scores[order].astype(np.float64)
    return Candidates(entities[order].astype(np.int64), best, best - normaliser)


def is_within_reach(dataset: Dataset, fact: FactIds, hops: int) -> bool:
    """Whether a path of so many hops, other than the fact itself, connects its head and tail, whatever the fan-out."""
    ids, (head, relation, tail) = dataset.relation_ids, fact
    itself = (tail, ids.inverse(relation), head) if ids.is_inverse(relation) else fact
    others = dataset.facts[(dataset.facts.array() != np.array(itself)).any(axis=1)]
    unlimited = GraphSettings(fan_out=max(2 * len(others), 1))
    graph = build_graph(others, len(dataset.entities), len(dataset.relations), unlimited)
    return bool(within_reach(graph, np.array([head], dtype=np.int32), np.array([tail], dtype=np.int32), hops)[0])
