"""Candidates that probabilities are fitted and measured on: the best ten new answers of queries, in both directions.

Queries are those whose head could have such a fact (`hopwalk.data.kinds`), whether it has a missing one or not. There are many
more of them than can be asked, and few have likely answers, so what is drawn stands for more: a candidate has the weight
1 / P(drawn).

- Queries that the splits answer: at most `most_queries`, all alike.
- Others: four times as many, more of the kinds of queries that the splits often answer. (A word without a known hypernym probably
  has one that is missing; one with a hypernym hardly has a second.) A kind is a relation, or an inverse, and 0, 1, 2 or more
  known answers.
- Candidates are then seen from their other end. If that takes too many queries, the likely ones are, and some of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.kinds import Kinds
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.logistic import most_likely, sigmoid
from hopwalk.learning.probability import (
    BYTES_AT_ONCE,
    FLOOR,
    EndScores,
    features,
    log_normalisers,
    scores_from_one_end,
    swapped,
)
from hopwalk.learning.ranking import Floats, ScoreAllTails, more_at_once
from hopwalk.learning.reached import ReachedScores

NUM_CANDIDATES = 10  # of a query
MOST_QUERIES = 2000  # that the splits answer
TIMES_OTHERS = 4  # as many other queries
MOST_RELATIONS = 1000  # that queries are drawn of, inverses included
TIMES_LOOKED_UP = 5  # as many queries from other ends
LEAST_FACTS = 10  # of the splits, to say anything
MANY_ANSWERS = 3  # queries with so many known answers or more are alike
LEAST_CHANCE = 0.02  # of a candidate that looks as bad as can be, against a certain one


@dataclass(frozen=True, eq=False)
class Sample:
    """Candidate facts [N] in the direction of the data: features, whether the splits have them, and their weights.

    `shares` are those of the splits in all facts known to be missing. A fact stands for as many candidates as its weight says.
    """

    facts: NDArray[np.int64]
    features: Floats
    is_labelled: NDArray[np.bool_]
    weights: Floats
    shares: Floats

    def fold(self, number: int) -> NDArray[np.int64]:
        """0 or 1 for each fact, another way for each number [N]."""
        mixed: NDArray[np.int64] = (self.facts * np.array([2654435761, 40503, 2246822519])).sum(axis=1)
        return (mixed >> (7 + number)) & 1

    def part(self, rows: NDArray[np.bool_]) -> Sample:
        """Some of the candidates."""
        return Sample(self.facts[rows], self.features[rows], self.is_labelled[rows], self.weights[rows], self.shares[rows])


def gather(
    score_all_tails: ScoreAllTails, dataset: Dataset, splits: Sequence[str], most_queries: int, *, by_relation: bool = False
) -> Sample | None:
    """The best new answers of queries whose head could have such facts; None if the splits have too few facts.

    Shares are of all relations together, for which only the number of facts in test has to be known, or `by_relation`.
    """
    missing = Triples.concatenate([dataset.splits[split] for split in splits])
    if len(missing) < LEAST_FACTS:
        return None
    random, ids = np.random.default_rng(0), dataset.relation_ids
    sizes = len(dataset.entities), len(dataset.relations)
    known, labelled = KnownAnswers([dataset.facts, dataset.train], *sizes), KnownAnswers([missing], *sizes)
    queries, weights = _draw_queries(dataset, missing, known, most_queries, random)
    heads, relations, tails, own_end, rows = _best_new(score_all_tails, dataset, known, queries)
    weights, is_labelled = weights[rows], labelled.contains(heads, relations, tails)
    share = len(missing) / max(len(dataset.valid) + len(dataset.test), 1)
    inverses = np.array([ids.inverse(relation) for relation in range(ids.num_directed)], dtype=np.int32)
    chances = _chances(own_end, weights, is_labelled, share, tails, inverses[relations], TIMES_LOOKED_UP * most_queries)
    kept = random.random(len(weights)) < chances
    heads, relations, tails, is_labelled = heads[kept], relations[kept], tails[kept], is_labelled[kept]
    own_end = EndScores(own_end.scores[kept], own_end.relative[kept], own_end.num_known[kept])
    other_end = scores_from_one_end(score_all_tails, known.counts, tails, inverses[relations], heads, sizes[0])
    is_inverse = relations >= ids.num_relations
    values = features(*swapped(is_inverse, own_end, other_end))
    forward = np.where(is_inverse, inverses[relations], relations)
    facts = np.stack([np.where(is_inverse, tails, heads), forward, np.where(is_inverse, heads, tails)], axis=1).astype(np.int64)
    shares = _shares(dataset, missing)[forward] if by_relation else np.full(len(facts), share)
    return _merged(Sample(facts, values, is_labelled, weights[kept] / chances[kept], shares))


def _shares(dataset: Dataset, missing: Triples) -> Floats:
    """The share of each relation's missing facts that is in some splits [R]."""
    every = np.append(dataset.valid.relations, dataset.test.relations)
    own, all_ = (np.bincount(relations, minlength=len(dataset.relations)) for relations in (missing.relations, every))
    return np.maximum(own, 1) / np.maximum(all_, 1)


def _merged(sample: Sample) -> Sample:
    """The same with every fact once: it may be a candidate from both of its ends."""
    facts, first, rows = np.unique(sample.facts, axis=0, return_index=True, return_inverse=True)
    weights: Floats = np.bincount(rows.reshape(-1), weights=sample.weights, minlength=len(facts)).astype(np.float64)
    return Sample(facts, sample.features[first], sample.is_labelled[first], weights, sample.shares[first])


