"""Filtered, tie-aware ranks of answers (§4.3, Evaluation Protocol).

A query `(head, relation, ?)` has one answer to find; its other known answers are removed from the ranking. Entities with the same
score as the answer are ties: the optimistic rank puts the answer before them, the pessimistic rank behind them. Metrics use the
realistic rank, the mean of the two. An answer that a method does not reach has rank infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DivergedError
from hopwalk.learning.reached import ReachedScores
from hopwalk.utils.memory import kept_memory
from hopwalk.utils.products import fast_products

Floats = NDArray[np.float64]
AllScores = NDArray[np.float32] | ReachedScores  # of Q queries: a table [Q, E] where -inf is not reached, or what walks reach
ScoreAllTails = Callable[[Ids, Ids], AllScores]  # heads, relations [Q] → scores
RaggedAnswers = tuple[NDArray[np.int64], Ids]  # of `KnownAnswers.answers`: offsets [Q+1], tails
REACHED_AT_ONCE = 256  # queries scored together if the scores are those of what is reached
Directions = Literal["tails", "both"]
OnRanked = Callable[[int, int], None]  # queries done, queries in total
_on_ranked: ContextVar[OnRanked] = ContextVar("on_ranked", default=lambda *_: None)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of the answer of every query, from 1, with ties in its favour and against it [N]."""

    queries: Triples
    optimistic: Floats
    pessimistic: Floats

    def __len__(self) -> int:
        return len(self.optimistic)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Ranks:
        return Ranks(self.queries[rows], self.optimistic[rows], self.pessimistic[rows])

    @property
    def realistic(self) -> Floats:
        """The mean of the optimistic and the pessimistic rank."""
        return (self.optimistic + self.pessimistic) / 2


def split_queries(dataset: Dataset, split: str, directions: Directions = "tails") -> Triples:
    """The queries of a split: for tails as in the paper, or in both directions as in most of the field.

    The query for the head of `(head, relation, tail)` is `(tail, relation⁻¹, ?)`.
    """
    queries = dataset.splits[split]
    if directions == "tails":
        return queries
    head_queries = Triples(queries.tails, dataset.relation_ids.inverse(queries.relations), queries.heads)
    return Triples.concatenate([queries, head_queries])


def filtered_answers(dataset: Dataset, split: str, *, complete: bool = False) -> KnownAnswers:
    """The known answers that are filtered when a split is ranked.

    On test, and on dev with `complete` (the paper's appendix), those of all facts. On dev otherwise, test facts are not used, so
    that nothing selected on dev depends on them.
    """
    parts = [dataset.facts, dataset.train, dataset.valid]
    if split == "test" or complete:
        parts += [dataset.test, dataset.held_back]
    return KnownAnswers(parts, len(dataset.entities), len(dataset.relations))


