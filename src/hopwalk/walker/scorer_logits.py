"""What the scorer thinks of every entity as the answer of a question: for the reward, for the guided walk, and for the blend."""

from __future__ import annotations

import torch
from torch import Tensor

from hopwalk.scorers.base import Scorer


class Opinions:
    """The scorer's log-odds of all entities. On small graphs those of all questions there can be are computed once and kept."""

    def __init__(self, scorer: Scorer, *, most_kept_bytes: int = 2**26) -> None:
        self._scorer = scorer
        num_questions = scorer.num_entities * scorer.relation_ids.num_directed
        self._kept: Tensor | None = None
        if 4 * num_questions * scorer.num_entities <= most_kept_bytes:
            heads = torch.arange(scorer.num_entities).repeat_interleave(scorer.relation_ids.num_directed)
            relations = torch.arange(scorer.relation_ids.num_directed).repeat(scorer.num_entities)
            self._kept = self._computed(heads, relations)

    def log_odds(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The logit of P(answer) of every entity for every question [Q, E]."""
        if self._kept is None:
            return self._computed(heads, relations)
        return self._kept[heads * self._scorer.relation_ids.num_directed + relations]

    @torch.no_grad()
    def _computed(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self._scorer.log_odds_of_all_tails(heads, relations).contiguous()
