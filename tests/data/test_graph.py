"""The graph: by hand on five entities, and the fan-out limit against plain sorting."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hopwalk
from hopwalk.config.settings import GraphSettings
from hopwalk.data.graph import build_graph
from hopwalk.data.pagerank import pagerank
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from tests.support.graphs import EDGES, incoming
from tests.support.helpers import FAMILY, dataset_of


def test_family_by_hand():
    # Entities: ann bob cat dan eve. Relations: brother_of knows mother_of uncle_of, their inverses from 4, stay is 8.
    graph = hopwalk.graph_of(dataset_of(FAMILY))
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


@settings(max_examples=100)
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
