"""One probability per fact, the same asked from either end. `probability_fit` finds it from dev.

A fact (h, r, t) is seen from both of its ends: as the answer t of (h, r, ?) and as the answer h of (t, r⁻¹, ?). Its features are

- max and min of the two log-softmax scores, which say how it stands beside other answers,
- the two scores themselves, which say how much leads there,
- log(1 + n) of the answers that either query has already, if dev says that they help.

`P(true) = sigmoid(curve(w_r · features))` with weights w_r of the relation, or those of all relations, and a curve that all
share: increasing, of straight pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.triples import Ids
from hopwalk.errors import RunError
from hopwalk.learning.ranking import AllScores, Floats, ScoreAllTails, more_at_once
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.run import Run

NUM_SCORES, NUM_COUNTS = 4, 2  # features
KNOTS = (-4.0, 0.0, 2.0)  # of the curve, in log-odds
STRAIGHT = (0.0, 1.0, *(0.0 for _ in KNOTS))  # the curve that changes nothing
FLOOR = -30.0  # stands for the score -inf of what a walker does not reach
BYTES_AT_ONCE = 2**26
MOST_OF_WEIGHT = 1e9  # more is damage
PROBABILITY, RELIABILITY = "probability", "probability_reliability"  # in run.json
Weights = tuple[float, ...]
CountKnown = Callable[[Ids, Ids], NDArray[np.int64]]  # heads, relations [Q] → known answers of each query


@dataclass(frozen=True, eq=False)
class EndScores:
    """N facts seen from one end: score, log-softmax of the score over all entities, answers that the query has already [N]."""

    scores: Floats
    relative: Floats
    num_known: Floats


@dataclass(frozen=True)
class FactProbability:
    """The fitted map from both ends' scores to probabilities. Answers below `threshold` are called unlikely.

    `shared` are the weights of all relations: four for scores, two for numbers of known answers, one constant. `by_relation` are
    those of relations with facts in dev. `curve` has a constant, a slope, and the change of the slope at each of `KNOTS`.
    """

    shared: Weights
    by_relation: Mapping[int, Weights]
    threshold: float
    curve: Weights = STRAIGHT

    def log_odds(self, relations: Ids, from_head: EndScores, from_tail: EndScores) -> Floats:
        """The logit of P(true) of facts, none of whose relations is an inverse one [N]."""
        return on_curve(self.curve, linear(self.shared, self.by_relation, relations, features(from_head, from_tail)))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        by_relation = {str(relation): list(weights) for relation, weights in self.by_relation.items()}
        return {
            "shared": list(self.shared),
            "by_relation": by_relation,
            "threshold": self.threshold,
            "curve": list(self.curve),
        }


def features(from_head: EndScores, from_tail: EndScores) -> Floats:
    """The features of facts that are seen from both ends [N, 7], the constant last."""
    columns = [
        np.maximum(from_head.relative, from_tail.relative),
        np.minimum(from_head.relative, from_tail.relative),
        from_head.scores,
        from_tail.scores,
        np.log1p(from_head.num_known),
        np.log1p(from_tail.num_known),
        np.ones(len(from_head.scores)),
    ]
    return np.stack(columns, axis=1)


def linear(shared: Weights, by_relation: Mapping[int, Weights], relations: NDArray[np.integer[Any]], values: Floats) -> Floats:
    """The features of each fact times the weights of its relation [N]."""
    distinct, rows = np.unique(relations, return_inverse=True)
    weights = np.array([by_relation.get(relation, shared) for relation in distinct.tolist()]).reshape(-1, values.shape[1])
    log_odds: Floats = np.einsum("nf,nf->n", values, weights[rows.reshape(-1)])
    return log_odds


def on_curve(curve: Weights, log_odds: Floats) -> Floats:
    """The values of the curve [N]."""
    found: Floats = curve_design(log_odds) @ np.array(curve)
    return found


def curve_design(log_odds: Floats) -> Floats:
    """The columns that a curve is made of: 1, x, and max(x − knot, 0) for each knot [N, 2 + K]."""
    return np.stack([np.ones_like(log_odds), log_odds, *(np.maximum(log_odds - knot, 0) for knot in KNOTS)], axis=1)


def swapped(is_swapped: NDArray[np.bool_], one: EndScores, other: EndScores) -> tuple[EndScores, EndScores]:
    """The two in this order, or where `is_swapped` in the other."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in EndScores.__dataclass_fields__]
    first = EndScores(*(np.where(is_swapped, right, left) for left, right in pairs))
    return first, EndScores(*(np.where(is_swapped, left, right) for left, right in pairs))


