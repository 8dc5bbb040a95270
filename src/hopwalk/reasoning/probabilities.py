"""The probabilities of candidates: one for each fact, the same asked from either end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import HopwalkError
from hopwalk.learning.probability import FLOOR, EndScores, FactProbability, scores_from_one_end, swapped
from hopwalk.learning.ranking import AllScores
from hopwalk.learning.reached import ReachedScores
from hopwalk.reasoning.models import AnswerModel, Candidates, Floats, QueryIds

POOL = 20  # candidates of a query, the best by score, that are seen from both ends and ranked by probability


def pool_size(k: int) -> int:
    """How many candidates to look at for the `k` most probable ones."""
    return max(2 * k, POOL)


def probabilities(
    model: AnswerModel, queries: Sequence[QueryIds], found: Sequence[Candidates], hidden: Triples | None = None
) -> list[Floats] | None:
    """The probability of each candidate of each query to be true; None if the model is not calibrated.

    `hidden` are facts that are not seen from either end.
    """
    if model.probability is not None:
        return [_sigmoid(own) for own in _from_both_ends(model, model.probability, queries, found, hidden)]
    return None if model.calibration is None else [one_direction(model, own) for own in found]


def one_direction(model: AnswerModel, found: Candidates | EndScores) -> Floats:
    """What the scores of one direction alone say: the probability of each candidate by the calibration of scores [N]."""
    if model.calibration is None:
        raise HopwalkError("the run has no calibrated probabilities", remedy="Train it again with this version of hopwalk.")
    inputs = found.relative if model.calibration.is_relative else found.scores
    return _sigmoid(inputs * model.calibration.slope + model.calibration.offset)


def probabilities_of_facts(model: AnswerModel, relations: Ids, from_head: EndScores, from_tail: EndScores) -> Floats:
    """The probability of facts that were seen from both ends [N]; of a model without dev facts, the mean of both directions."""
    if model.probability is None:
        return (one_direction(model, from_head) + one_direction(model, from_tail)) / 2
    return _sigmoid(model.probability.log_odds(relations, from_head, from_tail))


def _sigmoid(log_odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))


def by_probability(found: Candidates, chances: Floats) -> NDArray[np.int64]:
    """The places of candidates from the most probable one down; of equals, by score."""
    return np.lexsort((found.entities, -found.scores, -chances))


def asked_scores(model: AnswerModel, heads: Ids, relations: Ids) -> AllScores:
    """Scores of all entities by which they have the order that `ask` gives to new answers: the best by score by probability.

    These have a score of their own above all others; the others keep theirs.
    """
    queries = list(zip(heads.tolist(), relations.tolist(), strict=True))
    found, pools = model.score_all_tails(heads, relations), model.rank(queries, only_new=True, k=POOL).candidates
    chances = probabilities(model, queries, pools)
    if chances is None:
        return found
    rows = np.repeat(np.arange(len(queries)), [len(pool.entities) for pool in pools])
    entities = np.concatenate([pool.entities for pool in pools])
    scores = np.array([pool.scores.max(initial=0.0) for pool in pools])[rows] + 1 + np.concatenate(chances)
    if isinstance(found, ReachedScores):
        raised = found.scores.copy()
        raised[found.find(rows, entities)] = scores
        return replace(found, scores=raised)
    found = found.copy()
    found[rows, entities] = scores
    return found


def _from_both_ends(
    model: AnswerModel,
    probability: FactProbability,
    queries: Sequence[QueryIds],
    found: Sequence[Candidates],
    hidden: Triples | None,
) -> list[Floats]:
    def score(heads: Ids, relations: Ids) -> AllScores:
        return model.score_all_tails(heads, relations, [] if hidden is None else [hidden] * len(heads))

    counts, count_known = [len(own.entities) for own in found], partial(_count_known, model, hidden)
    if not sum(counts):
        return [np.empty(0) for _ in found]
    heads, relations = (np.repeat(np.array(ids, dtype=np.int32), counts) for ids in zip(*queries, strict=True))
    tails = np.concatenate([own.entities for own in found]).astype(np.int32)
    scores, relative = (np.concatenate([getattr(own, name) for own in found]) for name in ("scores", "relative"))
    own_end = EndScores(np.maximum(scores, FLOOR), np.maximum(relative, FLOOR), count_known(heads, relations).astype(np.float64))
    inverses, is_inverse = model.dataset.relation_ids.inverse(relations), model.dataset.relation_ids.is_inverse(relations)
    other_end = scores_from_one_end(score, count_known, tails, inverses, heads, len(model.dataset.entities))
    from_head, from_tail = swapped(is_inverse, own_end, other_end)
    log_odds = probability.log_odds(np.where(is_inverse, inverses, relations), from_head, from_tail)
    return np.split(log_odds, np.cumsum(counts)[:-1])


def _count_known(model: AnswerModel, hidden: Triples | None, heads: Ids, relations: Ids) -> NDArray[np.int64]:
    """How many answers each query has already, without those that are hidden [Q]."""
    counts = model.known.counts(heads, relations)
    for head, relation, tail in [] if hidden is None else hidden.array().tolist():
        if model.known.contains(*(np.array([id_], dtype=np.int32) for id_ in (head, relation, tail)))[0]:
            inverse = int(model.dataset.relation_ids.inverse(relation))
            counts = counts - ((heads == head) & (relations == relation)) - ((heads == tail) & (relations == inverse))
    return counts
