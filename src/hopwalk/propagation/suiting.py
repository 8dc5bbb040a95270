"""Settings of propagation that suit a graph of one's own, by its size, its density, and how its dev facts were held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Triples
from hopwalk.learning.ranking import sample_queries
from hopwalk.propagation.parameters import numbers_of_model, numbers_of_query

MOST_FACTS = 2000  # of dev and of train, to compare how they are connected
LEAST_FACTS = 50
FEW, MANY = 0.02, 0.1  # shares of facts


# For graphs with very many relations, smaller and smaller models: most numbers of a model, of a batch, and in all of training.
MOST_OF_MODEL, MOST_OF_BATCH, MOST_OF_TRAINING = 1 << 25, 1 << 26, 10**11
SMALLER: list[dict[str, int]] = [
    {},
    {"query_rank": 8},
    {"query_rank": 4},
    {"query_rank": 4, "layers": 3, "width": 16},
    {"query_rank": 2, "layers": 3, "width": 8, "attention_width": 4},
    {"query_rank": 1, "layers": 2, "width": 8, "attention_width": 4},
]


def suited_propagation(dataset: Dataset) -> dict[str, Any]:
    """Settings by dotted name. The steps are those of the five benchmark sets."""
    mean_degree = 2 * len(dataset.facts) / max(len(dataset.entities), 1)
    settings = {
        "layers": 3 if mean_degree > 20 else 4 if mean_degree > 6 else 5,
        "queries": int(np.clip(6 * len(dataset.train), 6_000, 60_000)),
        "hiding": suited_hiding(dataset),
    }
    suited = settings | suited_to_relations(settings, dataset.relation_ids.num_directed)
    return {f"propagation.{name}": value for name, value in suited.items()}


def suited_to_relations(settings: Mapping[str, Any], num_relations: int) -> dict[str, int]:
    """What else to set where there are very many relations (inverses included), nothing elsewhere.

    The numbers that a query makes of its relation grow with all relations, whatever the query reaches: 200,000 relations would
    take 40 GB and hours. The model gets smaller until it fits, then the batch, then the number of queries.
    """
    for smaller in SMALLER:
        given = PropagationSettings.model_validate(dict(settings) | smaller | {"layers": _fewer_layers(settings, smaller)})
        if numbers_of_model(given, num_relations) <= MOST_OF_MODEL:
            break
    of_query = numbers_of_query(given, num_relations)
    batch = int(np.clip(MOST_OF_BATCH // of_query, 1, given.batch_size))
    of_step = numbers_of_model(given, num_relations) + 2 * batch * of_query
    queries = max(min(given.queries, batch * (MOST_OF_TRAINING // of_step)), batch)
    found = {"batch_size": batch, "queries": queries} if (batch, queries) != (given.batch_size, given.queries) else {}
    return smaller | ({"layers": given.layers} if smaller else {}) | found


def _fewer_layers(settings: Mapping[str, Any], smaller: Mapping[str, int]) -> int:
    return min(int(settings["layers"]), smaller.get("layers", int(settings["layers"])))


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
