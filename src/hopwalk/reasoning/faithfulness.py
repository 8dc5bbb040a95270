"""Faithfulness of explanations: take the facts of the shown paths away, and see whether the answer falls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DataError
from hopwalk.learning.ranking import filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.reasoning.models import AnswerModel, PathIds
from hopwalk.reasoning.neighbourhood import Neighbourhood

Floats = NDArray[np.float64]
PATHS, NEARBY, BETWEEN, ONLY = "paths", "nearby", "between", "only"
NAMES = {
    PATHS: "without the shown paths",
    NEARBY: "without random facts near the head",
    BETWEEN: "without random facts between head and answer",
    ONLY: "with the shown paths only",
}
SCORES_AT_ONCE = 2**24  # bounds the memory


@dataclass(frozen=True)
class Effect:
    """A change of the graph, and what it does to correct answers that were ranked first.

    `drop` is the mean share of the score that is lost, `deciles` are those of its distribution, from the smallest to the largest
    drop [11]. `log_odds` is the median fall of log(p / (1 − p)), with p the softmax over all entities; None if it is infinite.
    """

    drop: float
    deciles: tuple[float, ...]
    log_odds: float | None
    mrr: float
    hits_at_1: float


@dataclass(frozen=True)
class Faithfulness:
    """How far correct answers fall without the paths that are shown for them, against random facts and with nothing but them.

    `beats_nearby` is the share of the answers whose score falls further without the paths than, in the mean over draws, without
    as many random facts near the head; `beats_between` the same for random facts on walks between head and answer.
    """

    dataset: str
    split: str
    num_queries: int
    num_answers: int  # ranked first, true, and shown with paths
    num_without_paths: int  # ranked first and true, but no path is shown
    num_paths: int
    num_draws: int
    seed: int
    facts_per_answer: float
    beats_nearby: float
    beats_between: float
    effects: dict[str, Effect]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The result in sentences."""
        shown = f"{self.num_answers:,} of {self.num_queries:,} answers are right, ranked first, and shown with paths"
        paths = self.effects[PATHS]
        return [
            f"{shown}; {self.facts_per_answer:.1f} facts each.",
            f"Without these facts an answer loses {100 * paths.drop:.0f} % of its score in the mean, "
            f"and {100 * (1 - paths.hits_at_1):.0f} % of the answers are no longer first.",
            f"For {100 * self.beats_nearby:.1f} % of them that is more than without as many random facts near the head, "
            f"for {100 * self.beats_between:.1f} % more than without random facts between head and answer.",
            f"With nothing but the shown facts in the graph, {100 * self.effects[ONLY].hits_at_1:.0f} % are still first.",
        ]


@dataclass(frozen=True, eq=False)
class _Case:
    """A correct answer, the facts of its paths, and random facts."""

    head: int
    relation: int
    answer: int
    floor: float  # the score that stands for no walk at all
    shown: Triples
    nearby: list[Triples]
    between: list[Triples]


def measure_faithfulness(
    model: AnswerModel, split: str = "test", *, num_queries: int = 500, num_paths: int = 3, num_draws: int = 5, seed: int = 0
) -> Faithfulness:
    """Take the shown paths of correct top answers away, and random facts in their place.

    Queries are a sample of the tail queries of the split, `num_queries` of them, 0: all. Answers are those that are ranked first,
    alone, with other known answers filtered.
    """
    dataset, known = model.dataset, filtered_answers(model.dataset, split)
    queries = sample_queries(split_queries(dataset, split), num_queries)
    if not len(queries):
        raise DataError(f"{dataset.name} has no {split} queries", remedy="Split its facts.")
    floors = model.floors(queries.heads, queries.relations)
    ranks = rank_answers(model.score_all_tails, queries, known, num_entities=len(dataset.entities))
    is_correct = ranks.realistic == 1
    correct = queries[is_correct]
    cases = [*_cases(model, correct, floors[is_correct], num_paths, num_draws, seed)]
    if not cases:
        raise DataError(
            f"none of {len(queries):,} {split} queries has a right answer at the top that is shown with paths",
            remedy="Train the model for longer, or use more queries.",
        )
    falls = _falls(model, cases, known)
    return Faithfulness(
        dataset=dataset.name,
        split=split,
        num_queries=len(queries),
        num_answers=len(cases),
        num_without_paths=len(correct) - len(cases),
        num_paths=num_paths,
        num_draws=num_draws,
        seed=seed,
        facts_per_answer=float(np.mean([len(case.shown) for case in cases])),
        beats_nearby=float((falls[PATHS].drops.mean(axis=1) > falls[NEARBY].drops.mean(axis=1)).mean()),
        beats_between=float((falls[PATHS].drops.mean(axis=1) > falls[BETWEEN].drops.mean(axis=1)).mean()),
        effects={name: found.effect() for name, found in falls.items()},
    )


