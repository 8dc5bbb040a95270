"""One probability per fact, the same asked from either end, calibrated on dev for each relation.

A fact (h, r, t) is seen from both of its ends: as the answer t of (h, r, ?) and as the answer h of (t, r⁻¹, ?). Its features are

- max and min of the two log-softmax scores, which say how it stands beside other answers,
- the two scores themselves, which say how much leads there,
- log(1 + n) of the answers that either query has already, if dev says that they help.

`P(true) = sigmoid(w_r · features)`: logistic regression. The weights w_r of a relation shrink towards those of all relations: the
fewer examples it has, the more (a ridge around the shared weights).

*What true means.* The candidates are the best ten new answers of queries (h, r), in both directions, whose head could have such a
fact; dev facts among them are labelled. Dev holds only the share c = |dev| / (|dev| + |test|) of the facts that are known to be
missing, so a true fact is labelled with probability c, and the likelihood is that of `c · P(true)` (learning from positive and
unlabelled data). Of test, only its size has a part in that. Without test facts c is 1, and true means: would be found among facts
held out like dev.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.kinds import Kinds
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids, Triples
from hopwalk.errors import RunError
from hopwalk.learning.ranking import AllScores, Floats, ScoreAllTails, more_at_once
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.run import Run

NUM_CANDIDATES = 10  # of a query, that probabilities are fitted and measured on
NUM_SCORES, NUM_COUNTS = 4, 2  # features
RIDGE = 5.0  # how strongly the weights of a relation are drawn to those of all, in units of standardised features
FLOOR = -30.0  # stands for the score -inf of what a walker does not reach
BYTES_AT_ONCE = 2**26
MOST_QUERIES = 1000  # that the splits answer, and as many others
MOST_OF_WEIGHT = 1e9  # more is damage
MOST_RELATIONS = 1000  # that queries are drawn of, inverses included
LEAST_FACTS = 10  # of dev, to fit anything
NUM_BINS, NUM_WORST = 10, 5
LIKELY, MANY_FACTS = 0.2, 50  # probabilities and relations that are compared one by one
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
    those of relations with facts in dev.
    """

    shared: Weights
    by_relation: Mapping[int, Weights]
    threshold: float

    def log_odds(self, relations: Ids, from_head: EndScores, from_tail: EndScores) -> Floats:
        """The logit of P(true) of facts, none of whose relations is an inverse one [N]."""
        return _log_odds(self.shared, self.by_relation, relations, _features(from_head, from_tail))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        by_relation = {str(relation): list(weights) for relation, weights in self.by_relation.items()}
        return {"shared": list(self.shared), "by_relation": by_relation, "threshold": self.threshold}


@dataclass(frozen=True)
class FactReliability:
    """Probabilities of candidates compared with the share of them that is true.

    `error` is the expected calibration error of all candidates, most of which are clearly false; `likely_error` that of those
    with a probability of at least 0.2. `bins` are (mean probability, share that is true, number of candidates). `relations` are
    the worst ones of those with at least 50 facts in the split, as (relation, mean probability, share that is true, number) of
    their candidates with a probability of at least 0.2.
    """

    error: float
    likely_error: float
    bins: tuple[tuple[float, float, int], ...]
    relations: tuple[tuple[str, float, float, int], ...]

    def lines(self) -> list[str]:
        """The result in sentences."""
        found = [
            f"Expected calibration error: {self.error:.4f} over the {NUM_CANDIDATES} best new candidates of each query, "
            f"{self.likely_error:.4f} over those with a probability of at least {LIKELY}."
        ]
        for name, mean, share, count in self.relations[:1]:
            found.append(f"The relation furthest off is {name}: {mean:.2f} predicted, {share:.2f} true, of {count:,} candidates.")
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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


def _features(from_head: EndScores, from_tail: EndScores) -> Floats:
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


def _log_odds(
    shared: Weights, by_relation: Mapping[int, Weights], relations: NDArray[np.integer[Any]], features: Floats
) -> Floats:
    distinct, rows = np.unique(relations, return_inverse=True)
    weights = np.array([by_relation.get(relation, shared) for relation in distinct.tolist()]).reshape(-1, features.shape[1])
    log_odds: Floats = np.einsum("nf,nf->n", features, weights[rows.reshape(-1)])
    return log_odds