def _draw_queries(
    dataset: Dataset, missing: Triples, known: KnownAnswers, most_queries: int, random: np.random.Generator
) -> tuple[Ids, Floats]:
    """Queries (head, relation) in both directions [Q, 2], and how many each stands for [Q].

    Of more than `MOST_RELATIONS` relations and inverses, some are drawn.
    """
    kinds, inverses = Kinds(dataset), missing.relations + dataset.relation_ids.num_relations
    heads, relations = np.append(missing.heads, missing.tails), np.append(missing.relations, inverses)
    chosen = np.sort(random.permutation(np.unique(relations))[:MOST_RELATIONS])
    every = np.concatenate([_pairs(own := kinds.heads(relation), np.full_like(own, relation)) for relation in chosen.tolist()])
    keys, answered = (found[:, 0].astype(np.int64) << 32 | found[:, 1] for found in (every, _pairs(heads, relations)))
    is_answered = np.isin(keys, answered)
    num_known = np.minimum(known.counts(every[:, 0], every[:, 1]), MANY_ANSWERS)
    _, kind = np.unique(every[:, 1].astype(np.int64) * (MANY_ANSWERS + 1) + num_known, return_inverse=True)
    often = np.bincount(kind, weights=is_answered) + is_answered.mean()  # shrunk to the mean of all kinds
    chances = np.sqrt(often / (np.bincount(kind) + 1))[kind]
    chances[is_answered] = 1.0
    for part, most in ((is_answered, most_queries), (~is_answered, TIMES_OTHERS * most_queries)):
        chances[part] = inclusion(chances[part], most)
    drawn = random.random(len(every)) < chances
    return every[drawn], 1 / chances[drawn]


def inclusion(sizes: Floats, most: int) -> Floats:
    """Probabilities of being drawn, proportional to sizes but at most 1, of which the sum is `most`, or all 1 [N]."""
    if len(sizes) <= most:
        return np.ones(len(sizes))
    order = np.sort(sizes)[::-1]
    rest = np.cumsum(order[::-1])[::-1]  # of the sizes from each place on
    certain = np.arange(len(order))  # if so many have probability 1, the factor of the others is (most - certain) / rest
    factors = np.maximum(most - certain, 0) / np.maximum(rest, 1e-300)
    fits = np.flatnonzero(factors * order <= 1)
    found: Floats = np.minimum(sizes * factors[fits[0] if len(fits) else -1], 1.0)
    return found


def _chances(
    own_end: EndScores,
    weights: Floats,
    is_labelled: NDArray[np.bool_],
    share: float,
    tails: Ids,
    inverses: Ids,
    most: int,
) -> Floats:
    """The probability of each candidate to be seen from its other end, too [N]: likely ones rather than others.

    How likely one is, is guessed from its own end. Candidates may share a query, so all are seen if those are few.
    """
    if len(np.unique(tails.astype(np.int64) << 32 | inverses)) <= most:
        return np.ones(len(weights))
    columns = np.stack([own_end.relative, own_end.scores, np.log1p(own_end.num_known)], axis=1)
    spreads = columns.std(axis=0)
    design = np.column_stack([(columns - columns.mean(axis=0)) / np.where(spreads, spreads, 1), np.ones(len(weights))])
    found = most_likely(design, is_labelled, weights, share, 1e-2, np.zeros(design.shape[1]))
    chances = inclusion(weights * (np.sqrt(sigmoid(design @ found)) + LEAST_CHANCE), most)
    return np.where(is_labelled, 1.0, chances)


def _pairs(heads: Ids, relations: Ids) -> Ids:
    return np.stack([heads, relations], axis=1).astype(np.int32)


def _best_new(
    score_all_tails: ScoreAllTails, dataset: Dataset, known: KnownAnswers, queries: Ids
) -> tuple[Ids, Ids, Ids, EndScores, NDArray[np.int64]]:
    """The best new answers of queries: heads, relations, tails, their scores, and the query of each [N]."""
    num_entities, ids = len(dataset.entities), dataset.relation_ids
    loops = np.zeros(ids.num_directed, dtype=np.bool_)
    loops[[*dataset.loop_relations, *(int(ids.inverse(relation)) for relation in dataset.loop_relations)]] = True
    rows, tails, scores, relative = [], [], [], []
    first, at_once = 0, max(BYTES_AT_ONCE // (4 * num_entities), 1)
    while first < len(queries):
        heads, relations = queries[first : first + at_once].T
        found = score_all_tails(heads, relations)
        offsets, answers = known.answers(heads, relations)
        normalisers = found.log_normalisers(num_entities) if isinstance(found, ReachedScores) else log_normalisers(found)
        for row in range(len(heads)):
            if isinstance(found, ReachedScores):
                own = slice(found.offsets[row], found.offsets[row + 1])
                entities, values = found.entities[own], found.scores[own]
            else:
                entities = np.flatnonzero(found[row] > -np.inf).astype(np.int32)
                values = found[row, entities]
            is_new = ~np.isin(entities, answers[offsets[row] : offsets[row + 1]])
            is_new &= loops[relations[row]] | (entities != heads[row])
            entities, values = entities[is_new], values[is_new].astype(np.float64)
            best = np.argsort(-values, kind="stable")[:NUM_CANDIDATES]
            rows.append(np.full(len(best), first + row))
            tails.append(entities[best])
            scores.append(values[best])
            relative.append(values[best] - normalisers[row])
        first, at_once = first + len(heads), more_at_once(at_once, found)
    query = np.concatenate(rows)
    num_known = known.counts(queries[:, 0], queries[:, 1])[query].astype(np.float64)
    end = EndScores(np.maximum(np.concatenate(scores), FLOOR), np.maximum(np.concatenate(relative), FLOOR), num_known)
    return queries[query, 0], queries[query, 1], np.concatenate(tails).astype(np.int32), end, query
