"""Ensembles of scorers: the weighted mean of their log-odds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import Ranks, filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.learning.scorer import Scorer

MOST_QUERIES = 1000  # of dev, to choose the weights of two members on
QUERIES_AT_ONCE = 64
FIRST_WEIGHTS = tuple(tenth / 10 for tenth in range(11))  # of the first of two members, to choose from


class Ensemble(Scorer):
    """`score = Σ over members of weight · logit P(member: tail is an answer)`; the weights add up to 1.

    Unlike scores, log-odds are comparable between models, since every member is calibrated on the same dev queries.
    """

    def __init__(self, members: Sequence[Scorer], weights: Sequence[float] | None = None) -> None:
        super().__init__(members[0].num_entities, members[0].relation_ids.num_relations)
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights or [1 / len(members)] * len(members))

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The mean log-odds of every entity as the tail of every query [Q, E]."""
        total = torch.zeros(len(heads), self.num_entities)
        for member, weight in self.weighted():
            total += weight * member.log_odds_of_all_tails(heads, relations)
        return total

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The mean log-odds of every triple [N]."""
        total = torch.zeros(len(heads))
        for member, weight in self.weighted():
            total += weight * member.log_odds_of_triples(heads, relations, tails)
        return total

    def weighted(self) -> list[tuple[Scorer, float]]:
        """The members that have a part in the score, with their weights."""
        pairs = zip(self.members, self.weights, strict=True)
        return [(member, weight) for member, weight in pairs if isinstance(member, Scorer) and weight]


def choose_weights(members: Sequence[Scorer], dataset: Dataset) -> tuple[float, ...]:
    """The weights of two members with the best dev MRR, of equals the most even ones. Three or more members weigh the same.

    A model made of walks and an embedding model complement each other: the second tells entities apart that no path reaches.
    """
    queries = sample_queries(split_queries(dataset, "valid"), MOST_QUERIES)
    if len(members) != 2 or not len(queries):
        return (1 / len(members),) * len(members)
    ranks: dict[float, list[Ranks]] = {weight: [] for weight in FIRST_WEIGHTS}
    known = filtered_answers(dataset, "valid")
    queries = queries[np.lexsort((queries.relations, queries.heads))]  # equal queries are scored once
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        part = queries[first : first + QUERIES_AT_ONCE]
        pairs = np.unique(np.stack([part.heads, part.relations], axis=1), axis=0)
        one, other = (_log_odds(member, pairs[:, 0], pairs[:, 1]) for member in members)
        for weight in FIRST_WEIGHTS:
            score = partial(_look_up, pairs, weight * one + (1 - weight) * other)
            ranks[weight].append(rank_answers(score, part, known, num_entities=len(dataset.entities)))
    mrr = {weight: sum(len(part) * metrics(part).mrr for part in parts) / len(queries) for weight, parts in ranks.items()}
    best = max(FIRST_WEIGHTS, key=lambda weight: (round(mrr[weight], 6), -abs(weight - 0.5)))
    return best, round(1 - best, 6)


def _look_up(pairs: Ids, scores: NDArray[np.float32], heads: Ids, relations: Ids) -> NDArray[np.float32]:
    """The rows of `scores` [P, E] of some queries, given the sorted (head, relation) of every row [P, 2]."""
    keys, wanted = (one.astype(np.int64) << 32 | other for one, other in ((pairs[:, 0], pairs[:, 1]), (heads, relations)))
    return scores[np.searchsorted(keys, wanted)]


@torch.inference_mode()
def _log_odds(member: Scorer, heads: Ids, relations: Ids) -> NDArray[np.float32]:
    ids = (torch.from_numpy(column.astype(np.int64)) for column in (heads, relations))
    return member.log_odds_of_all_tails(*ids).numpy()
