"""Ensembles of scorers: the mean of their log-odds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hopwalk.learning.scorer import Scorer


class Ensemble(Scorer):
    """`score = mean over members of logit P(member: tail is an answer)`.

    Unlike scores, log-odds are comparable between models, since every member is calibrated on the same dev queries.
    """

    def __init__(self, members: Sequence[Scorer]) -> None:
        super().__init__(members[0].num_entities, members[0].relation_ids.num_relations)
        self.members = nn.ModuleList(members)

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The mean log-odds of every entity as the tail of every query [Q, E]."""
        total = torch.zeros(len(heads), self.num_entities)
        for member in self._scorers():
            total += member.log_odds_of_all_tails(heads, relations)
        return total / len(self.members)

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """The mean log-odds of every triple [N]."""
        total = torch.zeros(len(heads))
        for member in self._scorers():
            total += member.log_odds_of_triples(heads, relations, tails)
        return total / len(self.members)

    def _scorers(self) -> list[Scorer]:
        return [member for member in self.members if isinstance(member, Scorer)]
