"""ComplEx (Trouillon et al., 2016): DistMult with complex embeddings, so that the order of head and tail matters."""

from __future__ import annotations

import torch
from torch import Tensor

from hopwalk.scorers.base import ProductScorer
from hopwalk.utils.randomness import dropout


class ComplEx(ProductScorer):
    """`score = Re(Σ_d head_d · relation_d · conj(tail_d))`; a row holds the D real parts, then the D imaginary parts."""

    numbers_per_dimension = 2

    def query_vectors(self, heads: Tensor, relations: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """`head ∘ relation` in complex numbers; its real product with the tail's embedding is the score [Q, 2D]."""
        rate = self.settings.input_dropout
        return complex_product(dropout(heads, rate, generator), dropout(relations, rate, generator))

    def pair_vectors(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`conj(head) ∘ tail` in complex numbers; its real product with the relation's embedding is the score [N, 2D]."""
        real, imaginary = heads.chunk(2, dim=1)
        return complex_product(torch.cat([real, -imaginary], dim=1), tails)

    def moduli(self, embeddings: Tensor) -> Tensor:
        """The absolute values of the complex components [N, D]."""
        real, imaginary = embeddings.chunk(2, dim=1)
        return (real.square() + imaginary.square() + 1e-20).sqrt()  # the square root has no gradient at zero


def complex_product(left: Tensor, right: Tensor) -> Tensor:
    """The component-wise product of complex numbers."""
    left_real, left_imaginary = left.chunk(2, dim=1)
    right_real, right_imaginary = right.chunk(2, dim=1)
    real = left_real * right_real - left_imaginary * right_imaginary
    return torch.cat([real, left_real * right_imaginary + left_imaginary * right_real], dim=1)
