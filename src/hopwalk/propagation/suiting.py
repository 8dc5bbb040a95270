"""Settings of propagation that suit a graph of one's own, by its size, its density, and how its dev facts were held out."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.learning.ranking import sample_queries

MOST_FACTS = 2000  # of dev and of train, to compare how they are connected
LEAST_FACTS = 50
FEW, MANY = 0.02, 0.1  # shares of facts


def suited_propagation(dataset: Dataset) -> dict[str, Any]:
    """Settings by dotted name. The steps are those of the five benchmark sets."""
    mean_degree = 2 * len(dataset.facts) / max(len(dataset.entities), 1)
    return {
        "propagation.layers": 3 if mean_degree > 20 else 4 if mean_degree > 6 else 5,
        "propagation.queries": int(np.clip(6 * len(dataset.train), 6_000, 60_000)),
        "propagation.hiding": suited_hiding(dataset),
    }


def suited_hiding(dataset: Dataset) -> str:
    """Which edges a training query must not see, so that it is as hard as a dev query.

    "between", if there is never an edge between head and answer of a dev fact, though in training there often is; "query", if
    dev queries have no known answers, though training queries often do; else "fact".
    """
    if min(len(dataset.valid), len(dataset.train)) < LEAST_FACTS:
        return "fact"
    dev, train = (sample_queries(facts, MOST_FACTS) for facts in (dataset.valid, dataset.train))
    if _share_connected(dataset, dev, own=0) < FEW and _share_connected(dataset, train, own=1) > MANY:
        return "between"
    known = KnownAnswers([dataset.facts], len(dataset.entities), len(dataset.relations))
    counts = [np.diff(known.answers(facts.heads, facts.relations)[0]) for facts in (dev, train)]
    return "query" if (counts[0] > 0).mean() < FEW and (counts[1] > 1).mean() > MANY else "fact"


def _share_connected(dataset: Dataset, facts: Triples, *, own: int) -> float:
    """The share of facts whose head and tail are connected by more than `own` facts of the graph, in either direction."""
    size = len(dataset.entities)
    low, high = np.minimum(dataset.facts.heads, dataset.facts.tails), np.maximum(dataset.facts.heads, dataset.facts.tails)
    pairs = np.sort(low.astype(np.int64) * size + high)
    wanted = np.minimum(facts.heads, facts.tails).astype(np.int64) * size + np.maximum(facts.heads, facts.tails)
    counts = np.searchsorted(pairs, wanted, side="right") - np.searchsorted(pairs, wanted, side="left")
    return float((counts > own).mean())
