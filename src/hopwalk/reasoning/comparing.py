"""Comparison of two runs on the same queries: the difference, its significance, and the queries and paths behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.learning.metrics import Difference, paired_bootstrap
from hopwalk.learning.ranking import Floats, filtered_answers, rank_answers, split_queries
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import PathLabels
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.values import ReasoningPath

SIGNIFICANT = 0.05  # p-values below this count as a difference


@dataclass(frozen=True)
class RelationChange:
    """The queries of a relation: their number, both MRRs, and their share of the difference over all queries."""

    relation: str
    num_queries: int
    first: float
    second: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"relation": self.relation, "num_queries": self.num_queries, "first": self.first, "second": self.second}
        return own | {"share_of_difference": self.share}


@dataclass(frozen=True)
class Example:
    """A query that the runs rank differently: the rank of its answer in both, None if not reached, and its best paths."""

    head: str
    relation: str
    tail: str
    first_rank: float | None
    second_rank: float | None
    first_path: ReasoningPath | None
    second_path: ReasoningPath | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"head": self.head, "relation": self.relation, "tail": self.tail}
        ranks = {"first_rank": self.first_rank, "second_rank": self.second_rank}
        paths = {"first_path": self.first_path, "second_path": self.second_path}
        return own | ranks | {name: path.to_dict() if path else None for name, path in paths.items()}


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. Differences are the second run less the first; `won` are queries that the second ranks higher."""

    runs: tuple[str, str]
    dataset: str
    split: str
    num_queries: int
    differences: dict[str, Difference]
    num_won: int
    num_lost: int
    relations: tuple[RelationChange, ...]
    won: tuple[Example, ...]
    lost: tuple[Example, ...]

    @property
    def verdict(self) -> str:
        """Which run is better, in a sentence."""
        mrr = self.differences["mrr"]
        sign = -1 if mrr.value < 0 and mrr.p_value < SIGNIFICANT else 1
        low, high = sorted(100 * sign * bound for bound in mrr.interval)
        interval = f"(95 % interval {low:.2f} to {high:.2f}, p {p_text(mrr.p_value)})"
        if mrr.p_value >= SIGNIFICANT or mrr.value == 0:
            return f"No clear difference: {100 * mrr.value:+.2f} points of MRR {interval}; it may be chance."
        better = "second" if mrr.value > 0 else "first"
        return f"The {better} run is better by {100 * abs(mrr.value):.2f} points of MRR {interval}."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "runs": list(self.runs),
            "dataset": self.dataset,
            "split": self.split,
            "num_queries": self.num_queries,
            "differences": {name: found.to_dict() for name, found in self.differences.items()},
            "verdict": self.verdict,
            "num_won": self.num_won,
            "num_lost": self.num_lost,
            "relations": [change.to_dict() for change in self.relations],
            "won": [example.to_dict() for example in self.won],
            "lost": [example.to_dict() for example in self.lost],
        }


