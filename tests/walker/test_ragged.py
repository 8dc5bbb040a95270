"""Rows of different lengths in a flat tensor, against the same row by row."""

import itertools

import torch

from hopwalk.walker import ragged

OFFSETS = torch.tensor([0, 3, 4, 8])


def test_softmax_and_its_gradient():
    logits = torch.tensor([1.0, 2.0, 3.0, 7.0, 0.0, 0.0, 80.0, -80.0], requires_grad=True)
    found = ragged.log_softmax(logits, OFFSETS)
    rows = [logits[start:end].log_softmax(0) for start, end in itertools.pairwise(OFFSETS.tolist())]
    assert torch.allclose(found, torch.cat(rows))
    weights = torch.arange(8.0)
    gradient = torch.autograd.grad((found * weights).sum(), logits, retain_graph=True)[0]
    expected = torch.autograd.grad((torch.cat(rows) * weights).sum(), logits)[0]
    assert torch.allclose(gradient, expected, atol=1e-5)


def test_top_of_rows():
    values = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0])
    positions, counts = ragged.top_of_rows(values, OFFSETS, 2)
    assert positions.tolist() == [1, 2, 3, 5, 7] and counts.tolist() == [2, 1, 2]


def test_rows_that_are_taken():
    entries, offsets = ragged.take_rows(OFFSETS, torch.tensor([2, 0, 1, 1]))
    assert entries.tolist() == [4, 5, 6, 7, 0, 1, 2, 3, 3] and offsets.tolist() == [0, 4, 7, 8, 9]


def test_samples_have_the_frequencies_of_the_weights():
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.1, 0.2, 0.7, 5.0, 1.0, 1.0, 0.0, 2.0])
    sampled = torch.stack([ragged.sample(weights, OFFSETS, generator) for _ in range(4000)])
    frequencies = torch.bincount(sampled.flatten(), minlength=8) / 4000
    assert torch.allclose(frequencies, torch.tensor([0.1, 0.2, 0.7, 1.0, 0.25, 0.25, 0.0, 0.5]), atol=0.03)
