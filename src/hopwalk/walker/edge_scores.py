"""Scores of edges: products of a walk's vector with rows of a table, for the pairs of walk and edge only.

Gathering the vectors of all edges would move hundreds of megabytes a step. A score is a scalar, so either one matrix product
computes all products of walks and rows, and the scalars are picked (small tables), or only the products of the pairs are
computed, as sampled dense-dense multiplication over the sparse matrix of pairs (large tables).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopwalk.utils.products import linear
from hopwalk.walker import ragged

DENSE_WORK = 16  # a matrix product computes this many products in the time that picking takes for one


def edge_scores(vectors: Tensor, table: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    """`vectors[s] · table[columns[n]]` for every entry n of every row s [N]; vectors [S, D], table [M, D], columns int [N]."""
    is_dense = len(vectors) * len(table) <= DENSE_WORK * len(columns)
    kind: Any = _Dense if is_dense else _Sampled
    scores: Tensor = kind.apply(vectors, table, offsets, columns)
    return scores


class _Dense(torch.autograd.Function):
    """All products by one matrix product, of which the scores are picked."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, table: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
        starts = torch.arange(len(vectors)) * len(table)
        places = ragged.repeat_per_row(starts, offsets).add_(columns)
        ctx.save_for_backward(vectors, table, places)
        return linear(vectors, table).reshape(-1).index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vectors, table, places = ctx.saved_tensors
        size = len(vectors) * len(table)
        sums = np.bincount(places.numpy(), weights=gradients[0].numpy(), minlength=size)  # in order: the same sum every time
        of_products = torch.from_numpy(sums.astype(np.float32)).view(len(vectors), len(table))
        return of_products @ table, of_products.t() @ vectors, None, None


class _Sampled(torch.autograd.Function):
    """The products of the pairs alone."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, table: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(vectors, table, offsets, columns)
        pairs = _sparse(offsets, columns, vectors.new_zeros(len(columns)), len(table))
        found: Tensor = torch.sparse.sampled_addmm(pairs, vectors.detach(), table.detach().t(), beta=0.0)
        return found.values()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vectors, table, offsets, columns = ctx.saved_tensors
        of_products = _sparse(offsets, columns, gradients[0].contiguous(), len(table))
        return of_products @ table, of_products.t().to_sparse_csr() @ vectors, None, None


def _sparse(offsets: Tensor, columns: Tensor, values: Tensor, width: int) -> Tensor:
    """The sparse matrix [S, width] with a value for each pair."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # "beta state", and that invariants are not checked: ours hold
        return torch.sparse_csr_tensor(offsets.int(), columns.int(), values, size=(len(offsets) - 1, width))