@fast_products()
@kept_memory()
def rank_answers(
    score_all_tails: ScoreAllTails,
    queries: Triples,
    known: KnownAnswers,
    *,
    num_entities: int,
    most_bytes: int = 2**28,
) -> Ranks:
    """The filtered ranks of the answers, scoring every distinct (head, relation) once.

    Memory: about `most_bytes` for scores and comparisons, whatever the number of queries and entities.
    """
    pairs = queries.heads.astype(np.int64) << 32 | queries.relations
    order = np.argsort(pairs, kind="stable")
    is_first = np.diff(pairs[order], prepend=-1) != 0
    pair_rows, row_of_query = order[is_first], np.cumsum(is_first) - 1
    ranks = Ranks(queries, np.empty(len(queries)), np.empty(len(queries)))
    pairs_at_once, first = max(most_bytes // (8 * num_entities), 1), 0
    while first < len(pair_rows):
        batch = queries[pair_rows[first : first + pairs_at_once]]
        start, end = np.searchsorted(row_of_query, [first, first + len(batch)])
        query_rows, rows = order[start:end], row_of_query[start:end] - first
        scores = score_all_tails(batch.heads, batch.relations)
        higher, equal = _compare(scores, batch, rows, queries.tails[query_rows], known, num_entities)
        ranks.optimistic[query_rows], ranks.pessimistic[query_rows] = higher + 1, higher + equal + 1
        first += len(batch)
        pairs_at_once = more_at_once(pairs_at_once, scores)
        tell_progress(first, len(pair_rows))
    return ranks


@contextmanager
def report_progress(on_ranked: OnRanked) -> Iterator[None]:
    """Report the progress of every ranking within the block, however deep it is; equal queries count once."""
    before = _on_ranked.set(on_ranked)
    try:
        yield
    finally:
        _on_ranked.reset(before)


def tell_progress(done: int, total: int) -> None:
    """Tell whoever listens by `report_progress` how many queries are done."""
    _on_ranked.get()(done, total)


def more_at_once(num_queries: int, found: AllScores) -> int:
    """How many queries to score next, after so many: more of them if their scores have turned out to be no tables."""
    return max(num_queries, REACHED_AT_ONCE) if isinstance(found, ReachedScores) else num_queries


def _compare(
    scores: AllScores, batch: Triples, rows: NDArray[np.int64], answers: Ids, known: KnownAnswers, num_entities: int
) -> tuple[Floats, Floats]:
    """The number of entities with a higher and an equal score for each answer, known answers filtered [N]; inf: unreached."""
    if isinstance(scores, ReachedScores):
        return _compare_reached(scores, batch, rows, answers, known, num_entities)
    answer_scores = scores[rows, answers]
    is_reached = answer_scores != -np.inf
    _require_finite(scores, answer_scores[is_reached])
    candidates = scores.copy()
    offsets, filtered = known.answers(batch.heads, batch.relations)
    candidates[np.repeat(np.arange(len(batch)), np.diff(offsets)), filtered] = -np.inf
    candidates[rows, answers] = -np.inf
    higher, equal = np.full(len(rows), np.inf), np.zeros(len(rows))
    # Queries with the same (head, relation) share a row of scores: row by row, it is read from the cache.
    for number in np.flatnonzero(is_reached).tolist():
        higher[number] = np.count_nonzero(candidates[rows[number]] > answer_scores[number])
        equal[number] = np.count_nonzero(candidates[rows[number]] == answer_scores[number])
    return higher, equal


def _compare_reached(
    reached: ReachedScores, batch: Triples, rows: NDArray[np.int64], answers: Ids, known: KnownAnswers, num_entities: int
) -> tuple[Floats, Floats]:
    """The same from the scores of what is reached: all other entities are equal, and counted together."""
    answer_scores = reached.scores_of(rows, answers)
    _require_finite(reached.scores, answer_scores)
    filtered = known.answers(batch.heads, batch.relations)
    is_candidate, num_others = candidates_among(reached, filtered, rows, answers, num_entities)
    candidates = np.where(is_candidate, reached.scores, -np.inf)
    others = reached.unreached[rows]
    higher, equal = num_others[rows] * (others > answer_scores), num_others[rows] * (others == answer_scores)
    for number, (row, score) in enumerate(zip(rows.tolist(), answer_scores, strict=True)):
        own = candidates[reached.offsets[row] : reached.offsets[row + 1]]
        higher[number] += np.count_nonzero(own > score)
        equal[number] += np.count_nonzero(own == score)
    return higher.astype(np.float64), equal.astype(np.float64)


def candidates_among(
    reached: ReachedScores,
    known: RaggedAnswers,
    rows: NDArray[np.int64],
    answers: Ids,
    num_entities: int,
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The entities that are neither known answers of their query nor among `answers`, which are those of the queries `rows`.

    A mask of those that are reached, and the number of those that are not [Q]. `known` is what `KnownAnswers.answers` gives.
    """
    offsets, tails = known
    removed_rows = np.concatenate([np.repeat(np.arange(len(reached)), np.diff(offsets)), rows])
    removed = np.unique(removed_rows << 32 | np.concatenate([tails, answers]))
    places = reached.find(removed >> 32, removed & (2**32 - 1))
    is_candidate = np.ones(len(reached.entities), dtype=np.bool_)
    is_candidate[places[places >= 0]] = False
    num_removed = np.bincount(removed[places < 0] >> 32, minlength=len(reached))
    return is_candidate, num_entities - reached.num_reached - num_removed


def _require_finite(scores: NDArray[np.float32], answer_scores: NDArray[np.float32]) -> None:
    # The maximum is NaN if any score is; comparisons would count a NaN as low.
    if (scores.size and np.isnan(scores.max())) or not np.isfinite(answer_scores).all():
        raise DivergedError("the model diverged: a score is not finite", remedy="Train it with a smaller learning rate.")


def sample_queries(queries: Triples, most: int) -> Triples:
    """At most `most` of the queries, the same ones every time; 0: all."""
    if not most or len(queries) <= most:
        return queries
    return queries[np.sort(np.random.default_rng(0).permutation(len(queries))[:most])]
