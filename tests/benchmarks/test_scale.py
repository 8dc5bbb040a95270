"""The benchmark of growth: its graph has a rule and hubs, and everything is measured; speed is not tested."""

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import scale
from hopwalk.propagation.scorer import PropagationScorer

SMALL = {"width": 8, "attention_width": 4}


def test_dev_follows_from_a_rule_of_two_hops():
    dataset = scale.planted_graph(4000)
    works, based = (
        {head: tail for head, relation, tail in dataset.facts.array().tolist() if relation == one}
        for one in (scale.WORKS_FOR, scale.BASED_IN)
    )
    assert all(based[works[head]] == tail for head, _, tail in dataset.valid.array().tolist())
    in_training = {tuple(fact) for fact in dataset.facts.array().tolist()}
    assert len(dataset.valid) == scale.NUM_DEV and not in_training & {tuple(fact) for fact in dataset.valid.array().tolist()}
    assert dataset.degrees.max() > 50 * np.median(dataset.degrees)
    again = scale.planted_graph(4000)
    assert np.array_equal(again.facts.array(), dataset.facts.array())


def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scale, "NUM_DEV", 50)
    threads = torch.get_num_threads()
    try:
        found = scale.measure(2000, 320, SMALL)
    finally:
        torch.set_num_threads(threads)
    assert found["facts"] > 7000 and len(found["valid_mrr"]) == 4
    assert min(found["peak_bytes"], found["forecast"]["bytes"], found["ms_per_training_query"]) > 0
    titles, cells = scale.table([found])
    assert len(titles) == len(cells) and cells[0] == "2,000"


def reached_by_hub(num_entities: int, **values: Any) -> int:
    dataset = scale.planted_graph(num_entities)
    settings = scale.settings_of(100, **SMALL, **values)
    scorer = PropagationScorer(num_entities, scale.NUM_RELATIONS, settings, dataset.facts)
    hub = np.argmax(dataset.degrees)
    return len(scorer.score_reached(np.array([hub]), np.array([scale.LIVES_IN])).entities)


def test_what_a_hub_reaches_is_bounded_whatever_the_size_of_the_graph():
    """Three layers of ten senders with ten edges each, and one more for each of the 40 directed relations."""
    most = 1 + 3 * 10 * (10 + 2 * scale.NUM_RELATIONS)
    small, large = (reached_by_hub(size, senders=10, fan_out=10) for size in (2000, 20_000))
    assert small <= most and large <= most
    assert reached_by_hub(20_000, senders=10, fan_out=0) > most
