"""DistMult (Yang et al., 2015): a relation scales the components of the embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from hopwalk.scorers.base import ProductScorer
from hopwalk.utils.randomness import dropout


class DistMult(ProductScorer):
    """`score = Σ_d head_d · relation_d · tail_d`."""

    def query_vectors(self, heads: Tensor, relations: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """`head ∘ relation` [Q, D]."""
        rate = self.settings.input_dropout
        return dropout(heads, rate, generator) * dropout(relations, rate, generator)

    def pair_vectors(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`head ∘ tail` [N, D]."""
        return heads * tails