# Candidates


@dataclass(frozen=True, eq=False)
class _Sample:
    """Candidates [N]: their facts in the direction of the data, features, whether the splits have them, and their weights.

    `share` is that of the splits in all facts known to be missing. A candidate stands for as many as its weight says.
    """

    facts: NDArray[np.int64]
    features: Floats
    is_labelled: NDArray[np.bool_]
    weights: Floats
    share: float

    @property
    def half(self) -> NDArray[np.int64]:
        """0 or 1 by the fact, so that a fact that is seen from both ends is in one half [N]."""
        mixed: NDArray[np.int64] = (self.facts * np.array([2654435761, 40503, 2246822519])).sum(axis=1)
        return (mixed >> 7) & 1


def _gather(score_all_tails: ScoreAllTails, dataset: Dataset, splits: Sequence[str], most_queries: int) -> _Sample | None:
    """The best new answers of queries whose head has such facts; None if the splits have too few facts.

    Queries that the splits answer are rare among all queries, so at most `most_queries` of them and as many others are drawn.
    """
    missing = Triples.concatenate([dataset.splits[split] for split in splits])
    if len(missing) < LEAST_FACTS:
        return None
    sizes = len(dataset.entities), len(dataset.relations)
    known, labelled = KnownAnswers([dataset.facts, dataset.train], *sizes), KnownAnswers([missing], *sizes)
    queries, weights = _draw_queries(dataset, missing, most_queries)
    heads, relations, tails, own_end, rows = _best_new(score_all_tails, dataset, known, queries)
    ids = dataset.relation_ids
    inverses = np.array([ids.inverse(relation) for relation in range(ids.num_directed)], dtype=np.int32)
    other_end = scores_from_one_end(score_all_tails, known.counts, tails, inverses[relations], heads, sizes[0])
    is_inverse = relations >= ids.num_relations
    from_head, from_tail = swapped(is_inverse, own_end, other_end)
    forward = np.where(is_inverse, inverses[relations], relations)
    facts = np.stack([np.where(is_inverse, tails, heads), forward, np.where(is_inverse, heads, tails)], axis=1).astype(np.int64)
    share = len(missing) / max(len(dataset.valid) + len(dataset.test), 1)
    is_labelled = labelled.contains(heads, relations, tails)
    return _Sample(facts, _features(from_head, from_tail), is_labelled, weights[rows], share)


def _draw_queries(dataset: Dataset, missing: Triples, most_queries: int) -> tuple[Ids, Floats]:
    """Queries (head, relation) in both directions [Q, 2], and how many each stands for [Q].

    Whether a query is drawn must not depend on whether it has an answer, so heads without a known fact of the relation are those
    that could have one. Of more than `MOST_RELATIONS` relations and inverses, some are drawn.
    """
    random, kinds = np.random.default_rng(0), Kinds(dataset)
    inverses = missing.relations + dataset.relation_ids.num_relations
    heads, relations = np.append(missing.heads, missing.tails), np.append(missing.relations, inverses)
    chosen = np.sort(random.permutation(np.unique(relations))[:MOST_RELATIONS])
    every = np.concatenate([_pairs(own := kinds.heads(relation), np.full_like(own, relation)) for relation in chosen.tolist()])
    keys, answered = (found[:, 0].astype(np.int64) << 32 | found[:, 1] for found in (every, _pairs(heads, relations)))
    is_answered = np.isin(keys, answered)
    drawn, weights = [], []
    for part in (every[is_answered], every[~is_answered]):
        drawn.append(part[np.sort(random.permutation(len(part))[:most_queries])])
        weights.append(np.full(len(drawn[-1]), len(part) / max(len(drawn[-1]), 1)))
    return np.concatenate(drawn), np.concatenate(weights)


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


# Fitting


