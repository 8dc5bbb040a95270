"""Comparison of a run of several processes with that of one."""

import numpy as np

from hopwalk.learning.run import Run


def assert_alike(several: Run, one: Run) -> None:
    """The same history and weights, to rounding."""
    assert several.is_finished and several.settings.propagation == one.settings.propagation
    for ours, theirs in zip(several.history, one.history, strict=True):
        assert np.isclose(ours["loss"], theirs["loss"], rtol=1e-3)
        assert np.isclose(ours["valid_mrr"], theirs["valid_mrr"], atol=0.02)
    weights = [run.load_weights() for run in (several, one)]
    assert weights[0].names == weights[1].names
    for name in weights[0].names:
        np.testing.assert_allclose(weights[0].array(name), weights[1].array(name), rtol=0.01, atol=0.003, err_msg=name)
