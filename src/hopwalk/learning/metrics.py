"""Numbers made of ranks: MRR, hits, MAP, the strata of the paper's Tables 4 and 5, and bootstrap intervals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.ranking import Floats, Ranks, ScoreAllTails, rank_answers

MANY_ANSWERS = 1.5  # a relation is to-many if its queries have more answers than this on average (the paper's ξ)


@dataclass(frozen=True)
class Metrics:
    """Mean reciprocal rank and hits, from 0 to 1; `mrr_pessimistic` and `mrr_optimistic` bound the effect of ties."""

    num_queries: int
    mrr: float
    mrr_pessimistic: float
    mrr_optimistic: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    unreached: float

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, with the usual names of metrics; None for values that are undefined without queries."""
        values = {name.replace("hits_at_", "hits@"): value for name, value in asdict(self).items()}
        return {name: None if value != value else value for name, value in values.items()}


def metrics(ranks: Ranks) -> Metrics:
    """The metrics of ranks."""
    if len(ranks) == 0:
        undefined = float("nan")
        return Metrics(0, *[undefined] * 7)
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


def dev_metrics(score_all_tails: ScoreAllTails, queries: Triples, known: KnownAnswers, num_entities: int) -> dict[str, Any]:
    """The metrics of dev queries as a record of the history has them, `valid_mrr` among them; empty without queries."""
    if not len(queries):
        return {}
    return as_dev_metrics(rank_answers(score_all_tails, queries, known, num_entities=num_entities))


def as_dev_metrics(ranks: Ranks) -> dict[str, Any]:
    """The metrics of ranks of dev queries, as a record of the history has them."""
    return {f"valid_{name}": value for name, value in metrics(ranks).to_dict().items()}


def average_precision(ranks: Ranks) -> tuple[Ids, Floats]:
    """The relation and the average precision of every distinct query, over all its answers in the split.

    The i-th best answer of a query has the place of its filtered rank plus the i − 1 answers before it.
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
    """MAP as on NELL-995: the mean over relations of the mean over their queries."""
    relations, values = average_precision(ranks)
    totals, counts = np.bincount(relations, weights=values), np.bincount(relations)
    return float((totals[counts > 0] / counts[counts > 0]).mean())


def strata(dataset: Dataset, queries: Triples) -> dict[str, NDArray[np.bool_]]:
    """Masks of the queries that are to-many or to-one (Table 4), seen or unseen (Table 5), bool [N] each.

    A relation is to-many if its queries have more than 1.5 answers on average in the graph; a query is seen if the graph has an
    answer to it. Both count training facts only, which gives the shares in the paper.
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
    """A bootstrap confidence interval of the mean: queries are resampled with replacement."""
    generator = np.random.default_rng(seed)
    means = np.array([values[generator.integers(0, len(values), len(values))].mean() for _ in range(samples)])
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


@dataclass(frozen=True)
class Difference:
    """The difference between the means of two methods over the same queries, and its significance.

    `interval` is the 95 % bootstrap interval of the difference. `p_value` is the probability of a difference this large if the
    methods were equal.
    """

    first: float
    second: float
    interval: tuple[float, float]
    p_value: float

    @property
    def value(self) -> float:
        """The second mean minus the first."""
        return self.second - self.first

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"first": self.first, "second": self.second, "difference": self.value}
        return own | {"interval_95": list(self.interval), "p_value": self.p_value}


def paired_bootstrap(
    first: dict[str, Floats], second: dict[str, Floats], *, samples: int = 2000, seed: int = 0
) -> dict[str, Difference]:
    """The differences between two methods by the name of the value; the queries of both are resampled together."""
    changes = np.stack([second[name] - first[name] for name in first])
    generator = np.random.default_rng(seed)
    num_queries = changes.shape[1]
    drawn = np.empty((len(changes), samples))
    for number in range(samples):
        drawn[:, number] = changes[:, generator.integers(0, num_queries, num_queries)].mean(axis=1)
    found = {}
    for name, means, observed in zip(first, drawn, changes.mean(axis=1), strict=True):
        low, high = np.quantile(means, [0.025, 0.975])
        # Shifted to mean 0, the samples are those of methods without a difference; the observation counts as one more sample.
        as_large = np.count_nonzero(np.abs(means - observed) >= abs(observed) - 1e-12)
        found[name] = Difference(
            first=float(first[name].mean()),
            second=float(second[name].mean()),
            interval=(float(low), float(high)),
            p_value=(as_large + 1) / (samples + 1),
        )
    return found
