"""Scores of edges and their gradients, against gathered vectors."""

import pytest
import torch

from hopwalk.walker import ragged
from hopwalk.walker.edge_scores import DENSE_WORK, edge_scores


@pytest.mark.parametrize("num_rows", [4, 1000], ids=["all products", "sampled products"])
def test_scores_and_gradients_are_those_of_gathered_vectors(num_rows: int):
    torch.manual_seed(0)
    offsets, columns = torch.tensor([0, 3, 4, 8]), torch.tensor([0, 3, 3, 1, 2, 0, 1, 2])
    assert (3 * num_rows <= DENSE_WORK * len(columns)) == (num_rows == 4)  # each way is taken once
    vectors, table = torch.randn(3, 5, requires_grad=True), torch.randn(num_rows, 5, requires_grad=True)
    expected = (vectors[ragged.rows_of(offsets)] * table[columns]).sum(1)
    found = edge_scores(vectors, table, offsets, columns)
    assert torch.allclose(found, expected, atol=1e-6)
    weights = torch.randn(8)
    gradients = torch.autograd.grad((found * weights).sum(), (vectors, table))
    expected_gradients = torch.autograd.grad((expected * weights).sum(), (vectors, table))
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(gradients, expected_gradients, strict=True))
