"""A budget of time as a number of training queries, measured on this machine."""

from __future__ import annotations

import time

from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.learning.ranking import sample_queries, split_queries
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

SECONDS_TO_MEASURE = 3.0
SHARE_OF_TRAINING = 0.95  # of the time that evaluations leave; the rest is for calibration and files


def fit_budget(dataset: Dataset, settings: Settings, minutes: float) -> Settings:
    """The settings with as many training queries as fit the time, whose learning-rate schedule then ends with it.

    A few batches are timed, after the kernels are compiled. The run that is trained with the result does not depend on time.
    """
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings.propagation, dataset.facts)
    learner = PropagationLearner(scorer, dataset, settings.propagation)
    learner.time_batches(0.0)  # compiles the kernels
    seconds_of_query = learner.time_batches(SECONDS_TO_MEASURE) / settings.propagation.batch_size
    evaluation = _seconds_of_evaluation(scorer, dataset, settings)
    left = max(60 * minutes - settings.propagation.evaluations * evaluation, 30 * minutes)
    queries = int(SHARE_OF_TRAINING * left / seconds_of_query)
    return changed(settings, {"propagation.queries": max(queries, settings.propagation.batch_size)})


def _seconds_of_evaluation(scorer: PropagationScorer, dataset: Dataset, settings: Settings) -> float:
    """The time that ranking dev takes, from a few of its queries."""
    queries = sample_queries(split_queries(dataset, "valid"), settings.propagation.dev_queries)
    if not len(queries):
        return 0.0
    some = sample_queries(queries, 64)
    scorer.score_reached(some.heads[:1], some.relations[:1])  # compiles the kernels
    started = time.perf_counter()
    scorer.score_reached(some.heads, some.relations)
    return (time.perf_counter() - started) / len(some) * len(queries)
