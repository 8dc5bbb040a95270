"""Filtered, tie-aware ranks of answers, and the numbers made of them (§4.3, Evaluation Protocol).

A question `(head, relation, ?)` has one answer to be found; other known answers are left out of the ranking. Entities with the
same score as the answer are ties: the optimistic rank puts the answer before them, the pessimistic one behind, and the realistic
rank, which is what we report, is the mean of the two. An answer that a method does not reach at all has rank infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import DivergedError

Floats = NDArray[np.float64]
ScoreAllTails = Callable[[Ids, Ids], NDArray[np.float32]]  # heads, relations [Q] → scores [Q, E]; -inf: not reached
ScoreAllTailsBy = Callable[[Ids, Ids], dict[str, NDArray[np.float32]]]  # the same by several scores
Directions = Literal["tails", "both"]
OnRanked = Callable[[int, int], None]  # questions done, questions in all
_on_ranked: ContextVar[OnRanked] = ContextVar("on_ranked", default=lambda *_: None)
MANY_ANSWERS = 1.5  # a relation is to-many if its questions have more answers than this on average (the paper's ξ)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of the answer of every question [N], counted from 1, with ties for and against it."""

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


@dataclass(frozen=True)
class Metrics:
    """Mean reciprocal rank and hits, as shares of 1; `mrr_pessimistic` and `mrr_optimistic` bound what ties can change."""

    num_queries: int
    mrr: float
    mrr_pessimistic: float
    mrr_optimistic: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    unreached: float

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, by the names that others use; None for what has no value without questions."""
        values = {name.replace("hits_at_", "hits@"): value for name, value in asdict(self).items()}
        return {name: None if value != value else value for name, value in values.items()}


def split_queries(dataset: Dataset, split: str, directions: Directions = "tails") -> Triples:
    """The questions of a split: for tails as in the paper, or for both ends as in most of the field.

    A question for the head of `(head, relation, tail)` is `(tail, relation⁻¹, ?)`.
    """
    asked = dataset.splits[split]
    if directions == "tails":
        return asked
    turned = Triples(asked.tails, dataset.relation_ids.inverse(asked.relations), asked.heads)
    return Triples.concatenate([asked, turned])


def filtered_answers(dataset: Dataset, split: str, *, complete: bool = False) -> KnownAnswers:
    """The answers that are known when a split is ranked.

    On test, and on dev with `complete` (the paper's appendix), all facts there are. On dev otherwise, test facts stay unknown, so
    that nothing chosen on dev has seen them.
    """
    parts = [dataset.facts, dataset.train, dataset.valid]
    if split == "test" or complete:
        parts += [dataset.test, dataset.held_back]
    return KnownAnswers(parts, len(dataset.entities), len(dataset.relations))


def rank_answers(
    score_all_tails: ScoreAllTails,
    queries: Triples,
    known: KnownAnswers,
    *,
    num_entities: int,
    most_bytes: int = 2**28,
) -> Ranks:
    """The filtered ranks of the answers, scoring every distinct (head, relation) once.

    Memory: about `most_bytes` for the scores and what is compared with them, however many questions and entities there are.
    """
    return rank_answers_by(
        lambda heads, relations: {"": score_all_tails(heads, relations)},
        queries,
        known,
        names=[""],
        num_entities=num_entities,
        most_bytes=most_bytes,
    )[""]


@contextmanager
def report_progress(on_ranked: OnRanked) -> Iterator[None]:
    """Report the progress of every ranking within the block, however deep it is; equal queries count once."""
    before = _on_ranked.set(on_ranked)
    try:
        yield
    finally:
        _on_ranked.reset(before)


def rank_answers_by(
    score_all_tails: ScoreAllTailsBy,
    queries: Triples,
    known: KnownAnswers,
    *,
    names: Sequence[str],
    num_entities: int,
    most_bytes: int = 2**28,
) -> dict[str, Ranks]:
    """The filtered ranks by several scores that are computed together, each under its name."""
    pairs = queries.heads.astype(np.int64) << 32 | queries.relations
    order = np.argsort(pairs, kind="stable")
    is_first = np.diff(pairs[order], prepend=-1) != 0
    pair_rows, row_of_query = order[is_first], np.cumsum(is_first) - 1
    ranks = {name: Ranks(queries, np.empty(len(queries)), np.empty(len(queries))) for name in names}
    pairs_at_once = max(most_bytes // (4 * (1 + len(names)) * num_entities), 1)
    for first in range(0, len(pair_rows), pairs_at_once):
        batch = queries[pair_rows[first : first + pairs_at_once]]
        start, end = np.searchsorted(row_of_query, [first, first + len(batch)])
        asked, rows = order[start:end], row_of_query[start:end] - first
        for name, scores in score_all_tails(batch.heads, batch.relations).items():
            before, level = _compare(scores, batch, rows, queries.tails[asked], known)
            ranks[name].optimistic[asked], ranks[name].pessimistic[asked] = before + 1, before + level + 1
        _on_ranked.get()(first + len(batch), len(pair_rows))
    return ranks


def _compare(
    scores: NDArray[np.float32], batch: Triples, rows: NDArray[np.int64], answers: Ids, known: KnownAnswers
) -> tuple[Floats, Floats]:
    """For each answer, how many entities that are not known answers score higher, and how many the same; inf if unreached."""
    own = scores[rows, answers]
    is_reached = own != -np.inf
    # The highest score is no number if any is none; no comparison below would tell, and it would count as low.
    if np.isnan(scores.max()) or not np.isfinite(own[is_reached]).all():
        raise DivergedError(
            "a score is not a finite number", remedy="The model has diverged: train it with a smaller learning rate."
        )
    candidates = scores.copy()
    offsets, left_out = known.answers(batch.heads, batch.relations)
    candidates[np.repeat(np.arange(len(batch)), np.diff(offsets)), left_out] = -np.inf
    candidates[rows, answers] = -np.inf
    before, level = np.full(len(rows), np.inf), np.zeros(len(rows))
    # Questions of one pair share their row of scores: compare row by row, which reads each from the cache.
    for number in np.flatnonzero(is_reached).tolist():
        before[number] = np.count_nonzero(candidates[rows[number]] > own[number])
        level[number] = np.count_nonzero(candidates[rows[number]] == own[number])
    return before, level


def metrics(ranks: Ranks) -> Metrics:
    """What the ranks come to."""
    if len(ranks) == 0:
        nothing = float("nan")
        return Metrics(0, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    realistic = ranks.realistic
    return Metrics(
        num_queries=len(ranks),
        mrr=float((1 / realistic).mean()),
        mrr_pessimistic=float((1 / ranks.pessimistic).mean()),
        mrr_optimistic=float((1 / ranks.optimistic).mean()),
        hits_at_1=float((realistic <= 1).mean()),
        hits_at_3=float((realistic <= 3).mean()),
        hits_at_10=float((realistic <= 10).mean()),
        unreached=float(np.isinf(realistic).mean()),
    )


def average_precision(ranks: Ranks) -> tuple[Ids, Floats]:
    """The relation and the average precision of every distinct question, over all its answers asked.

    The i-th best answer of a question stands at its filtered rank plus the i − 1 answers before it.
    """
    realistic = ranks.realistic
    pairs = ranks.queries.heads.astype(np.int64) << 32 | ranks.queries.relations
    order = np.lexsort((realistic, pairs))
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, counts) + 1
    precision = place / (realistic[order] + place - 1)
    sums = np.add.reduceat(precision, starts) if len(starts) else np.empty(0)
    return ranks.queries.relations[order[starts]], sums / counts


def mean_average_precision(ranks: Ranks) -> float:
    """MAP as on NELL-995: the mean over relations of the mean over their questions."""
    relations, values = average_precision(ranks)
    totals, counts = np.bincount(relations, weights=values), np.bincount(relations)
    return float((totals[counts > 0] / counts[counts > 0]).mean())


def strata(dataset: Dataset, queries: Triples) -> dict[str, NDArray[np.bool_]]:
    """Which questions are to-many or to-one (Table 4), seen or unseen (Table 5); bool [N] each.

    A relation is to-many if its questions have more than 1.5 answers on average in the graph; a question is seen if the graph
    knows an answer to it. Both count training facts only, which gives the shares the paper prints.
    """
    facts, ids = dataset.facts, dataset.relation_ids
    heads = np.concatenate([facts.heads, facts.tails])
    relations = np.concatenate([facts.relations, ids.inverse(facts.relations)])
    pairs = np.unique(heads.astype(np.int64) * ids.num_directed + relations)
    num_facts = np.bincount(relations, minlength=ids.num_directed)
    num_queries = np.bincount(pairs % ids.num_directed, minlength=ids.num_directed)
    is_to_many = num_facts > MANY_ANSWERS * num_queries
    to_many = is_to_many[queries.relations]
    seen = np.isin(queries.heads.astype(np.int64) * ids.num_directed + queries.relations, pairs)
    return {"to-many": to_many, "to-one": ~to_many, "seen": seen, "unseen": ~seen}


def bootstrap_interval(values: Floats, *, confidence: float = 0.95, samples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """A confidence interval of the mean, by drawing the questions anew with replacement."""
    generator = np.random.default_rng(seed)
    means = np.array([values[generator.integers(0, len(values), len(values))].mean() for _ in range(samples)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


@dataclass(frozen=True)
class Difference:
    """How much larger the mean of one method's values is than another's over the same questions, and how sure that is.

    `interval` holds 95 % of what other questions of the same kind would show. `p_value` is how often chance alone would show a
    difference this large, were there none.
    """

    first: float
    second: float
    interval: tuple[float, float]
    p_value: float

    @property
    def value(self) -> float:
        """The second mean less the first."""
        return self.second - self.first

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"first": self.first, "second": self.second, "difference": self.value}
        return own | {"interval_95": list(self.interval), "p_value": self.p_value}


def paired_bootstrap(
    first: dict[str, Floats], second: dict[str, Floats], *, samples: int = 2000, seed: int = 0
) -> dict[str, Difference]:
    """The differences between two methods, by the name of the value: both are asked the same questions, drawn anew together."""
    changes = np.stack([second[name] - first[name] for name in first])
    generator = np.random.default_rng(seed)
    num_queries = changes.shape[1]
    drawn = np.empty((len(changes), samples))
    for number in range(samples):
        drawn[:, number] = changes[:, generator.integers(0, num_queries, num_queries)].mean(axis=1)
    found = {}
    for name, means, observed in zip(first, drawn, changes.mean(axis=1), strict=True):
        low, high = np.quantile(means, [0.025, 0.975])
        # Moved to a mean of 0, the draws are those of a world without a difference; what was observed is one draw more.
        as_large = np.count_nonzero(np.abs(means - observed) >= abs(observed) - 1e-12)
        found[name] = Difference(
            first=float(first[name].mean()),
            second=float(second[name].mean()),
            interval=(float(low), float(high)),
            p_value=(as_large + 1) / (samples + 1),
        )
    return found
