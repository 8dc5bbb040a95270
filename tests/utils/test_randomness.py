"""Dropout with an explicit generator."""

import pytest
import torch

from hopwalk.utils.randomness import dropout, keep_mask


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
