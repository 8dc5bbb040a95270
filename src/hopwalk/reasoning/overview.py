"""A trained model at a glance: its strongest rules over all relations, and a query to begin with."""

from __future__ import annotations

import time

import numpy as np

from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.rule_mining import UsedRule, used_rules

MOST_RELATIONS, NUM_QUERIES, NUM_ANSWERS = 12, 20, 2  # relations with most facts, queries of each, answers of each
LEAST_SUPPORT = 3  # facts that a rule predicts
MOST_SECONDS = 10.0  # after which no other relation is begun


def strongest_rules(model: AnswerModel, *, k: int = 5, most_seconds: float = MOST_SECONDS) -> list[UsedRule]:
    """The `k` rules with the largest product of use and confidence: of the queries that a rule helps to answer, those it is for.

    They come from a few dev or training queries of each of the relations with most facts. A model without paths has none.
    """
    if not model.max_hops:
        return []
    dataset, started = model.dataset, time.monotonic()
    counts = np.bincount(dataset.train.relations, minlength=len(dataset.relations))
    found: list[UsedRule] = []
    for relation in np.argsort(-counts, kind="stable")[:MOST_RELATIONS].tolist():
        if not counts[relation] or time.monotonic() - started > most_seconds:
            break
        try:
            found += used_rules(model, relation, k=k, most_queries=NUM_QUERIES, answers=NUM_ANSWERS, num_paths=1, num_examples=1)
        except DataError:  # no queries about it
            continue
    found = [used for used in found if used.rule.body and used.evidence.support >= LEAST_SUPPORT]
    return sorted(found, key=lambda used: -max(used.queries, 1) * used.evidence.confidence)[:k]


def example_query(model: AnswerModel) -> tuple[str, str]:
    """A query by the labels of its head and relation: of a dev fact, else of a training fact, of the relation with most."""
    dataset = model.dataset
    facts: Triples = next(part for part in (dataset.valid, dataset.train, dataset.facts) if len(part))
    relation = int(np.bincount(facts.relations).argmax())
    head = int(facts.heads[facts.relations == relation][0])
    return dataset.entities[head], dataset.relations[relation]
