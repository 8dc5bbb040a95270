"""The graph to walk: immutable arrays of out-edges with inverse and stay edges, hubs trimmed by PageRank (§4.3 KG Setup)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopwalk.config.settings import GraphSettings
from hopwalk.data.pagerank import pagerank
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Ids, TriplePacking, Triples, sorted_unique

Offsets = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """Out-edges of every entity: those of entity e are `relations[offsets[e]:offsets[e+1]]` and `tails[…]` alike.

    Every fact gives an edge and an inverse edge. The edges of an entity are sorted by (relation, tail); the last one is its stay
    edge. `offsets` is int64 [E+1], `relations` and `tails` are int32 [number of edges], all read-only.
    """

    offsets: Offsets
    relations: Ids
    tails: Ids
    num_relations: int

    def __post_init__(self) -> None:
        for array in (self.offsets, self.relations, self.tails):
            array.setflags(write=False)

    def __repr__(self) -> str:
        largest = int(self.degrees.max(initial=0))
        return f"Graph({self.num_entities:,} entities, {self.num_edges:,} edges, at most {largest:,} from one)"

    @property
    def num_entities(self) -> int:
        """The number of entities."""
        return len(self.offsets) - 1

    @property
    def num_edges(self) -> int:
        """The number of edges: facts, inverses, and one stay edge per entity."""
        return len(self.tails)

    @property
    def degrees(self) -> Offsets:
        """The number of out-edges of each entity, including its stay edge [E]."""
        return np.diff(self.offsets)

    @property
    def relation_ids(self) -> RelationIds:
        """The ids of relations, inverses, stay and start."""
        return RelationIds(self.num_relations)

    def edges_from(self, entity_id: int) -> tuple[Ids, Ids]:
        """The relations and tails of an entity's out-edges."""
        edges = slice(self.offsets[entity_id], self.offsets[entity_id + 1])
        return self.relations[edges], self.tails[edges]

    def edge_positions(self, heads: Ids, relations: Ids, tails: Ids) -> Offsets:
        """The positions of edges in `relations` and `tails` [N]; -1 for those that are not in the graph."""
        low, end = self.offsets[heads], self.offsets[np.asarray(heads) + 1]
        high = end.copy()
        keys = np.asarray(relations, dtype=np.int64) << 32 | tails
        while (low < high).any():  # binary search: the edges of an entity are sorted by (relation, tail)
            middle = np.minimum((low + high) // 2, self.num_edges - 1)
            is_below = (self.relations[middle].astype(np.int64) << 32 | self.tails[middle]) < keys
            is_open = low < high
            low = np.where(is_open & is_below, middle + 1, low)
            high = np.where(is_open & ~is_below, middle, high)
        found = np.minimum(low, self.num_edges - 1)
        is_there = (low < end) & (self.relations[found] == relations) & (self.tails[found] == tails)
        return np.where(is_there, found, -1)


def build_graph(facts: Triples, num_entities: int, num_relations: int, settings: GraphSettings | None = None) -> Graph:
    """The graph of the facts, with the `settings.fan_out` most important out-edges of every entity and its stay edge."""
    settings = settings or GraphSettings()
    offsets, relations, tails = _both_directions(facts, num_entities, num_relations)
    if np.diff(offsets).max(initial=0) > settings.fan_out:
        # Every edge has its inverse, so the entities an edge leads to are also those that lead here.
        importance = pagerank(offsets, tails, np.diff(offsets))
        kept = kept_edges(offsets, tails, importance, settings.fan_out)
        relations, tails = relations[kept], tails[kept]
        offsets = _offsets_of(np.minimum(np.diff(offsets), settings.fan_out))
    return _with_stay_edges(offsets, relations, tails, num_relations)


def _both_directions(facts: Triples, num_entities: int, num_relations: int) -> tuple[Offsets, Ids, Ids]:
    """Edges and inverse edges, sorted by (head, relation, tail)."""
    relation_ids = RelationIds(num_relations)
    packing = TriplePacking(num_entities, relation_ids.num_all)
    keys = np.empty(2 * len(facts), dtype=np.int64)
    keys[: len(facts)] = packing.pack_all(facts)
    keys[len(facts) :] = packing.pack(facts.tails, relation_ids.inverse(facts.relations), facts.heads)
    keys.sort()
    edges = packing.unpack(keys)
    return _offsets_of(np.bincount(edges.heads, minlength=num_entities)), edges.relations, edges.tails


def kept_edges(offsets: Offsets, tails: Ids, importance: NDArray[np.float64], fan_out: int) -> NDArray[np.bool_]:
    """A mask of the edges that are kept, at most `fan_out` per entity: those to the most important tails, bool [number of edges].

    Importance is compared to nine digits, so that rounding does not decide; of equals the first edge is kept.
    """
    degrees = np.diff(offsets)
    kept = np.ones(len(tails), dtype=np.bool_)
    hubs = np.flatnonzero(degrees > fan_out)
    hub_rows = np.repeat(np.arange(len(hubs)), degrees[hubs])
    starts = _offsets_of(degrees[hubs])
    edges = np.arange(starts[-1]) - starts[hub_rows] + offsets[hubs][hub_rows]
    unimportance = np.rint(1e9 - importance[tails[edges]] * (1e9 / max(importance.max(initial=0), 1e-300))).astype(np.int64)
    order = np.argsort(hub_rows << 30 | unimportance, kind="stable")  # by hub, then importance; 10⁹ fits into 30 bits
    place = np.arange(len(edges)) - starts[hub_rows]  # hub_rows is sorted, so places do not depend on the order
    kept[edges[order[place >= fan_out]]] = False
    return kept


def _with_stay_edges(offsets: Offsets, relations: Ids, tails: Ids, num_relations: int) -> Graph:
    num_entities = len(offsets) - 1
    new_offsets = offsets + np.arange(num_entities + 1)
    is_stay = np.zeros(len(tails) + num_entities, dtype=np.bool_)
    is_stay[new_offsets[1:] - 1] = True
    new_relations = np.full(len(is_stay), RelationIds(num_relations).stay_id, dtype=np.int32)
    new_tails = np.empty(len(is_stay), dtype=np.int32)
    new_tails[is_stay] = np.arange(num_entities, dtype=np.int32)
    new_relations[~is_stay] = relations
    new_tails[~is_stay] = tails
    return Graph(new_offsets, new_relations, new_tails, num_relations)


def _offsets_of(counts: NDArray[np.integer]) -> Offsets:
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def with_facts(graph: Graph, facts: Triples) -> Graph:
    """The graph with the edges and inverse edges of more facts. All of them are kept, whatever the fan-out limit."""
    ids, is_move = graph.relation_ids, graph.relations != graph.relation_ids.stay_id
    heads = np.repeat(np.arange(graph.num_entities, dtype=np.int32), graph.degrees)
    packing = TriplePacking(graph.num_entities, ids.num_all)
    old = packing.pack(heads[is_move], graph.relations[is_move], graph.tails[is_move])
    new = packing.pack_all(facts)
    inverse = packing.pack(facts.tails, ids.inverse(facts.relations), facts.heads)
    edges = packing.unpack(sorted_unique(np.concatenate([old, new, inverse])))
    offsets = _offsets_of(np.bincount(edges.heads, minlength=graph.num_entities))
    return _with_stay_edges(offsets, edges.relations, edges.tails, graph.num_relations)
