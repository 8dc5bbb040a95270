"""The benchmark of the kernels: it runs and gives all its numbers; speed is not tested."""

import numpy as np
import pytest
import torch

from benchmarks import propagation
from hopwalk import api
from tests.support.villages import VILLAGE, propagation_of


def test_kernels_and_plain_model_are_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api, "load_dataset", lambda name: VILLAGE)
    settings = propagation_of(batch_size=4)
    monkeypatch.setattr(api, "settings_for", lambda name: settings)
    monkeypatch.setattr(propagation, "triad", lambda: 1.0)
    threads = torch.get_num_threads()
    try:
        found = propagation.measure("village", turns=1, num_trained=16, num_asked=10)
    finally:
        torch.set_num_threads(threads)
    assert all(np.isfinite(found[f"ms_per_training_query_{way}"]) for way in ("kernels", "exact", "plain"))
    degrees = VILLAGE.degrees
    assert degrees.min() < found["edges_per_query"] < degrees.max() + (degrees**2).sum()
    assert 1 < found["rows_per_query"] < 1 + 3 * len(VILLAGE.entities)
    titles, cells = propagation.table({"village": found})
    assert len(titles) == len(cells)


def test_a_triad_has_a_bandwidth():
    assert 0 < propagation.triad(size=2**20, repeats=2) < 10_000
