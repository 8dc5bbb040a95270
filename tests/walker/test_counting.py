"""Counts of distinct rows, against sets."""

import pytest
import torch

from hopwalk.walker.counting import DistinctCount


def test_distinct_rows_are_counted():
    count = DistinctCount()
    rows = torch.stack([torch.arange(300_000) // 3, torch.arange(300_000) % 2], dim=1)
    for part in rows.split(50_000):
        count.add(part)
    assert count.estimate() == pytest.approx(len({tuple(row) for row in rows.tolist()}), rel=0.02)


def test_few_rows_are_counted_nearly_exactly():
    count = DistinctCount()
    count.add(torch.arange(1000)[:, None])
    assert count.estimate() == pytest.approx(1000, rel=0.02)