def p_text(p_value: float) -> str:
    """A p-value as text; the bootstrap has too few samples to tell values below 0.001 apart.

    >>> p_text(0.0314), p_text(0.0005)
    ('= 0.031', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"


def compare(first: str | Path, second: str | Path, split: str = "test", *, num_examples: int = 5) -> Comparison:
    """Rank the tails of a split by two runs of the same data, with a paired bootstrap over the queries."""
    if split not in ("valid", "test"):
        raise SettingsError(f"there is no split {split!r} to compare on", remedy="Splits are valid and test.")
    sides = [_Side(run, split) for run in (first, second)]
    dataset = sides[0].run.dataset
    if sides[1].run.about.get("dataset", {}).get("fingerprint") != dataset.fingerprint:
        raise RunError(
            f"the runs are of different data: {dataset.name} and {sides[1].run.about.get('dataset', {}).get('name')} "
            "differ in labels or facts",
            path=second,
            remedy="Compare runs that were trained on the same data set.",
        )
    if not len(dataset.splits[split]):
        raise DataError(f"{dataset.name} has no {split} queries", remedy="Compare on the other split.")
    ranks = [side.ranks(dataset, split) for side in sides]
    values = [{"mrr": 1 / found, **{f"hits@{k}": (found <= k).astype(float) for k in (1, 10)}} for found in ranks]
    change = values[1]["mrr"] - values[0]["mrr"]
    return Comparison(
        runs=(str(first), str(second)),
        dataset=dataset.name,
        split=split,
        num_queries=len(change),
        differences=paired_bootstrap(values[0], values[1]),
        num_won=int((change > 0).sum()),
        num_lost=int((change < 0).sum()),
        relations=_relations(dataset, split, values[0]["mrr"], values[1]["mrr"]),
        won=tuple(_example(dataset, split, sides, ranks, row) for row in _largest(dataset, split, change, num_examples)),
        lost=tuple(_example(dataset, split, sides, ranks, row) for row in _largest(dataset, split, -change, num_examples)),
    )


class _Side:
    """One of the two runs, loaded once."""

    def __init__(self, path: str | Path, split: str) -> None:
        self.run = Run.open(path)
        self.run.require_dev_unseen(split, remedy="Compare on test.")
        self.model = load_model(self.run)

    def ranks(self, dataset: Dataset, split: str) -> Floats:
        """The realistic rank of the answer of every query; infinity where it is not reached."""
        queries, known = split_queries(dataset, split), filtered_answers(dataset, split)
        return rank_answers(self.model.score_all_tails, queries, known, num_entities=len(dataset.entities)).realistic

    def best_path(self, head: int, relation: int, tail: int) -> ReasoningPath | None:
        """The path that carries most of the answer's score; None if there is none."""
        found = self.model.rank([(head, relation)], only_new=True).paths([[tail]], 1)[0][0]
        return next(iter(PathLabels(self.run.dataset).paths(head, found)), None)


def _relations(dataset: Dataset, split: str, first: Floats, second: Floats) -> tuple[RelationChange, ...]:
    """The change of every relation, largest share of the difference first."""
    relations = dataset.splits[split].relations
    found = []
    for relation in np.unique(relations).tolist():
        rows = relations == relation
        share = float((second - first)[rows].sum() / len(relations))
        means = float(first[rows].mean()), float(second[rows].mean())
        found.append(RelationChange(dataset.relations.name(relation), int(rows.sum()), *means, share))
    return tuple(sorted(found, key=lambda change: -abs(change.share)))


def _largest(dataset: Dataset, split: str, gains: Floats, most: int) -> list[int]:
    """The queries with the largest gains: one of each (head, relation), and at most half of them of one relation."""
    facts = dataset.splits[split]
    chosen: list[int] = []
    seen: set[tuple[int, int]] = set()
    of_relation: dict[int, int] = {}
    for row in np.argsort(-gains, kind="stable").tolist():
        if gains[row] <= 0 or len(chosen) == most:
            break
        pair = int(facts.heads[row]), int(facts.relations[row])
        if pair not in seen and of_relation.get(pair[1], 0) < max(most // 2, 1):
            chosen.append(row)
            seen.add(pair)
            of_relation[pair[1]] = of_relation.get(pair[1], 0) + 1
    return chosen


def _example(dataset: Dataset, split: str, sides: Sequence[_Side], ranks: Sequence[Floats], row: int) -> Example:
    facts = dataset.splits[split]
    ids = int(facts.heads[row]), int(facts.relations[row]), int(facts.tails[row])
    places = [None if np.isinf(found[row]) else float(found[row]) for found in ranks]
    paths = [side.best_path(*ids) for side in sides]
    names = dataset.entities.name(ids[0]), dataset.relations.name(ids[1]), dataset.entities.name(ids[2])
    return Example(*names, places[0], places[1], paths[0], paths[1])
