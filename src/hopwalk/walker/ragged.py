"""Rows of different lengths, one after the other in a flat tensor: row s is `values[offsets[s]:offsets[s + 1]]`.

Action spaces have 1 to hundreds of entries. Padding them would waste memory bandwidth, so all operations work on flat tensors. N
entries in all, S rows; no row is empty. numpy is used where it needs one pass and torch several (`reduceat`, `repeat`,
`flatnonzero`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def offsets_of(counts: Tensor) -> Tensor:
    """The start of every row and the end of the last [S+1], given their lengths [S]."""
    offsets = torch.zeros(len(counts) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=offsets[1:])
    return offsets


def rows_of(offsets: Tensor) -> Tensor:
    """The row of every entry [N]."""
    return repeat_per_row(torch.arange(len(offsets) - 1), offsets)


def repeat_per_row(values: Tensor, offsets: Tensor) -> Tensor:
    """A value of each row [S] for every entry of the row [N]; no gradient goes through."""
    return torch.from_numpy(np.repeat(values.numpy(), np.diff(offsets.numpy())))


def ranges(starts: Tensor, offsets: Tensor) -> Tensor:
    """`starts[s], starts[s] + 1, …` in every row s [N]."""
    return torch.arange(int(offsets[-1])).add_(repeat_per_row(starts - offsets[:-1], offsets))


def places_of(mask: Tensor) -> Tensor:
    """The positions where the mask is true."""
    return torch.from_numpy(np.flatnonzero(mask.numpy()))


def row_sums(values: Tensor, offsets: Tensor) -> Tensor:
    """The sum of every row [S]."""
    return torch.from_numpy(np.add.reduceat(values.numpy(), offsets[:-1].numpy()))


def row_maxima(values: Tensor, offsets: Tensor) -> Tensor:
    """The largest value of every row [S]."""
    return torch.from_numpy(np.maximum.reduceat(values.numpy(), offsets[:-1].numpy()))


class _LogSoftmax(torch.autograd.Function):
    """`log_softmax` of every row, with its gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, offsets: Tensor) -> Tensor:
        shifted = logits - repeat_per_row(row_maxima(logits, offsets), offsets)
        log_probs = shifted.sub_(repeat_per_row(row_sums(shifted.exp(), offsets).log_(), offsets))
        ctx.save_for_backward(log_probs, offsets)
        return log_probs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        log_probs, offsets = ctx.saved_tensors
        (gradient,) = gradients
        return gradient - log_probs.exp().mul_(repeat_per_row(row_sums(gradient, offsets), offsets)), None


def log_softmax(logits: Tensor, offsets: Tensor) -> Tensor:
    """The logarithm of the softmax of every row [N]."""
    log_probs: Tensor = _LogSoftmax.apply(logits, offsets)  # type: ignore[no-untyped-call]
    return log_probs


def take_rows(offsets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Some rows, one perhaps several times: the entries to take [M] and the new offsets."""
    new_offsets = offsets_of(offsets.diff()[rows])
    return ranges(offsets[rows], new_offsets), new_offsets


def sample(weights: Tensor, offsets: Tensor, generator: torch.Generator) -> Tensor:
    """One entry of every row, with a probability in proportion to its weight: positions among the N [S]."""
    ends = torch.cumsum(weights, 0, dtype=torch.float64)
    below = torch.cat([ends.new_zeros(1), ends])[offsets]  # the weight of all rows before
    point = torch.rand(len(offsets) - 1, dtype=torch.float64, generator=generator) * below.diff() + below[:-1]
    found = torch.searchsorted(ends, point, right=True)
    return torch.minimum(torch.maximum(found, offsets[:-1]), offsets[1:] - 1)  # rounding may lead just outside the row


def top_of_rows(values: Tensor, offsets: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The `most` largest entries of every row, largest first: positions among the N, and how many there are of each row [S].

    The order of equal entries is unspecified, but the same input gives the same result.
    """
    counts = offsets.diff()
    longest = int(counts.max())
    places = ranges(torch.arange(len(counts)) * longest, offsets)
    padded = values.new_full((len(counts) * longest,), -torch.inf).index_copy_(0, places, values).view(len(counts), longest)
    kept = torch.clamp(counts, max=most)
    _, columns = torch.topk(padded, int(kept.max()), dim=1)
    is_real = torch.arange(columns.shape[1]) < kept[:, None]
    return (columns + offsets[:-1, None])[is_real], kept
