"""ComplEx (Trouillon et al., 2016): DistMult with complex numbers, so that the order of head and tail matters."""

from __future__ import annotations

import torch
from torch import Tensor

from hopwalk.scorers.base import ProductScorer, dropout


class ComplEx(ProductScorer):
    """`score = Re(Σ_d head_d · relation_d · conj(tail_d))`; a row holds the D real parts, then the D imaginary parts."""

    numbers_per_dimension = 2

    def query_vectors(self, heads: Tensor, relations: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """`head ∘ relation` in complex numbers [Q, 2D]: its real product with a tail's row is the score."""
        rate = self.settings.input_dropout
        head_real, head_imaginary = dropout(heads, rate, generator).chunk(2, dim=1)
        relation_real, relation_imaginary = dropout(relations, rate, generator).chunk(2, dim=1)
        return torch.cat(
            [
                head_real * relation_real - head_imaginary * relation_imaginary,
                head_real * relation_imaginary + head_imaginary * relation_real,
            ],
            dim=1,
        )

    def moduli(self, embeddings: Tensor) -> Tensor:
        """The absolute values of the complex components."""
        real, imaginary = embeddings.chunk(2, dim=1)
        return (real.square() + imaginary.square() + 1e-20).sqrt()  # the root has no gradient at zero
