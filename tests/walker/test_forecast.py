"""The forecast of a walker's training: it follows the settings and the graph."""

from typing import Any

import numpy as np
import pytest

from hopwalk import api
from hopwalk.walker.forecast import actions_of_walk
from tests.support.villages import ALONE, VILLAGE, settings_of, village_of
from tests.support.walks import environment_of


def test_the_forecast_shrinks_with_the_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hopwalk.walker.forecast.product_rate", lambda: 1e9)  # of the same machine every time
    usual: dict[str, Any] = {"walker.rollouts": 100, "walker.batch_size": 512}
    most = api.forecast(VILLAGE, settings_of(usual))
    assert most.queries_at_once == 512
    less_memory = api.forecast(VILLAGE, settings_of(usual | {"walker.memory_mb": 64}))
    assert less_memory.queries_at_once < 512
    assert less_memory.memory_bytes < min(most.memory_bytes, 80 * 2**20)
    assert less_memory.seconds_of_epoch == most.seconds_of_epoch
    for changes in ({"walker.rollouts": 50}, {"walk.hops": 1}, {"walker.dimension": 6}, {"walker.history_dimension": 6}):
        less = api.forecast(VILLAGE, settings_of(usual | changes))
        assert less.memory_bytes < most.memory_bytes
        assert less.seconds_of_epoch < most.seconds_of_epoch
    masks = api.forecast(VILLAGE, settings_of(usual | {"walker.dropout_masks": "edge"}))
    assert masks.seconds_of_epoch > most.seconds_of_epoch  # nothing is shared
    smaller = api.forecast(village_of(8), settings_of(usual))
    assert smaller.seconds_of_epoch < 0.7 * most.seconds_of_epoch
    assert api.forecast(VILLAGE, settings_of(usual | ALONE)).memory_bytes < most.memory_bytes  # no scores of all entities


def test_walks_are_at_entities_in_proportion_to_their_degree():
    graph = environment_of().graph
    degrees = np.diff(graph.offsets)
    assert degrees.tolist() == [4, 4, 3, 2, 2]
    assert actions_of_walk(graph) == pytest.approx((16 + 16 + 9 + 4 + 4) / 15)