def fit_probability(
    score_all_tails: ScoreAllTails, dataset: Dataset, *, most_queries: int = MOST_QUERIES
) -> tuple[FactProbability, FactReliability] | None:
    """The probabilities that fit dev best, and their reliability by two-fold cross-validation; None if dev has too few facts."""
    sample = _gather(score_all_tails, dataset, ["valid"], most_queries)
    if sample is None:
        return None
    halves = [sample.half == number for number in (0, 1)]
    if any(not sample.is_labelled[half].any() for half in halves):
        return None
    held_out: dict[bool, Floats] = {}
    for uses_counts in (True, False):
        held_out[uses_counts] = np.empty(len(sample.weights))
        for half in halves:
            weights = _fit(sample, ~half, uses_counts)
            held_out[uses_counts][half] = _sigmoid(_log_odds(*weights, sample.facts[half, 1], sample.features[half]))
    uses_counts = _loss(sample, held_out[True]) < _loss(sample, held_out[False])
    shared, by_relation = _fit(sample, np.ones(len(sample.weights), dtype=np.bool_), uses_counts)
    probability = FactProbability(shared, by_relation, _threshold(sample, held_out[uses_counts]))
    return probability, _reliability(sample, held_out[uses_counts], dataset, ["valid"])


def measure_probability(
    score_all_tails: ScoreAllTails,
    probability: FactProbability,
    dataset: Dataset,
    splits: Sequence[str] = ("test",),
    *,
    most_queries: int = MOST_QUERIES,
) -> FactReliability | None:
    """The reliability of fitted probabilities on the facts of some splits; None if they have too few."""
    sample = _gather(score_all_tails, dataset, splits, most_queries)
    if sample is None:
        return None
    log_odds = _log_odds(probability.shared, probability.by_relation, sample.facts[:, 1], sample.features)
    return _reliability(sample, _sigmoid(log_odds), dataset, splits)


def _fit(sample: _Sample, rows: NDArray[np.bool_], uses_counts: bool) -> tuple[Weights, dict[int, Weights]]:
    """The weights of all relations together, and of each one."""
    used = np.ones(sample.features.shape[1], dtype=np.bool_)
    used[NUM_SCORES : NUM_SCORES + NUM_COUNTS] = uses_counts
    features = sample.features[rows][:, used]
    means, spreads = features.mean(axis=0), features.std(axis=0)
    means[-1], spreads[-1] = 0.0, 1.0  # the constant
    spreads[spreads == 0] = 1.0
    design, labels, weights = (features - means) / spreads, sample.is_labelled[rows], sample.weights[rows]

    def unscaled(fitted: Floats) -> Weights:
        own = fitted / spreads
        own[-1] -= own[:-1] @ means[:-1]
        full = np.zeros(len(used))
        full[used] = own
        return tuple(full.tolist())

    middle = _maximise(design, labels, weights, sample.share, 1e-2, np.zeros(design.shape[1]))
    relations, by_relation = sample.facts[rows, 1], {}
    for relation in np.unique(relations).tolist():
        own = relations == relation
        by_relation[relation] = unscaled(_maximise(design[own], labels[own], weights[own], sample.share, RIDGE, middle))
    return unscaled(middle), by_relation


def _maximise(design: Floats, labels: NDArray[np.bool_], weights: Floats, share: float, ridge: float, middle: Floats) -> Floats:
    """The parameters of the largest penalised likelihood of labels with P(label) = share · sigmoid(design · parameters).

    By Fisher scoring with halved steps where one goes too far; the penalty is the squared distance from `middle`.
    """

    def loss(parameters: Floats) -> float:
        labelled = share * np.clip(_sigmoid(design @ parameters), 1e-12, 1 - 1e-12)
        likelihoods = np.log(np.where(labels, labelled, 1 - labelled))
        return float(0.5 * ridge * ((parameters - middle) ** 2).sum() - weights @ likelihoods)

    parameters, current = middle.copy(), loss(middle)
    for _ in range(100):
        true = np.clip(_sigmoid(design @ parameters), 1e-12, 1 - 1e-12)
        labelled, slopes = share * true, share * true * (1 - true)
        variances = labelled * (1 - labelled)
        gradient = design.T @ (weights * (labelled - labels) * slopes / variances) + ridge * (parameters - middle)
        information = (design * (weights * slopes**2 / variances)[:, None]).T @ design + (ridge + 1e-8) * np.eye(len(middle))
        step = np.linalg.solve(information, gradient)
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        following = loss(parameters - step)
        while following > current and np.abs(step).max() > 1e-9:
            step /= 2
            following = loss(parameters - step)
        if following > current:
            break
        parameters, gained, current = parameters - step, current - following, following
        if gained < 1e-9 * max(abs(current), 1.0):
            break
    return parameters


