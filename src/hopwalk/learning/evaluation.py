"""Evaluation of a split: tails as in the paper, both directions as in the field, strata and relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.learning.metrics import Metrics, bootstrap_interval, mean_average_precision, metrics, strata
from hopwalk.learning.ranking import (
    Directions,
    Ranks,
    ScoreAllTails,
    filtered_answers,
    rank_answers,
    split_queries,
)


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a split. `tails` is the paper's protocol, `both` the field's; strata and relations are parts of `tails`.

    If only tails were ranked, `heads` and `both` have no queries.
    """

    dataset: str
    split: str
    is_filter_complete: bool
    tails: Metrics
    heads: Metrics
    both: Metrics
    mrr_interval: tuple[float, float]
    mean_average_precision: float
    strata: dict[str, Metrics]
    relations: dict[str, Metrics]
    average_precision: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with the usual names of metrics."""
        return {
            "dataset": self.dataset,
            "split": self.split,
            "filter": "all known facts" if self.is_filter_complete else "all known facts but those of test",
            "ties": "realistic",
            "tails": self.tails.to_dict() | {"mrr_interval_95": list(self.mrr_interval), "map": self.mean_average_precision},
            "heads": self.heads.to_dict(),
            "both": self.both.to_dict(),
            "strata": {name: found.to_dict() for name, found in self.strata.items()},
            "relations": {
                name: found.to_dict() | {"map": self.average_precision[name]} for name, found in self.relations.items()
            },
        }


def evaluate_split(
    score_all_tails: ScoreAllTails,
    dataset: Dataset,
    split: str = "test",
    *,
    complete_filter: bool = False,
    directions: Directions = "both",
    rank: Callable[[Triples], Ranks] | None = None,
) -> Evaluation:
    """Rank the answers of a split; `complete_filter` also filters test answers when dev is ranked (the paper's appendix).

    `rank` gives the ranks of queries that are made elsewhere, with the same filter.
    """
    if not len(dataset.splits[split]):
        raise DataError(
            f"{dataset.name} has no {split} queries",
            remedy="Split the facts with `hopwalk data split`, and train on the folder it writes.",
        )
    queries = split_queries(dataset, split, directions)
    if rank is not None:
        ranks = rank(queries)
    else:
        known = filtered_answers(dataset, split, complete=complete_filter)
        ranks = rank_answers(score_all_tails, queries, known, num_entities=len(dataset.entities))
    return _evaluation(ranks, dataset, split, complete_filter or split == "test")


def _evaluation(ranks: Ranks, dataset: Dataset, split: str, is_filter_complete: bool) -> Evaluation:
    num_tails = len(dataset.splits[split])
    tails, heads = ranks[:num_tails], ranks[num_tails:]
    by_relation = _by_relation(tails, dataset)
    return Evaluation(
        dataset=dataset.name,
        split=split,
        is_filter_complete=is_filter_complete,
        tails=metrics(tails),
        heads=metrics(heads),
        both=metrics(ranks if len(heads) else heads),
        mrr_interval=bootstrap_interval(1 / tails.realistic),
        mean_average_precision=mean_average_precision(tails),
        strata={name: metrics(tails[rows]) for name, rows in strata(dataset, tails.queries).items()},
        relations={name: metrics(part) for name, part in by_relation.items()},
        average_precision={name: mean_average_precision(part) for name, part in by_relation.items()},
    )


def _by_relation(ranks: Ranks, dataset: Dataset) -> dict[str, Ranks]:
    order = np.argsort(ranks.queries.relations, kind="stable")
    relations, starts = np.unique(ranks.queries.relations[order], return_index=True)
    return {
        dataset.relations[relation]: ranks[rows]
        for relation, rows in zip(relations.tolist(), np.split(order, starts[1:]), strict=True)
    }
