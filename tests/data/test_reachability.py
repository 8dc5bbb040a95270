"""Reachability against breadth-first search."""

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.config.settings import GraphSettings
from hopwalk.data.graph import build_graph
from hopwalk.data.reachability import reached
from hopwalk.data.triples import Triples
from tests.support.graphs import EDGES
from tests.support.helpers import FAMILY, dataset_of


@settings(max_examples=50)
@given(EDGES, st.integers(1, 4), st.integers(1, 5))
def test_reach_agrees_with_breadth_first_search(facts: list[tuple[int, int, int]], hops: int, fan_out: int):
    graph = build_graph(Triples.of(facts), 8, 3, GraphSettings(fan_out=fan_out))
    oracle = networkx.DiGraph()
    oracle.add_nodes_from(range(8))
    oracle.add_edges_from((id_, int(tail)) for id_ in range(8) for tail in graph.edges_from(id_)[1])
    heads, tails = (grid.ravel().astype(np.int32) for grid in np.meshgrid(range(8), range(8)))
    within = [networkx.single_source_shortest_path_length(oracle, id_, cutoff=hops) for id_ in range(8)]
    assert reached(graph, heads, tails, hops).tolist() == [
        tail in within[head] for head, tail in zip(heads.tolist(), tails.tolist(), strict=True)
    ]


def test_reach_stops_when_it_has_read_enough():
    graph = hopwalk.graph_of(dataset_of(FAMILY))
    ids = np.zeros(10, dtype=np.int32)
    assert len(reached(graph, ids, ids, 3)) == 10
    assert len(reached(graph, ids, ids, 3, most_edges=20)) == 2
