"""Matrix products by oneDNN where they are exact: on AMD's processors, MKL, torch's default, leaves AVX-512 unused.

torch hands float32 products to oneDNN only if it may round their factors to bfloat16. Processors without matrix units for
bfloat16 do not round: there the products have the precision of float32, in about half the time (docs/benchmarks.md). A trial
product tells. Where it is rounded, as on Intel's processors with AMX, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

LARGEST_ERROR = 1e-5  # of the trial product, relative to its largest entry: float32 has 1e-7 to 1e-6, bfloat16 1e-3


@contextmanager
def fast_products() -> Iterator[None]:
    """Let torch compute the float32 products of this process by oneDNN meanwhile, if that does not round them further."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user has set a precision for each backend: theirs stays
        yield
        return
    torch.set_float32_matmul_precision("medium")
    if not is_exact():
        torch.set_float32_matmul_precision(before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def is_exact() -> bool:
    """Whether products have the precision of float32, told by one of the size of a training step's."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.rand(512, 256, generator=generator) for _ in range(2))
    exact = left.double() @ right.double().t()
    return float((left @ right.t() - exact).abs().max() / exact.abs().max()) < LARGEST_ERROR