def _cases(
    model: AnswerModel, correct: Triples, floors: NDArray[np.float32], num_paths: int, num_draws: int, seed: int
) -> Iterator[_Case]:
    """The answers that have paths."""
    near = Neighbourhood(model.dataset.facts, len(model.dataset.entities))
    num_relations = len(model.dataset.relations)
    for first in range(0, len(correct), model.queries_at_once):
        part = correct[first : first + model.queries_at_once]
        ranking = model.rank(list(zip(part.heads.tolist(), part.relations.tolist(), strict=True)), only_new=True)
        found = ranking.paths([[answer] for answer in part.tails.tolist()], num_paths)
        for row, ((head, relation, answer), (paths,)) in enumerate(zip(part.array().tolist(), found, strict=True)):
            shown = facts_of_paths(head, paths, num_relations)
            if len(shown):
                generator = np.random.default_rng([seed, first + row])
                draws = near.draw(head, answer, shown, model.max_hops, num_draws, generator)
                yield _Case(head, relation, answer, float(floors[first + row]), shown, *draws)


def facts_of_paths(head: int, paths: Sequence[PathIds], num_relations: int) -> Triples:
    """The distinct facts along paths, in the direction of the data."""
    facts: dict[tuple[int, int, int], None] = {}
    for steps, _ in paths:
        source = head
        for relation, entity in steps:
            fact = (source, relation, entity) if relation < num_relations else (entity, relation - num_relations, source)
            facts[fact] = None
            source = entity
    return Triples.of(facts)


@dataclass(frozen=True, eq=False)
class _Falls:
    """Of N answers and D draws: the share of the score that is lost, the fall of the log-odds, and the rank afterwards [N, D]."""

    drops: Floats
    log_odds: Floats
    ranks: Floats

    def effect(self) -> Effect:
        """The figures over all answers; draws are averaged."""
        drops, median = self.drops.mean(axis=1), float(np.median(self.log_odds))
        return Effect(
            drop=float(drops.mean()),
            deciles=tuple(np.quantile(drops, np.linspace(0, 1, 11)).tolist()),
            log_odds=median if np.isfinite(median) else None,
            mrr=float((1 / self.ranks).mean()),
            hits_at_1=float((self.ranks == 1).mean()),
        )


def _falls(model: AnswerModel, cases: Sequence[_Case], known: KnownAnswers) -> dict[str, _Falls]:
    """The effects of all changes."""
    nothing, num_draws = [Triples.of([])] * len(cases), len(cases[0].nearby)
    before = _outcomes(model.scores_without, model, cases, known, nothing)[:, None]
    floors = np.array([[case.floor] for case in cases])
    shown = [case.shown for case in cases]
    found = {PATHS: _outcomes(model.scores_without, model, cases, known, shown)[:, None]}
    for name, draws in ((NEARBY, [case.nearby for case in cases]), (BETWEEN, [case.between for case in cases])):
        removed = [facts for drawn in draws for facts in drawn]
        repeated = [case for case in cases for _ in range(num_draws)]
        found[name] = _outcomes(model.scores_without, model, repeated, known, removed).reshape(len(cases), num_draws, 3)
    found[ONLY] = _outcomes(model.scores_with_only, model, cases, known, shown)[:, None]
    full = strength(before[:, :, 0], floors)
    return {
        name: _Falls(1 - strength(after[:, :, 0], floors) / full, before[:, :, 1] - after[:, :, 1], after[:, :, 2])
        for name, after in found.items()
    }


def strength(scores: Floats, floors: Floats) -> Floats:
    """Scores as numbers that are 0 for an entity out of reach: a probability if that has the score -inf, else what is above."""
    above: Floats = np.maximum(scores - np.where(np.isinf(floors), 0.0, floors), 0.0)
    return np.where(np.isinf(floors), np.exp(scores), above)


def _outcomes(
    scores_of: Callable[[Ids, Ids, Sequence[Triples]], NDArray[np.float32]],
    model: AnswerModel,
    cases: Sequence[_Case],
    known: KnownAnswers,
    facts: Sequence[Triples],
) -> Floats:
    """Score, log-odds and rank of each answer, given the facts to take away or to keep [N, 3]."""
    at_once = max(min(model.queries_at_once, SCORES_AT_ONCE // len(model.dataset.entities)), 1)
    found = []
    for first in range(0, len(cases), at_once):
        part = cases[first : first + at_once]
        heads, relations = (np.array([getattr(case, name) for case in part], dtype=np.int32) for name in ("head", "relation"))
        scores, (offsets, filtered) = scores_of(heads, relations, facts[first : first + at_once]), known.answers(heads, relations)
        for row, case in enumerate(part):
            own = np.where(scores[row] == -np.inf, np.float32(case.floor), scores[row])
            found.append(_outcome(own, case.answer, filtered[offsets[row] : offsets[row + 1]]))
    return np.array(found)


def _outcome(scores: NDArray[np.float32], answer: int, filtered: Ids) -> tuple[float, float, float]:
    """Score, log-odds and filtered rank of an answer. Ties get the mean rank, an answer that no walk reaches rank infinity."""
    own, others = float(scores[answer]), scores.astype(np.float64)
    others[filtered] = others[answer] = -np.inf
    if own == -np.inf:
        return own, -np.inf, np.inf
    largest = float(others.max())
    rivals = largest + float(np.log(np.exp(others - largest).sum())) if largest > -np.inf else -np.inf
    rank = 1 + np.count_nonzero(others > own) + np.count_nonzero(others == own) / 2
    return own, own - rivals, float(rank)
