"""Dropout with an explicit generator, and permutations of which only a part is computed."""

import numpy as np
import pytest
import torch

from hopwalk.utils.randomness import dropout, keep_mask, scattered


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.95])
def test_masks_drop_the_share_they_should(rate: float):
    mask = keep_mask((300, 301), rate, torch.Generator().manual_seed(0))
    assert mask.shape == (300, 301) and mask.dtype == torch.bool
    assert 1 - float(mask.float().mean()) == pytest.approx(rate, abs=0.005)
    assert torch.equal(mask, keep_mask((300, 301), rate, torch.Generator().manual_seed(0)))


def test_dropout_keeps_the_mean():
    values = torch.ones(100, 100)
    found = dropout(values, 0.25, torch.Generator().manual_seed(0))
    assert sorted(found.unique().tolist()) == pytest.approx([0, 4 / 3])
    assert float(found.mean()) == pytest.approx(1, abs=0.02)
    assert torch.equal(found, dropout(values, 0.25, torch.Generator().manual_seed(0)))
    assert not torch.equal(found, dropout(values, 0.25, torch.Generator().manual_seed(1)))


def test_dropout_of_whole_slices():
    found = dropout(torch.ones(50, 7), 0.5, torch.Generator().manual_seed(0), shape=(50, 1))
    assert {len(row.unique()) for row in found} == {1}
    assert 0 < int((found[:, 0] == 0).sum()) < 50


def test_no_dropout_without_a_generator_or_a_rate():
    values = torch.ones(3)
    assert dropout(values, 0.5, None) is values
    assert dropout(values, 0.0, torch.Generator()) is values


@pytest.mark.parametrize("size", [1, 2, 5, 64, 1000])
def test_scattered_numbers_are_a_permutation(size: int):
    whole = scattered(np.arange(size), size, [0, 7])
    assert sorted(whole.tolist()) == list(range(size))
    assert np.array_equal(scattered(np.arange(size)[::2], size, [0, 7]), whole[::2])
    if size > 2:
        assert not np.array_equal(whole, np.arange(size)) and not np.array_equal(whole, scattered(np.arange(size), size, [0, 8]))


def test_scattered_numbers_are_spread_evenly():
    """Neighbours are not sent to neighbours: of many pairs the mean distance is a third of the size."""
    size = 1_000_003
    found = scattered(np.arange(20_000), size, [3])
    assert found.mean() == pytest.approx(size / 2, rel=0.02)
    assert np.abs(np.diff(found)).mean() == pytest.approx(size / 3, rel=0.02)
