"""Statistics of a data set: the numbers of the paper's Table 1, and some more."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples


@dataclass(frozen=True)
class Degrees:
    """The mean, median and largest number of facts of an entity, over the entities that have any."""

    mean: float
    median: float
    largest: int


@dataclass(frozen=True)
class Statistics:
    """The statistics of a data set.

    `out_degree` counts the facts whose head is the entity, which the paper's Table 1 calls degree (for NELL-995 Table 1 seems to
    count both ends, close to `degree_in_all`; see docs/data-sets.md).
    """

    name: str
    num_entities: int
    num_entities_in_graph: int
    num_relations: int
    num_facts: int
    num_facts_in_all: int
    num_train: int
    num_valid: int
    num_test: int
    num_query_relations: int
    out_degree: Degrees
    degree: Degrees
    degree_in_all: Degrees
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def statistics(dataset: Dataset) -> Statistics:
    """The statistics of a data set."""
    facts, all_facts = dataset.facts, dataset.all_facts()
    query_relations = np.concatenate([split.relations for split in dataset.splits.values()])
    return Statistics(
        name=dataset.name,
        num_entities=len(dataset.entities),
        num_entities_in_graph=len(np.unique(_ends(facts))),
        num_relations=len(dataset.relations),
        num_facts=len(facts),
        num_facts_in_all=len(all_facts),
        num_train=len(dataset.train),
        num_valid=len(dataset.valid),
        num_test=len(dataset.test),
        num_query_relations=len(np.unique(query_relations)),
        out_degree=_degrees(facts.heads),
        degree=_degrees(_ends(facts)),
        degree_in_all=_degrees(_ends(all_facts)),
        fingerprint=dataset.fingerprint,
    )


def _ends(facts: Triples) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.concatenate([facts.heads, facts.tails])


def _degrees(mentions: np.ndarray[Any, np.dtype[np.int32]]) -> Degrees:
    counts = np.bincount(mentions)
    counts = counts[counts > 0]
    if len(counts) == 0:
        return Degrees(0.0, 0.0, 0)
    return Degrees(float(counts.mean()), float(np.median(counts)), int(counts.max()))