def scores_from_one_end(
    score_all_tails: ScoreAllTails, count_known: CountKnown, heads: Ids, relations: Ids, tails: Ids, num_entities: int
) -> EndScores:
    """Facts as answers of `(head, relation, ?)`; every distinct query is scored once. Relations may be inverse ones."""
    queries, rows = np.unique(np.stack([heads, relations], axis=1), axis=0, return_inverse=True)
    rows, (query_heads, query_relations) = rows.reshape(-1), queries.T.astype(np.int32)
    scores, relative = np.empty(len(heads)), np.empty(len(heads))
    order = np.argsort(rows, kind="stable")
    first, at_once = 0, max(BYTES_AT_ONCE // (4 * num_entities), 1)
    while first < len(queries):
        last = min(first + at_once, len(queries))
        found = score_all_tails(query_heads[first:last], query_relations[first:last])
        own = order[np.searchsorted(rows[order], first) : np.searchsorted(rows[order], last)]
        scores[own], relative[own] = _of_answers(found, rows[own] - first, tails[own], num_entities)
        first, at_once = last, more_at_once(at_once, found)
    return EndScores(scores, relative, count_known(query_heads, query_relations)[rows].astype(np.float64))


def _of_answers(found: AllScores, rows: NDArray[np.int64], answers: Ids, num_entities: int) -> tuple[Floats, Floats]:
    """The score and its log-softmax of each answer for the query in its row [N]."""
    if isinstance(found, ReachedScores):
        scores, normalisers = found.scores_of(rows, answers).astype(np.float64), found.log_normalisers(num_entities)
    else:
        scores, normalisers = found[rows, answers].astype(np.float64), log_normalisers(found)
    return np.maximum(scores, FLOOR), np.maximum(scores - normalisers[rows], FLOOR)


def log_normalisers(table: NDArray[np.float32]) -> Floats:
    """log Σ exp(score) over all entities, for every query [Q]; a query may reach nothing."""
    scores = table.astype(np.float64)
    highest = np.maximum(scores.max(axis=1), np.finfo(np.float64).min)
    with np.errstate(divide="ignore"):
        normalisers: Floats = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
    return np.where(np.isfinite(normalisers), normalisers, 0.0)


# In a run folder


def probability_of(run: Run) -> FactProbability | None:
    """The probabilities in a run folder; None if it has none."""
    values: Any = run.about.get(PROBABILITY)
    if values is None:
        return None
    try:
        shared = _read_weights(values["shared"])
        by_relation = {int(relation): _read_weights(weights) for relation, weights in values["by_relation"].items()}
        threshold = float(values["threshold"])
        curve = _read_weights(values.get("curve", STRAIGHT), len(STRAIGHT))
        if not 0 <= threshold <= 1:
            raise ValueError(threshold)
    except (TypeError, ValueError, AttributeError, KeyError):
        problem = "run.json is damaged: its probabilities cannot be read"
        raise RunError(problem, path=run.path, remedy="Train it again.") from None
    return FactProbability(shared, by_relation, threshold, curve)


def _read_weights(values: Any, number: int = NUM_SCORES + NUM_COUNTS + 1) -> Weights:
    weights = tuple(float(value) for value in values)
    if len(weights) != number or not (np.abs(weights) <= MOST_OF_WEIGHT).all():
        raise ValueError(values)
    return weights
