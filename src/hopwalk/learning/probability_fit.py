"""Fit and measure the probabilities of facts.

First the weights: logistic regression by relation. The weights w_r of a relation shrink towards those of all relations: the fewer
examples it has, the more (a ridge around the shared weights). Then the curve that all relations share, fitted on the log-odds of
candidates that had no part in the weights: it corrects what a straight line gets wrong, mostly among likely facts. Whether the
curve is used, and numbers of known answers, is chosen by two-fold cross-validation on dev.

*What true means.* The candidates are the best new answers of queries whose head could have such a fact; dev facts among them are
labelled. Dev holds only the share c = |dev| / (|dev| + |test|) of the facts that are known to be missing, so a true fact is
labelled with probability c (`logistic`). Of test, only its size has a part in that. Without test facts c is 1, and true means:
would be found among facts held out like dev.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.learning.candidates import MOST_QUERIES, Sample, gather
from hopwalk.learning.logistic import balanced, log_loss, most_likely, sigmoid
from hopwalk.learning.probability import (
    NUM_COUNTS,
    NUM_SCORES,
    PROBABILITY,
    RELIABILITY,
    STRAIGHT,
    FactProbability,
    Weights,
    curve_design,
    linear,
    on_curve,
)
from hopwalk.learning.ranking import Floats, ScoreAllTails
from hopwalk.learning.reliability import FactReliability, reliability

RIDGE = 5.0  # how strongly the weights of a relation are drawn to those of all, in units of standardised features
FREE, BENT = 0.1, 30.0  # ridges of the curve: of its constant and slope, and of its bends
WORTH = 1.005  # the log-loss may rise by this factor for a curve that lowers the calibration error
LEAST_SLOPE = 0.05  # of the curve: what is more likely stays more likely


def fit_probability(
    score_all_tails: ScoreAllTails, dataset: Dataset, *, most_queries: int = MOST_QUERIES
) -> tuple[FactProbability, FactReliability] | None:
    """The probabilities that fit dev best, and their reliability by two-fold cross-validation; None if dev has too few facts."""
    sample = gather(score_all_tails, dataset, ["valid"], most_queries)
    if sample is None:
        return None
    halves = [sample.fold(0) == number for number in (0, 1)]
    if any(not sample.is_labelled[half].any() for half in halves):
        return None
    held_out = {uses_counts: _held_out(sample, halves, uses_counts) for uses_counts in (True, False)}
    losses = {
        uses_counts: log_loss(sigmoid(log_odds), sample.is_labelled, sample.weights, sample.shares)
        for uses_counts, log_odds in held_out.items()
    }
    uses_counts = losses[True] < losses[False]
    straight, bent = (_tried(sample, halves, dataset, uses_counts, is_bent) for is_bent in (False, True))
    is_bent = bent.on_dev.likely_error < straight.on_dev.likely_error and bent.loss < WORTH * straight.loss
    chances, on_dev = (bent if is_bent else straight).chances, (bent if is_bent else straight).on_dev
    probability = replace(_fit(sample, uses_counts, is_bent), threshold=_threshold(sample, chances))
    return probability, on_dev


def measure_probability(
    score_all_tails: ScoreAllTails,
    probability: FactProbability,
    dataset: Dataset,
    splits: Sequence[str] = ("test",),
    *,
    most_queries: int = MOST_QUERIES,
) -> FactReliability | None:
    """The reliability of fitted probabilities on the facts of some splits; None if they have too few."""
    sample = gather(score_all_tails, dataset, splits, most_queries, by_relation=True)
    if sample is None:
        return None
    return reliability(sample, sigmoid(_log_odds(probability, sample)), dataset, splits)


def probability_about(score_all_tails: ScoreAllTails, dataset: Dataset, *, most_queries: int = MOST_QUERIES) -> dict[str, Any]:
    """Probabilities and their reliability for `run.json`."""
    fitted = fit_probability(score_all_tails, dataset, most_queries=most_queries)
    if fitted is None:
        return {PROBABILITY: None, RELIABILITY: None}
    return {PROBABILITY: fitted[0].to_dict(), RELIABILITY: fitted[1].to_dict()}


@dataclass(frozen=True, eq=False)
class _Tried:
    """Probabilities of candidates that had no part in them [N], their reliability, and the log-loss."""

    chances: Floats
    on_dev: FactReliability
    loss: float


def _tried(sample: Sample, halves: Sequence[NDArray[np.bool_]], dataset: Dataset, uses_counts: bool, is_bent: bool) -> _Tried:
    chances = np.empty(len(sample.weights))
    for half in halves:
        chances[half] = sigmoid(_log_odds(_fit(sample.part(~half), uses_counts, is_bent), sample.part(half)))
    loss = log_loss(chances, sample.is_labelled, sample.weights, sample.shares)
    return _Tried(chances, reliability(sample, chances, dataset, ["valid"]), loss)


def _log_odds(probability: FactProbability, sample: Sample) -> Floats:
    """The log-odds of candidates [N]."""
    log_odds = linear(probability.shared, probability.by_relation, sample.facts[:, 1], sample.features)
    return on_curve(probability.curve, log_odds)


def _fit(sample: Sample, uses_counts: bool, is_bent: bool) -> FactProbability:
    """Weights and curve. The curve is fitted on log-odds of candidates by weights that these had no part in."""
    weights, quarters = _fit_weights(sample, uses_counts), [sample.fold(1) == number for number in (0, 1)]
    if not is_bent or any(not sample.is_labelled[quarter].any() for quarter in quarters):
        return FactProbability(*weights, 0.5)
    return FactProbability(*weights, 0.5, _fit_curve(sample, _held_out(sample, quarters, uses_counts)))


def _held_out(sample: Sample, parts: Sequence[NDArray[np.bool_]], uses_counts: bool) -> Floats:
    """The log-odds of each candidate by weights that are fitted on the other part [N]."""
    found = np.empty(len(sample.weights))
    for part in parts:
        weights = _fit_weights(sample.part(~part), uses_counts)
        found[part] = linear(*weights, sample.facts[part, 1], sample.features[part])
    return found


def _fit_weights(sample: Sample, uses_counts: bool) -> tuple[Weights, dict[int, Weights]]:
    """The weights of all relations together, and of each one."""
    used = np.ones(sample.features.shape[1], dtype=np.bool_)
    used[NUM_SCORES : NUM_SCORES + NUM_COUNTS] = uses_counts
    values = sample.features[:, used]
    means, spreads = values.mean(axis=0), values.std(axis=0)
    means[-1], spreads[-1] = 0.0, 1.0  # the constant
    spreads[spreads == 0] = 1.0
    design, ridge = (values - means) / spreads, RIDGE * _copies(sample)

    def unscaled(fitted: Floats) -> Weights:
        own = fitted / spreads
        own[-1] -= own[:-1] @ means[:-1]
        full = np.zeros(len(used))
        full[used] = own
        return tuple(full.tolist())

    def fitted(rows: NDArray[np.bool_] | slice, ridge: float, middle: Floats) -> Floats:
        return most_likely(design[rows], sample.is_labelled[rows], sample.weights[rows], sample.shares[rows], ridge, middle)

    middle = fitted(slice(None), 1e-2, np.zeros(design.shape[1]))
    relations = sample.facts[:, 1]
    by_relation = {relation: unscaled(fitted(relations == relation, ridge, middle)) for relation in np.unique(relations).tolist()}
    return unscaled(middle), by_relation


def _fit_curve(sample: Sample, log_odds: Floats) -> Weights:
    """The curve for log-odds of candidates that had no part in the weights they are made with."""
    ridges = np.array([FREE, FREE, *(BENT for _ in STRAIGHT[2:])]) * _copies(sample)
    found = balanced(
        curve_design(log_odds), sample.is_labelled, sample.weights, sample.shares, ridges, np.array(STRAIGHT, dtype=np.float64)
    )
    slopes = np.maximum(np.cumsum(found[1:]), LEAST_SLOPE)
    return (float(found[0]), *np.diff(slopes, prepend=0.0).tolist())


def _copies(sample: Sample) -> float:
    """The mean weight of a labelled fact. Ridges are multiplied by it, so that they count sampled facts, not weighted ones."""
    return float(sample.weights[sample.is_labelled].mean())


def _threshold(sample: Sample, probabilities: Floats) -> float:
    """The probability at which the expected F1 of what is above it is highest, at most one half."""
    order = np.argsort(-probabilities)
    weights, true = sample.weights[order], (sample.weights * probabilities)[order]
    expected_f1 = 2 * np.cumsum(true) / (np.cumsum(weights) + true.sum())
    return float(min(probabilities[order[int(np.argmax(expected_f1))]], 0.5))
