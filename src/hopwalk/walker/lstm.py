"""A layer of the LSTM that reads paths, with its element-wise part and the gradient of it in few passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def look_up(table: Tensor, rows: Tensor, *, is_sparse: bool = False) -> Tensor:
    """Rows of a table. Its gradient adds up in order: the same sum every time, whatever the number of threads."""
    return functional.embedding(rows, table, sparse=is_sparse)


class LSTMLayer(nn.Module):
    """One layer of the LSTM. Walks that continue the same path share the product with its output."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 4 * size)
        self.recurrent = nn.Linear(size, 4 * size, bias=False)

    def forward(self, incoming: Tensor, output: Tensor, cell: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Output and cell of S walks [S, H], given those of the paths that they continue.

        `incoming` is `self.input` of what they read [S, 4H]. `rows` says which path each walk continues; None: each its own.
        """
        before = self.recurrent(output)
        if rows is not None:
            before, cell = look_up(before, rows), look_up(cell, rows)
        found: tuple[Tensor, Tensor] = _Cell.apply(incoming, before, cell)  # type: ignore[no-untyped-call]
        return found


def _tanh_(values: Tensor) -> Tensor:
    """The hyperbolic tangent, in place: `2 σ(2x) − 1`, for torch computes σ three times as fast."""
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


class _Cell(torch.autograd.Function):
    """`c' = σ(f) c + σ(i) tanh(n)` and `h = σ(o) tanh(c')`, where `incoming + before = [i, f, n, o]`."""

    @staticmethod
    def forward(ctx: Any, incoming: Tensor, before: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = incoming + before
        size = cell.shape[1]
        gates[:, 2 * size : 3 * size].mul_(2)  # of which σ is taken too, to make tanh of it
        entering, forgetting, new, leaving = gates.sigmoid_().chunk(4, dim=1)
        new.mul_(2).sub_(1)
        next_cell = torch.addcmul(forgetting * cell, entering, new)
        bent = _tanh_(next_cell.clone())
        ctx.save_for_backward(gates, cell, bent)
        return leaving * bent, next_cell

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        of_output, of_next_cell = gradients
        gates, cell, bent = ctx.saved_tensors
        entering, forgetting, new, leaving = gates.chunk(4, dim=1)
        # d tanh(x) = 1 − tanh²(x)
        of_cell = torch.addcmul(of_next_cell, of_output * leaving, (bent * bent).neg_().add_(1))
        of_gates = torch.empty_like(gates)
        of_entering, of_forgetting, of_new, of_leaving = of_gates.chunk(4, dim=1)
        torch.mul(of_cell, new, out=of_entering)
        torch.mul(of_cell, cell, out=of_forgetting)
        torch.mul(of_cell, entering, out=of_new)
        torch.mul(of_output, bent, out=of_leaving)
        size = cell.shape[1]
        # d σ(x) = σ(x) (1 − σ(x)), for the three gates; two of them stand together
        for columns in (slice(2 * size), slice(3 * size, None)):
            gate = gates[:, columns]
            of_gates[:, columns].mul_(gate).mul_(1 - gate)
        of_new.mul_((new * new).neg_().add_(1))
        return of_gates, of_gates, of_cell.mul_(forgetting)
