"""PageRank against networkx."""

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.data.pagerank import pagerank
from tests.support.graphs import EDGES, incoming


@settings(max_examples=50)
@given(EDGES, st.floats(0.1, 0.95))
def test_pagerank_agrees_with_networkx(edges: list[tuple[int, int, int]], damping: float):
    oracle = networkx.MultiDiGraph()
    oracle.add_nodes_from(range(8))
    oracle.add_edges_from((head, tail) for head, _, tail in edges)
    expected = networkx.pagerank(oracle, alpha=damping, tol=1e-12, max_iter=1000)
    rank = pagerank(*incoming(edges, 8), damping=damping)
    assert rank == pytest.approx([expected[id_] for id_ in range(8)], abs=1e-6)
    assert rank.sum() == pytest.approx(1)


def test_pagerank_with_little_damping():
    barbell = networkx.barbell_graph(20, 4)
    edges = [(head, 0, tail) for one, two in barbell.edges for head, tail in ((one, two), (two, one))]
    expected = networkx.pagerank(barbell, alpha=0.999, tol=1e-13, max_iter=100_000)
    assert pagerank(*incoming(edges, 44), damping=0.999) == pytest.approx([expected[id_] for id_ in range(44)], abs=1e-6)


def test_pagerank_of_umls_agrees_with_networkx():
    umls = hopwalk.load_dataset("umls")
    both = [(head, 0, tail) for head, _, tail in umls.facts.array().tolist()]
    both += [(tail, 0, head) for head, _, tail in both]
    oracle = networkx.MultiDiGraph((head, tail) for head, _, tail in both)
    expected = networkx.pagerank(oracle, tol=1e-12)
    assert pagerank(*incoming(both, 135)) == pytest.approx([expected[id_] for id_ in range(135)], abs=1e-6)
