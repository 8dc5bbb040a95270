"""A trained model at a glance: its strongest rules over all relations, and a query to begin with."""

from __future__ import annotations

import math
import time

import numpy as np

from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.reasoning.models import AnswerModel
from hopwalk.reasoning.rule_mining import UsedRule, used_rules
from hopwalk.reasoning.rules import Evidence

MOST_RELATIONS, NUM_QUERIES, NUM_ANSWERS, NUM_PATHS = 12, 20, 2, 2  # relations with most facts; queries, answers, paths of each
LEAST_SUPPORT = 3  # facts that a rule predicts
MOST_SECONDS = 10.0  # of CPU, after which no other relation is begun


def strongest_rules(model: AnswerModel, *, k: int = 5, most_seconds: float = MOST_SECONDS) -> list[UsedRule]:
    """The `k` rules behind the model's answers that hold most surely: by the lower end of a 95 % interval of their confidence.

    They come from a few training queries of each of the relations with most facts, whose facts are hidden from them. A model
    without paths has none.
    """
    if not model.max_hops:
        return []
    dataset, started = model.dataset, 0.0
    counts = np.bincount(dataset.train.relations, minlength=len(dataset.relations))
    found: list[UsedRule] = []
    for relation in np.argsort(-counts, kind="stable")[:MOST_RELATIONS].tolist():
        if not counts[relation] or (started and time.process_time() - started > most_seconds):
            break
        try:
            found += used_rules(model, relation, k=k, most_queries=NUM_QUERIES, answers=NUM_ANSWERS, num_paths=1, num_examples=1)
        except DataError:  # no queries about it
            continue
        started = started or time.process_time()  # the first relation may compile kernels
    found = [used for used in found if used.rule.body and used.evidence.support >= LEAST_SUPPORT]
    return sorted(found, key=lambda used: -surely(used.evidence))[:k]


def surely(evidence: Evidence) -> float:
    """The lower end of the 95 % interval of a rule's confidence (Wilson, 1927): a rule that holds 3 of 3 times may be luck.

    >>> round(surely(Evidence(3, 3, False)), 2), round(surely(Evidence(100, 90, False)), 2)
    (0.44, 0.83)
    """
    n, p, z = max(evidence.predictions, 1), evidence.confidence, 1.96
    return (p + z * z / (2 * n) - z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)


def example_query(model: AnswerModel) -> tuple[str, str]:
    """A query by the labels of its head and relation: of a dev fact, else of a training fact, of the relation with most."""
    dataset = model.dataset
    facts: Triples = next(part for part in (dataset.valid, dataset.train, dataset.facts) if len(part))
    relation = int(np.bincount(facts.relations).argmax())
    head = int(facts.heads[facts.relations == relation][0])
    return dataset.entities[head], dataset.relations[relation]
