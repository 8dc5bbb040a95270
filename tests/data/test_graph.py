"""The graph: worked out by hand on five entities, PageRank against networkx, the fan-out limit against plain sorting."""

from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.config.settings import GraphSettings
from hopwalk.data.graph import Graph, build_graph
from hopwalk.data.pagerank import pagerank
from hopwalk.data.reachability import reached
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.errors import SavedFileError
from tests.support.helpers import FAMILY, dataset_of, is_mapped

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), max_size=40, unique=True)


def test_family_by_hand():
    graph = hopwalk.graph_of(
        dataset_of(FAMILY)
    )  # ann bob cat dan eve; brother_of knows mother_of uncle_of, inverses from 4, stay 8
    edges = [list(zip(*(column.tolist() for column in graph.edges_from(id_)), strict=True)) for id_ in range(5)]
    assert edges == [
        [(2, 1), (2, 2), (5, 4), (8, 0)],
        [(0, 2), (3, 3), (6, 0), (8, 1)],
        [(2, 3), (4, 1), (6, 0), (8, 2)],
        [(6, 2), (7, 1), (8, 3)],
        [(1, 0), (8, 4)],
    ]
    assert graph.degrees.tolist() == [4, 4, 4, 3, 2]
    assert graph.num_edges == 2 * len(FAMILY) + 5


def test_entity_without_facts_can_stay():
    graph = build_graph(Triples.of([(0, 0, 2)]), num_entities=4, num_relations=1)
    assert [graph.edges_from(id_)[1].tolist() for id_ in range(4)] == [[2, 0], [1], [0, 2], [3]]


def test_self_loop_fact_keeps_its_edges_beside_the_stay_edge():
    graph = build_graph(Triples.of([(0, 0, 0)]), num_entities=1, num_relations=1)
    assert graph.relations.tolist() == [0, 1, 2]
    assert graph.tails.tolist() == [0, 0, 0]


def test_empty_graph():
    graph = build_graph(Triples.of([]), num_entities=0, num_relations=0)
    assert (graph.num_entities, graph.num_edges) == (0, 0)


def test_graph_is_immutable():
    graph = hopwalk.graph_of(dataset_of(FAMILY))
    with pytest.raises(ValueError, match="read-only"):
        graph.tails[0] = 3


def incoming(edges: list[tuple[int, int, int]], num_entities: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets and sources of the edges into each entity, and the number of edges out of it."""
    ordered = sorted(edges, key=lambda edge: edge[2])
    sources = np.array([head for head, _, _ in ordered], dtype=np.int32)
    counts = np.bincount([tail for _, _, tail in edges] or [0], minlength=num_entities) - (
        0 if edges else [1] + [0] * (num_entities - 1)
    )
    out_degrees = np.bincount(np.array([head for head, _, _ in edges], dtype=int), minlength=num_entities)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), sources, out_degrees


@settings(max_examples=50, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(EDGES, st.integers(1, 6))
def test_fan_out_keeps_the_edges_to_the_most_important(facts: list[tuple[int, int, int]], fan_out: int):
    whole = build_graph(Triples.of(facts), 8, 3, GraphSettings(fan_out=1000))
    trimmed = build_graph(Triples.of(facts), 8, 3, GraphSettings(fan_out=fan_out))
    both = [(head, relation, tail) for head, relation, tail in facts]
    both += [(tail, RelationIds(3).inverse(relation), head) for head, relation, tail in facts]
    importance = pagerank(*incoming(both, 8))
    for id_ in range(8):
        edges = [(relation, tail) for head, relation, tail in sorted(both) if head == id_]
        kept = sorted(sorted(edges, key=lambda edge: -round(importance[edge[1]] / importance.max(), 9))[:fan_out])
        assert list(zip(*(column.tolist() for column in trimmed.edges_from(id_)), strict=True)) == [*kept, (6, id_)]
        assert list(zip(*(column.tolist() for column in whole.edges_from(id_)), strict=True)) == [*edges, (6, id_)]


def test_ties_are_broken_by_relation_then_tail():
    star = Triples.of([(0, relation, tail) for tail in (1, 2, 3) for relation in (0, 1)])
    graph = build_graph(star, 4, 2, GraphSettings(fan_out=4))
    assert list(zip(*(column.tolist() for column in graph.edges_from(0)), strict=True)) == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
        (4, 0),
    ]


def test_save_and_load(tmp_path: Path):
    graph = hopwalk.graph_of(hopwalk.load_dataset("umls"))
    graph.save(tmp_path / "graph.safetensors")
    again = Graph.load(tmp_path / "graph.safetensors")
    for name in ("offsets", "relations", "tails"):
        assert np.array_equal(getattr(again, name), getattr(graph, name))
        assert is_mapped(getattr(again, name))
    assert again.relation_ids == graph.relation_ids


@pytest.mark.parametrize(
    "change",
    [
        {"offsets": np.array([0, 3], dtype=np.int64)},
        {"relations": np.array([0], dtype=np.int32)},
        {"tails": np.array([0, 9], dtype=np.int32)},
        {"tails": np.array([[0], [0]], dtype=np.int32)},
        {"offsets": np.array([0, 2], dtype=np.int32)},
        {"offsets": np.array([], dtype=np.int64)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, np.ndarray]):
    from hopwalk.utils.arrays import save_arrays

    arrays: dict[str, np.ndarray] = {
        "offsets": np.array([0, 2], dtype=np.int64),
        "relations": np.array([0, 2], np.int32),
        "tails": np.zeros(2, np.int32),
    }
    save_arrays(tmp_path / "good", arrays, {"kind": "graph", "num_relations": 1, "about": {}})
    Graph.load(tmp_path / "good")
    save_arrays(tmp_path / "bad", arrays | change, {"kind": "graph", "num_relations": 1, "about": {}})
    with pytest.raises(SavedFileError):
        Graph.load(tmp_path / "bad")


@settings(max_examples=50, deadline=None)
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
