"""Reward shaping (§2.5): f(e_s, r_q, e_T) of every entity, by a pretrained scorer."""

from __future__ import annotations

import torch
from torch import Tensor

from hopwalk.learning.scorer import Scorer


class Shaping:
    """The calibrated probabilities of a scorer. On small graphs those of all possible queries are computed once."""

    def __init__(self, scorer: Scorer, *, most_cached_bytes: int = 2**26) -> None:
        self._scorer = scorer
        num_queries = scorer.num_entities * scorer.relation_ids.num_directed
        self._cached: Tensor | None = None
        if 4 * num_queries * scorer.num_entities <= most_cached_bytes:
            heads = torch.arange(scorer.num_entities).repeat_interleave(scorer.relation_ids.num_directed)
            relations = torch.arange(scorer.relation_ids.num_directed).repeat(scorer.num_entities)
            self._cached = self._compute(heads, relations)

    def f(self, heads: Tensor, relations: Tensor) -> Tensor:
        """f of every entity for every query, in [0, 1] [Q, E]."""
        if self._cached is None:
            return self._compute(heads, relations)
        return self._cached[heads * self._scorer.relation_ids.num_directed + relations]

    @torch.no_grad()
    def _compute(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self._scorer.probability_of_all_tails(heads, relations).contiguous()
