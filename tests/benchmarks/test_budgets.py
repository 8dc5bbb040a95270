"""Benchmarks of budgets and bounds: what twice the queries brought, by hand; both run on a village."""

import numpy as np
import pytest

from benchmarks import budgets, fan_out
from hopwalk.data.triples import Triples
from hopwalk.propagation.graph import build_run_graph
from hopwalk.propagation.scorer import PropagationScorer
from tests.support.villages import VILLAGE, propagation_of


def test_what_twice_the_queries_brought():
    """Rises of 4 and 1 points, of which 2 and −1 came; the longest runs have no successor."""
    runs = [
        {"seed": seed, "queries": queries, "mrr_at_half": half, "mrr": mrr}
        for seed, queries, half, mrr in [(0, 10, 0.3, 0.34), (0, 20, 0.35, 0.36), (1, 10, 0.3, 0.31), (1, 20, 0.2, 0.30)]
    ]
    assert budgets.share_of_rises(runs) == pytest.approx((0.02 - 0.01) / 0.05)


def test_a_run_is_measured_in_its_middle_and_at_its_end():
    found = budgets.measure(VILLAGE, propagation_of(queries=320).propagation)
    assert found["dev_queries"] == len(VILLAGE.valid) and found["mrr"] != found["mrr_at_half"]
    assert found["deviation_of_change"] > 0


def test_a_trimmed_graph_keeps_the_edges_to_the_largest():
    """Entity 0 has edges to 1, 2 and 3, of which 2 has most edges and 3 more than 1."""
    facts = Triples.of([(0, 0, 1), (0, 0, 2), (0, 1, 3), (2, 1, 4), (2, 1, 5), (3, 0, 4)])
    whole, graph = build_run_graph(facts, 6, 2), fan_out.trimmed(build_run_graph(facts, 6, 2), 2)
    first, last = graph.run_offsets[:2]
    assert graph.tails[graph.run_starts[first] : graph.run_starts[last]].tolist() == [2, 3]
    assert graph.run_relations[first:last].tolist() == [0, 1]
    assert np.diff(graph.run_starts[graph.run_offsets]).max() == 2
    everything = fan_out.trimmed(whole, 100)
    assert all(np.array_equal(getattr(everything, name), getattr(whole, name)) for name in whole._fields)


def test_dev_is_ranked_on_any_graph():
    settings = propagation_of().propagation
    scorer = PropagationScorer(len(VILLAGE.entities), len(VILLAGE.relations), settings, VILLAGE.facts)
    mrr, _ = fan_out.measure(scorer, VILLAGE, 5)
    assert 0 < mrr <= 1
