"""Ensembles of scorers that are all made of walks: their score is made of walks too, and they know the paths behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from torch import nn

from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.scorer import PathScorer, Pruned, ScoredPath, Step
from hopwalk.learning.shares import scored_paths

Path = tuple[Step, ...]


class PathEnsemble(PathScorer):
    """`score = Σ over members of weight · logit P(member: tail is an answer)`; the weights add up to 1.

    Members that were trained with other seeds make different mistakes; their mean is more often right than any of them.
    """

    def __init__(self, members: Sequence[PathScorer], weights: Sequence[float] | None = None) -> None:
        super().__init__(members[0].num_entities, members[0].relation_ids.num_relations)
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights or [1 / len(members)] * len(members))

    @property
    def max_hops(self) -> int:
        """The length of the longest walks of any member."""
        return max(member.max_hops for member, _ in self.weighted())

    def weighted(self) -> list[tuple[PathScorer, float]]:
        """The members that have a part in the score, with their weights."""
        pairs = zip(self.members, self.weights, strict=True)
        return [(member, weight) for member, weight in pairs if isinstance(member, PathScorer) and weight]

    def score_reached(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The mean log-odds of the entities that the walks of any member reach."""
        return self._mean([member.score_reached(heads, relations, hidden) for member, _ in self.weighted()])

    def score_candidates(self, heads: Ids, relations: Ids, hidden: Sequence[Triples] = ()) -> ReachedScores:
        """The mean log-odds of the entities that any member tells apart."""
        return self._mean([member.score_candidates(heads, relations, hidden) for member, _ in self.weighted()])

    def _mean(self, parts: Sequence[ReachedScores]) -> ReachedScores:
        pairs = zip(self.weighted(), parts, strict=True)
        return _weighted_sum([(member.log_odds_of_reached(part), weight) for (member, weight), part in pairs])

    def paths_behind(
        self, head: int, relation: int, entities: Sequence[int], *, num_paths: int = 3, hidden: Triples | None = None
    ) -> list[list[ScoredPath]]:
        """The paths without which the scores of some entities fall furthest, for each the best first.

        The candidates are the paths of all members; each is taken away to see how far the mean log-odds fall.
        """
        search = _Search(self, head, relation, entities, Triples.of([]) if hidden is None else hidden)
        for member, _ in self.weighted():
            search.add_candidates(member.paths_behind(head, relation, entities, num_paths=num_paths, hidden=hidden))
        for _ in range(num_paths):
            search.take_best()
        return search.shared_out()

    def pruned(self, head: int, relation: int, entity: int) -> Pruned | None:
        """The place where the walks of a member lose an entity: of the first that prunes them."""
        found = (member.pruned(head, relation, entity) for member, _ in self.weighted())
        return next((one for one in found if one), None)

    def with_graph(self, facts: Triples, num_entities: int) -> Self:
        """The same members on another graph, which may have more entities."""
        members = [member.with_graph(facts, num_entities) for member in self.members if isinstance(member, PathScorer)]
        other = type(self)(members, self.weights)
        other.calibration = self.calibration
        return other.train(self.training)


class _Search:
    """The paths found so far of N answers of one query, and the scores that the answers have without them."""

    def __init__(self, scorer: PathScorer, head: int, relation: int, entities: Sequence[int], hidden: Triples) -> None:
        self._scorer, self._head, self._relation = scorer, head, relation
        self._entities, self._hidden = np.array(entities, dtype=np.int64), hidden
        self._candidates: list[list[Path]] = [[] for _ in entities]
        self._paths: list[list[Path]] = [[] for _ in entities]
        self._floor = float(self._reached([[]]).floors(scorer.num_entities)[0])
        self._scores = [[score] for score in self._scores_without(range(len(entities)), [[]] * len(entities))]

    def add_candidates(self, paths: list[list[ScoredPath]]) -> None:
        """Paths that may carry the score of each answer."""
        for candidates, found in zip(self._candidates, paths, strict=True):
            candidates += [path.steps for path in found if path.steps not in candidates]

    def take_best(self) -> None:
        """Take the candidate of each answer without which its score falls furthest; those with a fact in common are dropped."""
        owners = [owner for owner, candidates in enumerate(self._candidates) for _ in candidates]
        paths = [path for candidates in self._candidates for path in candidates]
        scores = self._scores_without(owners, [[*self._paths[owner], path] for owner, path in zip(owners, paths, strict=True)])
        for owner in sorted(set(owners)):
            score, path = min((score, path) for score, path, one in zip(scores, paths, owners, strict=True) if one == owner)
            self._paths[owner].append(path)
            self._scores[owner].append(score)
            taken = self._facts(path)
            self._candidates[owner] = [other for other in self._candidates[owner] if not taken & self._facts(other)]

    def shared_out(self) -> list[list[ScoredPath]]:
        """The paths of each answer. The fall of the score without all of them is shared out among them."""
        found = []
        for owner, (paths, forward) in enumerate(zip(self._paths, self._scores, strict=True)):
            ends = [paths[first:] for first in range(1, len(paths))]
            backward = [forward[-1], *self._scores_without([owner] * len(ends), ends), forward[0]]
            found.append(scored_paths(paths, forward, backward, self._floor))
        return found

    def _scores_without(self, owners: Sequence[int], paths: Sequence[Sequence[Path]]) -> list[float]:
        """The score of each answer without the paths beside it [N]."""
        if not paths:
            return []
        reached, rows = self._reached(paths), np.arange(len(paths))
        is_reached = reached.find(rows, self._entities[list(owners)]) >= 0
        return [float(one) for one in np.where(is_reached, reached.scores_of(rows, self._entities[list(owners)]), self._floor)]

    def _reached(self, paths: Sequence[Sequence[Path]]) -> ReachedScores:
        hidden = [Triples.concatenate([self._hidden, Triples.of(sorted(set().union(*map(self._facts, some))))]) for some in paths]
        heads, relations = (np.full(len(paths), id_, dtype=np.int32) for id_ in (self._head, self._relation))
        return self._scorer.score_reached(heads, relations, hidden)

    def _facts(self, path: Path) -> set[tuple[int, int, int]]:
        """The facts of a path, as the data has them."""
        ids, found, source = self._scorer.relation_ids, set(), self._head
        for relation, entity in path:
            is_inverse = bool(ids.is_inverse(relation))
            found.add((entity, int(ids.inverse(relation)), source) if is_inverse else (source, relation, entity))
            source = entity
        return found


def _weighted_sum(parts: Sequence[tuple[ReachedScores, float]]) -> ReachedScores:
    """The weighted sum of the scores of the same queries; what only some of them reach has the others' score of the unreached."""
    first = parts[0][0]
    unreached = sum((weight * part.unreached for part, weight in parts), np.zeros(len(first)))
    keys = np.concatenate([part.rows << 32 | part.entities for part, _ in parts])
    above = np.concatenate([weight * (part.scores - part.unreached[part.rows]) for part, weight in parts])
    distinct, places = np.unique(keys, return_inverse=True)
    rows, entities = distinct >> 32, (distinct & 0xFFFFFFFF).astype(np.int32)
    scores = unreached[rows] + np.bincount(places, above, minlength=len(distinct))
    offsets = np.searchsorted(rows, np.arange(len(first) + 1))
    return ReachedScores(offsets, entities, scores.astype(np.float32), unreached.astype(np.float32))