def _sigmoid(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))


def _loss(sample: _Sample, probabilities: Floats) -> float:
    labelled = sample.share * np.clip(probabilities, 1e-12, 1 - 1e-12)
    return float(-sample.weights @ np.log(np.where(sample.is_labelled, labelled, 1 - labelled)))


def _threshold(sample: _Sample, probabilities: Floats) -> float:
    """The probability at which the expected F1 of what is above it is highest, at most one half."""
    order = np.argsort(-probabilities)
    weights, true = sample.weights[order], (sample.weights * probabilities)[order]
    expected_f1 = 2 * np.cumsum(true) / (np.cumsum(weights) + true.sum())
    return float(min(probabilities[order[int(np.argmax(expected_f1))]], 0.5))


# Reliability


def _reliability(sample: _Sample, probabilities: Floats, dataset: Dataset, splits: Sequence[str]) -> FactReliability:
    def compared(rows: NDArray[np.bool_]) -> tuple[float, float, float]:
        """Mean probability, share that is true, and number of candidates."""
        count = float(sample.weights[rows].sum())
        labelled = float(sample.weights[rows] @ sample.is_labelled[rows])
        return float(sample.weights[rows] @ probabilities[rows]) / count, labelled / count / sample.share, count

    number = np.minimum((probabilities * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    bins = [compared(number == bin_) for bin_ in np.unique(number)]
    facts = np.concatenate([dataset.splits[split].relations for split in splits])
    relations = []
    for relation in np.flatnonzero(np.bincount(facts, minlength=1) >= MANY_FACTS).tolist():
        is_likely = (sample.facts[:, 1] == relation) & (probabilities >= LIKELY)
        if is_likely.sum() >= NUM_CANDIDATES:
            mean, share, count = compared(is_likely)
            relations.append((dataset.relations.name(relation), mean, min(share, 1.0), round(count)))
    relations.sort(key=lambda one: -abs(one[1] - one[2]))
    return FactReliability(
        error=_mean_distance(bins),
        likely_error=_mean_distance([one for one in bins if one[0] >= LIKELY]),
        bins=tuple((mean, min(share, 1.0), round(count)) for mean, share, count in bins),
        relations=tuple(relations[:NUM_WORST]),
    )


def _mean_distance(bins: Sequence[tuple[float, float, float]]) -> float:
    """The mean distance of probability and share, weighted by the number of candidates; 0 without any."""
    return sum(count * abs(mean - share) for mean, share, count in bins) / max(sum(count for _, _, count in bins), 1.0)


# In a run folder


def probability_about(score_all_tails: ScoreAllTails, dataset: Dataset, *, most_queries: int = MOST_QUERIES) -> dict[str, Any]:
    """Probabilities and their reliability for `run.json`."""
    fitted = fit_probability(score_all_tails, dataset, most_queries=most_queries)
    if fitted is None:
        return {PROBABILITY: None, RELIABILITY: None}
    return {PROBABILITY: fitted[0].to_dict(), RELIABILITY: fitted[1].to_dict()}


def probability_of(run: Run) -> FactProbability | None:
    """The probabilities in a run folder; None if it has none."""
    values: Any = run.about.get(PROBABILITY)
    if values is None:
        return None
    try:
        shared = _read_weights(values["shared"])
        by_relation = {int(relation): _read_weights(weights) for relation, weights in values["by_relation"].items()}
        threshold = float(values["threshold"])
        if not 0 <= threshold <= 1:
            raise ValueError(threshold)
    except (TypeError, ValueError, AttributeError, KeyError):
        problem = "run.json is damaged: its probabilities cannot be read"
        raise RunError(problem, path=run.path, remedy="Train it again.") from None
    return FactProbability(shared, by_relation, threshold)


def _read_weights(values: Any) -> Weights:
    weights = tuple(float(value) for value in values)
    if len(weights) != NUM_SCORES + NUM_COUNTS + 1 or not (np.abs(weights) <= MOST_OF_WEIGHT).all():
        raise ValueError(values)
    return weights
