"""Matrix products by oneDNN where they are exact: on AMD's processors, MKL, torch's default, leaves AVX-512 unused.

torch hands float32 products to oneDNN only if it may round their factors to bfloat16. Processors without matrix units for
bfloat16 do not round: there the products have the precision of float32, in about half the time (docs/benchmarks.md). A trial
product tells. Where it is rounded, as on Intel's processors with AMX, nothing is changed.

oneDNN keeps code and memory for each of the last thousand shapes, up to two megabytes a shape. So what training and ranking
multiply has few shapes: numbers of rows that differ from batch to batch are rounded up. Asking stays with MKL: the setting is the
process's, and questions may come in several threads.

A layer may also round the factors of its products to bfloat16 itself, as mixed-precision training does: half the time again on
processors with AVX-512 BF16.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ROWS = 128  # numbers of rows above this are multiples of it
LARGEST_ERROR = 1e-5  # of the trial product, relative to its largest entry: float32 has 1e-7 to 1e-6, bfloat16 1e-3

_lock = threading.Lock()
_before: list[str] = []  # the setting that each open block found, in whichever thread; only the first can differ


def rounded_up(num_rows: int) -> int:
    """The number of rows to multiply in the place of so many, so that products have few shapes."""
    return num_rows if num_rows <= ROWS else -(-num_rows // ROWS) * ROWS


@contextmanager
def fast_products() -> Iterator[None]:
    """Let torch compute the float32 products of this process by oneDNN meanwhile, if that does not round them further."""
    with _lock:
        _before.append(_precision())
        if _before[0] and is_exact():
            torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()  # the last to end gets what the first found
            if before and not _before:
                torch.set_float32_matmul_precision(before)


def _precision() -> str:
    """torch's setting; empty if the user has set one for each backend, which then stays."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return ""


@cache
def is_exact() -> bool:
    """Whether a trial product keeps the precision of float32 where torch may round its factors."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.rand(512, 256, generator=generator) for _ in range(2))
    exact = left.double() @ right.double().t()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        return float((left @ right.t() - exact).abs().max() / exact.abs().max()) < LARGEST_ERROR
    finally:
        torch.set_float32_matmul_precision(before)


def linear(vectors: Tensor, weight: Tensor, bias: Tensor | None = None, *, is_rounded: bool = False) -> Tensor:
    """`vectors @ weight.T + bias`; with `is_rounded` factors, product and gradients have the 8 bits of precision of bfloat16.

    Without gradients, rows of zeros are added meanwhile, so that products have few shapes; training takes care of its own.
    """
    if is_rounded:
        products: Tensor = _RoundedLinear.apply(vectors, weight, bias)  # type: ignore[no-untyped-call]
        return products
    num_rows = len(vectors)
    if torch.is_grad_enabled() or num_rows == rounded_up(num_rows):
        return functional.linear(vectors, weight, bias)
    padded = functional.pad(vectors, (0, 0, 0, rounded_up(num_rows) - num_rows))
    return functional.linear(padded, weight, bias)[:num_rows]


class _RoundedLinear(torch.autograd.Function):
    """A linear layer whose products are of bfloat16, with sums of float32; everything else stays float32."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        factors = vectors.bfloat16(), weight.bfloat16()
        ctx.save_for_backward(*factors)
        product = (factors[0] @ factors[1].t()).float()
        return product if bias is None else product.add_(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        vectors, weight = ctx.saved_tensors
        rounded = gradients[0].bfloat16()
        of_vectors = (rounded @ weight).float() if ctx.needs_input_grad[0] else None
        of_weight = (rounded.t() @ vectors).float() if ctx.needs_input_grad[1] else None
        return of_vectors, of_weight, gradients[0].sum(dim=0) if ctx.needs_input_grad[2] else None
