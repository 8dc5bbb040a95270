"""A budget of time as a number of training queries, measured on this machine; and what more time would bring."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.config.settings import PropagationSettings, Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.learning.ranking import sample_queries, split_queries
from hopwalk.learning.run import Run
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

SECONDS_TO_MEASURE = 3.0
SHARE_OF_RISE = 0.5  # of the rise in a run's second half: about what a run of twice the length gained (docs/propagation.md)
CHANGE_OF_A_QUERY = 0.2  # standard deviation of the change of a dev query's reciprocal rank in that half, as measured there
DEFAULT_MINUTES, FACTS_OF_DEFAULT = 2.0, 50_000  # the budget of graphs of one's own up to this size
MOST_MINUTES = 30.0  # of a larger one that are not much
SHARE_OF_TRAINING = 0.95  # of the time that evaluations leave; the rest is for calibration and files


@dataclass(frozen=True)
class Cost:
    """What training costs on this machine: seconds of a training query, and of an evaluation on dev."""

    query: float
    evaluation: float

    def seconds(self, settings: PropagationSettings) -> float:
        """The seconds that the training queries and evaluations of the settings take."""
        return settings.queries * self.query / SHARE_OF_TRAINING + settings.evaluations * self.evaluation

    def fitted(self, settings: Settings, minutes: float) -> Settings:
        """The settings with as many training queries as fit the time."""
        left = max(60 * minutes - settings.propagation.evaluations * self.evaluation, 30 * minutes)
        queries = int(SHARE_OF_TRAINING * left / self.query)
        return changed(settings, {"propagation.queries": max(queries, settings.propagation.batch_size)})


def measure_cost(dataset: Dataset, settings: Settings, *, seconds: float = SECONDS_TO_MEASURE) -> Cost:
    """The cost of training, from about so many seconds of batches, after the kernels are compiled."""
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings.propagation, dataset.facts)
    learner = PropagationLearner(scorer, dataset, settings.propagation)
    learner.time_batches(0.0)  # compiles the kernels
    seconds_of_query = learner.time_batches(seconds) / settings.propagation.batch_size
    return Cost(seconds_of_query, _seconds_of_evaluation(scorer, dataset, settings))


def fit_budget(dataset: Dataset, settings: Settings, minutes: float) -> Settings:
    """The settings with as many training queries as fit the time, whose learning-rate schedule then ends with it.

    A few batches are timed. The run that is trained with the result does not depend on time.
    """
    return measure_cost(dataset, settings).fitted(settings, minutes)


@dataclass(frozen=True)
class Plan:
    """How a graph of one's own is trained by default: the settings, the seconds that all training queries would take.

    `is_shortened`: there are fewer queries, for two minutes. `is_long`: it takes more than half an hour.
    """

    settings: Settings
    seconds: float
    is_shortened: bool = False
    is_long: bool = False


def plan_training(dataset: Dataset, settings: Settings, cost: Cost) -> Plan:
    """The settings within the default budget: two minutes for up to 50,000 facts; those of a larger graph stay."""
    seconds = cost.seconds(settings.propagation)
    if seconds > 60 * DEFAULT_MINUTES and len(dataset.facts) <= FACTS_OF_DEFAULT:
        return Plan(cost.fitted(settings, DEFAULT_MINUTES), seconds, is_shortened=True)
    return Plan(settings, seconds, is_long=seconds > 60 * MOST_MINUTES)


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


def outlook(run: Run) -> str:
    """A sentence about what twice the time would bring, or "" if the run does not tell.

    The second half of a run is its last doubling. The next one usually brings less, so no promise is made but that of about half
    of the rise, with a bound that allows for the number of dev queries. The learning rate falls to zero at the end of a run, so
    twice the time means another run of twice the length, not this one continued.
    """
    history = [record for record in run.history if record.get("valid_mrr") is not None and record.get("queries")]
    if not run.is_finished or len(history) < 2:
        return ""
    rise = history[-1]["valid_mrr"] - _mrr_at(history, history[-1]["queries"] / 2)
    noise = 2 * CHANGE_OF_A_QUERY / math.sqrt(max(history[-1].get("valid_num_queries", 1), 1))
    if rise < -noise:
        return f"More time alone would not help: dev MRR fell by {-100 * rise:.1f} points in the second half of training."
    half, most = "in the second half of training", f"at most about {100 * (rise + noise):.1f} points"
    if rise <= noise:
        return f"Twice the time would bring little, {most} of dev MRR: it changed by {100 * rise:+.1f} {half}."
    gain = f"Twice the time would bring about {100 * SHARE_OF_RISE * rise:.1f} points of dev MRR, {most}"
    return f"{gain}: it rose by {100 * rise:.1f} {half}."


def _mrr_at(history: list[dict[str, Any]], queries: float) -> float:
    """Dev MRR after so many queries, between two evaluations in proportion to the logarithm of their queries."""
    places = np.log([record["queries"] for record in history])
    return float(np.interp(math.log(queries), places, [record["valid_mrr"] for record in history]))
