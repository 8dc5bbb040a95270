"""Callbacks: TensorBoard."""

from pathlib import Path

import numpy as np
import pytest

import hopwalk
from hopwalk.config.loading import load_settings
from tests.support.circles import CIRCLE


def test_tensorboard_has_the_history(tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = load_settings(overrides=["scorer.model=complex", "scorer.dimension=8", "scorer.epochs=3"])
    run = hopwalk.train_scorer(CIRCLE, settings, out=tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    written = [(event.step, event.value) for event in events.Scalars("valid_mrr")]
    assert [step for step, _ in written] == [1, 2, 3]
    np.testing.assert_allclose([value for _, value in written], [record["valid_mrr"] for record in run.history], rtol=1e-6)
