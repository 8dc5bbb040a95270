"""Power-law knowledge graphs of any size as a file of triples: few entities have most of the facts, as in real ones.

The defaults have the shape of Wikidata5M: 800 relations, four facts an entity, tails far more uneven than heads, labels like Q42.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

CHUNK_TRIPLES = 1_000_000  # bounds the memory: some 100 bytes a triple of the chunk, whatever the size of the graph


@dataclass(frozen=True)
class PowerLawGraph:
    """A graph to generate. The k-th most frequent head, relation or tail has a share in proportion to 1 / k^exponent.

    Every entity is the head of at least one fact, so `num_triples` is at least `num_entities`. Facts are drawn independently: a
    few come twice, and a few lead from an entity to itself.
    """

    num_triples: int
    num_entities: int
    num_relations: int = 800
    head_exponent: float = 0.5
    relation_exponent: float = 1.0
    tail_exponent: float = 1.0
    entity_prefix: str = "Q"
    relation_prefix: str = "P"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_entities < 1 or self.num_relations < 1 or self.num_triples < self.num_entities:
            raise ValueError(
                f"expected at least one entity and relation and no fewer triples than entities, got {self.num_entities:,} "
                f"entities, {self.num_relations:,} relations and {self.num_triples:,} triples"
            )


def write_power_law_graph(path: Path, graph: PowerLawGraph) -> None:
    """Write the graph as lines of head, tab, relation, tab, tail; the same graph and seed give the same bytes."""
    random = np.random.default_rng(graph.seed)
    # Labels must not tell how frequent their entity is: a sorted vocabulary would put all hubs beside each other.
    entity_of_rank = random.permutation(graph.num_entities)
    with path.open("wb") as file:
        for start in range(0, graph.num_triples, CHUNK_TRIPLES):
            end = min(start + CHUNK_TRIPLES, graph.num_triples)
            _chunk(graph, start, end, entity_of_rank, random).write_csv(file, separator="\t", include_header=False)


def power_law_ranks(random: np.random.Generator, size: int, num_ranks: int, exponent: float) -> NDArray[np.int64]:
    """Random ranks below `num_ranks`, int64 [size], the k-th of them with probability in proportion to about 1 / k^exponent."""
    uniform = random.random(size)
    # The inverse of the distribution function of the density x^-exponent on [1, num_ranks + 1): needs no table of all ranks.
    if exponent == 1:
        position = (num_ranks + 1) ** uniform
    else:
        power = 1 - exponent
        position = (1 + uniform * ((num_ranks + 1) ** power - 1)) ** (1 / power)
    return np.minimum(position.astype(np.int64), num_ranks) - 1


def _chunk(
    graph: PowerLawGraph, start: int, end: int, entity_of_rank: NDArray[np.int64], random: np.random.Generator
) -> pl.DataFrame:
    """The triples `start` to `end`; each chunk introduces its share of the entities as heads."""
    size = end - start
    head_ranks = power_law_ranks(random, size, graph.num_entities, graph.head_exponent)
    introduced = np.arange(start * graph.num_entities // graph.num_triples, end * graph.num_entities // graph.num_triples)
    head_ranks[: len(introduced)] = introduced
    random.shuffle(head_ranks)
    tail_ranks = power_law_ranks(random, size, graph.num_entities, graph.tail_exponent)
    relations = power_law_ranks(random, size, graph.num_relations, graph.relation_exponent)
    numbers = pl.DataFrame({"head": entity_of_rank[head_ranks], "relation": relations, "tail": entity_of_rank[tail_ranks]})
    return numbers.select(
        head=pl.concat_str(pl.lit(graph.entity_prefix), "head"),
        relation=pl.concat_str(pl.lit(graph.relation_prefix), "relation"),
        tail=pl.concat_str(pl.lit(graph.entity_prefix), "tail"),
    )


def main() -> None:
    """Write a graph to a file, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--relations", type=int, default=800)
    parser.add_argument("--head-exponent", type=float, default=0.5)
    parser.add_argument("--relation-exponent", type=float, default=1.0)
    parser.add_argument("--tail-exponent", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    graph = PowerLawGraph(
        given.triples,
        given.entities,
        given.relations,
        given.head_exponent,
        given.relation_exponent,
        given.tail_exponent,
        seed=given.seed,
    )
    write_power_law_graph(given.out, graph)


if __name__ == "__main__":
    main()
