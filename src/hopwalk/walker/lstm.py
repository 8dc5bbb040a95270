"""One LSTM layer, with its element-wise part and the gradient of it in few passes over memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hopwalk.utils.products import linear


def look_up(table: Tensor, rows: Tensor, *, is_sparse: bool = False) -> Tensor:
    """Rows of a table. The gradient is summed in order: the same bits whatever the number of threads."""
    return functional.embedding(rows, table, sparse=is_sparse)


State = tuple[Tensor, Tensor]  # (h, c) after S paths, [S, H] each


class LSTMLayer(nn.Module):
    """One layer of the LSTM. Walks that continue the same path share the product with its h.

    With `is_rounded`, products of training are rounded to bfloat16.
    """

    def __init__(self, input_size: int, size: int, *, is_rounded: bool = False) -> None:
        super().__init__()
        self._is_rounded = is_rounded
        self.input = nn.Linear(input_size, 4 * size)
        self.recurrent = nn.Linear(size, 4 * size, bias=False)

    def forward(self, from_input: Tensor, before: State | None = None, rows: Tensor | None = None) -> State:
        """The next `(h, c)` of S walks [S, H], given those of the paths that they continue; None: of the empty path, 0.

        `from_input` is `self.input` of the action taken [S, 4H]. `rows` is the path each walk continues; None: each its own.
        """
        if before is None:
            zeros = from_input.new_zeros(len(from_input), self.recurrent.in_features)
            return _cell(from_input, None, zeros)
        from_h = linear(before[0], self.recurrent.weight, is_rounded=self._is_rounded and self.training)
        c = before[1]
        if rows is not None:
            from_h, c = look_up(from_h, rows), look_up(c, rows)
        return _cell(from_input, from_h, c)


def _cell(from_input: Tensor, from_h: Tensor | None, c: Tensor) -> State:
    """`(h', c')` of what the products gave; without gradients their memory is used again."""
    if torch.is_grad_enabled():
        states: State = _Cell.apply(from_input, from_h, c)  # type: ignore[no-untyped-call]
        return states
    return _next_state(from_input if from_h is None else from_h.add_(from_input), c)[:2]


def _tanh_(values: Tensor) -> Tensor:
    """The hyperbolic tangent, in place: `2 σ(2x) − 1`, because torch computes σ three times as fast."""
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


def _next_state(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`h' = σ(o) tanh(c')`, `c' = σ(f) c + σ(i) tanh(g)` and `tanh(c')`; `gates` [i, f, g, o] become their values, in place."""
    size = c.shape[1]
    gates[:, 2 * size : 3 * size].mul_(2)  # tanh(x) = 2 σ(2x) − 1, so that one σ serves all four
    i, f, g, o = gates.sigmoid_().chunk(4, dim=1)
    g.mul_(2).sub_(1)
    next_c = torch.addcmul(f * c, i, g)
    tanh_c = _tanh_(next_c.clone())
    return o * tanh_c, next_c, tanh_c


class _Cell(torch.autograd.Function):
    """`_next_state` of `from_input + from_h`, and its gradient; no `from_h` means 0."""

    @staticmethod
    def forward(ctx: Any, from_input: Tensor, from_h: Tensor | None, c: Tensor) -> State:
        gates = from_input.clone() if from_h is None else from_input + from_h
        next_h, next_c, tanh_c = _next_state(gates, c)
        ctx.save_for_backward(gates, c, tanh_c)
        return next_h, next_c

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        d_h, d_next_c = gradients
        gates, c, tanh_c = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, dim=1)
        # d tanh(x) = 1 − tanh²(x)
        d_c = torch.addcmul(d_next_c, d_h * o, (tanh_c * tanh_c).neg_().add_(1))
        d_gates = torch.empty_like(gates)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=1)
        torch.mul(d_c, g, out=d_i)
        torch.mul(d_c, c, out=d_f)
        torch.mul(d_c, i, out=d_g)
        torch.mul(d_h, tanh_c, out=d_o)
        size = c.shape[1]
        # d σ(x) = σ(x) (1 − σ(x)), for i and f, which are adjacent, and for o
        for columns in (slice(2 * size), slice(3 * size, None)):
            gate = gates[:, columns]
            d_gates[:, columns].mul_(gate).mul_(1 - gate)
        d_g.mul_((g * g).neg_().add_(1))
        return d_gates, d_gates if ctx.needs_input_grad[1] else None, d_c.mul_(f)
