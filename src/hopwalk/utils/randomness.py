"""Random masks, several times faster than PyTorch's: 16 random bits decide each entry."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def keep_mask(shape: tuple[int, ...] | torch.Size, rate: float, generator: torch.Generator) -> Tensor:
    """Booleans of which a share of `rate`, to 1/65,536, is False."""
    size = math.prod(shape)
    words = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return (words.view(torch.int16)[:size] >= round(rate * 65536) - 32768).view(shape)


def dropout(values: Tensor, rate: float, generator: torch.Generator | None, shape: tuple[int, ...] | None = None) -> Tensor:
    """The values with a share of them set to zero and the rest scaled up; unchanged without a generator.

    With a `shape` that broadcasts to that of the values, whole slices are dropped together.
    """
    if generator is None or rate == 0:
        return values
    return values * keep_mask(shape or values.shape, rate, generator).to(values.dtype).mul_(1 / (1 - rate))
