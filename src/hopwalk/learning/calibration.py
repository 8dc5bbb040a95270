"""Calibration of scores to probabilities by logistic regression on dev, and its reliability.

The reward needs P(fact is true) for facts that are not in training. So the candidates of a dev query are all entities except its
training answers, and its dev answers are the true ones; entities that a method does not reach are left out. Test facts count as
false here, as does everything that is in no file:
the probabilities are those of "is in dev", slightly below those of "is true".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.errors import RunError
from hopwalk.learning.ranking import Floats, RaggedAnswers, ScoreAllTails, candidates_among, more_at_once
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.run import Run

NUM_BINS = 10
MOST_QUERIES = 2000
NUM_TOP = 10  # candidates of a query whose reliability is reported
TOP, SAMPLED = 50, 200  # false candidates of a query: the most likely ones, and a sample that stands for the others
BYTES_AT_ONCE = 2**27
MOST_OF_LINE = 1e9  # slope and offset of a calibration: more is damage


@dataclass(frozen=True)
class Calibration:
    """The map from scores to probabilities, `sigmoid(slope · x + offset)`.

    `x` is the score itself, or with `is_relative` the log-softmax of the score over all tails. A model trained with binary
    cross-entropy uses the first, with slope 1 and offset 0.
    """

    slope: float = 1.0
    offset: float = 0.0
    is_relative: bool = False


@dataclass(frozen=True, eq=False)
class ScoredCandidates:
    """Candidates of queries [N]: score, log-softmax of the score, truth, and the number of candidates that each stands for."""

    scores: Floats
    relative_scores: Floats
    is_true: NDArray[np.bool_]
    weights: Floats
    is_top: NDArray[np.bool_]  # among the ten most likely of its query
    query: NDArray[np.int64]

    def part(self, rows: NDArray[np.bool_]) -> ScoredCandidates:
        """The candidates in the given rows."""
        return ScoredCandidates(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def inputs(self, calibration: Calibration) -> Floats:
        """The input of the calibration [N]."""
        return self.relative_scores if calibration.is_relative else self.scores


@dataclass(frozen=True)
class Reliability:
    """Probabilities compared with the share of true candidates.

    `error` is the expected calibration error over all candidates, which is small if most are clearly false; `top_error` is that
    over the ten most likely candidates of each query. The bins of these are (mean probability, share that is true, number of
    candidates).
    """

    error: float
    top_error: float
    log_loss: float
    bins: tuple[tuple[float, float, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def calibrate(score_all_tails: ScoreAllTails, dataset: Dataset) -> tuple[Calibration, Reliability | None]:
    """The calibration that fits dev best, and its reliability by two-fold cross-validation on dev.

    Without dev queries nothing can be fitted: the odds of an answer are then its softmax over all tails.
    """
    sample = gather_candidates(score_all_tails, dataset, "valid")
    if sample is None:
        return Calibration(is_relative=True), None
    fitted = [_fit(sample, is_relative=is_relative) for is_relative in (False, True)]
    calibration = min(fitted, key=lambda calibration: _log_loss(sample, calibration))
    is_even = sample.query % 2 == 0
    probabilities = np.empty(len(is_even))
    for half in (is_even, ~is_even):
        other = _fit(sample.part(~half), is_relative=calibration.is_relative)
        probabilities[half] = _probabilities(sample.part(half), other)
    return calibration, _reliability(sample, probabilities)


def calibration_about(score_all_tails: ScoreAllTails, dataset: Dataset) -> dict[str, Any]:
    """Calibration and reliability for `run.json`."""
    calibration, reliability = calibrate(score_all_tails, dataset)
    return {"calibration": asdict(calibration), "reliability": reliability.to_dict() if reliability else None}


def calibration_of(run: Run) -> Calibration | None:
    """The calibration in a run folder; None if it has none."""
    values: Any = run.about.get("calibration")
    if values is None:
        return None
    try:
        slope, offset = float(values.get("slope", 1)), float(values.get("offset", 0))
        if not max(abs(slope), abs(offset)) <= MOST_OF_LINE:
            raise ValueError("scores would overflow")
        return Calibration(slope, offset, bool(values.get("is_relative", False)))
    except (TypeError, ValueError, AttributeError):
        problem = "run.json is damaged: its calibration cannot be read"
        raise RunError(problem, path=run.path, remedy="Train it again.") from None


def measure_reliability(
    score_all_tails: ScoreAllTails, calibration: Calibration, dataset: Dataset, split: str
) -> Reliability | None:
    """The reliability of calibrated scores on a split; None if it has no queries."""
    sample = gather_candidates(score_all_tails, dataset, split)
    return None if sample is None else _reliability(sample, _probabilities(sample, calibration))


def gather_candidates(
    score_all_tails: ScoreAllTails, dataset: Dataset, split: str, *, most_bytes: int = BYTES_AT_ONCE
) -> ScoredCandidates | None:
    """Candidates of at most 2,000 queries of a split, or None if there are too few; `most_bytes` is for their scores."""
    queries, random = dataset.splits[split], np.random.default_rng(0)
    pairs = np.unique(np.stack([queries.heads, queries.relations], axis=1), axis=0)
    if len(pairs) < 2:
        return None
    pairs = pairs[random.permutation(len(pairs))[:MOST_QUERIES]]
    earlier = [dataset.facts, dataset.train] + ([dataset.valid] if split == "test" else [])
    sizes = len(dataset.entities), len(dataset.relations)
    known, true = KnownAnswers(earlier, *sizes), KnownAnswers([queries], *sizes)
    at_once, first = max(most_bytes // (8 * sizes[0]), 1), 0
    parts: list[ScoredCandidates] = []
    while first < len(pairs):
        heads, relations = pairs[first : first + at_once].T
        scores = score_all_tails(heads, relations)
        answers = known.answers(heads, relations), true.answers(heads, relations)
        if isinstance(scores, ReachedScores):
            candidates = _divide_reached(scores, *answers, sizes[0])
        else:
            candidates = _divide_table(scores, *answers)
        for query, own in enumerate(candidates, start=first):
            parts.append(_sample(own, query, random))
        first += at_once
        at_once = more_at_once(at_once, scores)
    found = ScoredCandidates(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ScoredCandidates.__dataclass_fields__)
    )
    return found if len(np.unique(found.query % 2)) == 2 else None  # each half of the queries is calibrated on the other


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The scores of a query's candidates: of the true ones, of false ones in descending order, and the one that many share.

    `log_normaliser` is that of the softmax over all tails.
    """

    true: Floats
    false: Floats
    shared: float
    num_sharing: int
    log_normaliser: float

    @property
    def num_false(self) -> int:
        """The number of false candidates."""
        return len(self.false) + self.num_sharing

    def false_scores(self, ranks: NDArray[np.int64]) -> Floats:
        """The scores of false candidates, by their rank among them."""
        first = int(np.searchsorted(-self.false, -self.shared))
        places = np.where(ranks < first, ranks, np.maximum(ranks - self.num_sharing, 0))
        is_shared = (ranks >= first) & (ranks < first + self.num_sharing)
        return np.where(is_shared, self.shared, np.append(self.false, 0.0)[np.where(is_shared, -1, places)])

    def num_not_below(self, scores: Floats) -> NDArray[np.int64]:
        """How many false candidates have at least each score."""
        return np.searchsorted(-self.false, -scores, side="right") + self.num_sharing * (self.shared >= scores)


def _divide_table(table: NDArray[np.float32], known: RaggedAnswers, true: RaggedAnswers) -> Iterator[_Candidates]:
    """The candidates of every query, given the scores of all entities [Q, E]."""
    scores = table.astype(np.float64)
    highest = np.maximum(scores.max(axis=1), np.finfo(np.float64).min)  # a query may reach nothing
    with np.errstate(divide="ignore"):
        log_normalisers = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
    (known_offsets, known_tails), (true_offsets, true_tails) = known, true
    for row in range(len(scores)):
        answers = true_tails[true_offsets[row] : true_offsets[row + 1]]
        is_false = np.ones(scores.shape[1], dtype=np.bool_)
        is_false[known_tails[known_offsets[row] : known_offsets[row + 1]]] = False
        is_false[answers] = False
        is_reached = scores[row] > -np.inf
        false = -np.sort(-scores[row, is_false & is_reached])
        yield _Candidates(scores[row, answers[is_reached[answers]]], false, 0.0, 0, float(log_normalisers[row]))


def _divide_reached(
    reached: ReachedScores, known: RaggedAnswers, true: RaggedAnswers, num_entities: int
) -> Iterator[_Candidates]:
    """The candidates of every query, given the scores of what is reached; all other entities share a score."""
    log_normalisers = reached.log_normalisers(num_entities)
    offsets, answers = true
    rows = np.repeat(np.arange(len(reached)), np.diff(offsets))
    answer_scores = reached.scores_of(rows, answers).astype(np.float64)
    is_false, num_others = candidates_among(reached, known, rows, answers, num_entities)
    for row in range(len(reached)):
        own = slice(reached.offsets[row], reached.offsets[row + 1])
        false = -np.sort(-reached.scores[own][is_false[own]].astype(np.float64))
        true_scores = answer_scores[offsets[row] : offsets[row + 1]]
        shared, num_sharing = float(reached.unreached[row]), int(num_others[row])
        yield _Candidates(true_scores, false, shared, num_sharing, float(log_normalisers[row]))


def _sample(candidates: _Candidates, query: int, random: np.random.Generator) -> ScoredCandidates:
    """The true candidates of a query, the most likely false ones, and a sample that stands for the others."""
    true, num_top = np.sort(candidates.true)[::-1], min(TOP, candidates.num_false)
    num_others = candidates.num_false - num_top
    sampled = num_top + random.choice(num_others, min(SAMPLED, num_others), replace=False)
    ranks = np.concatenate([np.arange(num_top), sampled])
    false = candidates.false_scores(ranks)
    scores = np.concatenate([true, false])
    is_true = np.arange(len(scores)) < len(true)
    weights = np.ones(len(scores))
    weights[len(true) + num_top :] = num_others / max(len(sampled), 1)
    rank_of_true = np.arange(len(true)) + candidates.num_not_below(true)  # of equals, false ones come first
    rank_of_false = ranks + np.searchsorted(-true, -false)
    return ScoredCandidates(
        scores=scores,
        relative_scores=scores - candidates.log_normaliser,
        is_true=is_true,
        weights=weights,
        is_top=np.concatenate([rank_of_true, rank_of_false]) < NUM_TOP,
        query=np.full(len(scores), query),
    )


def _fit(sample: ScoredCandidates, *, is_relative: bool) -> Calibration:
    """Logistic regression with one input, by Newton's method; a small ridge keeps it finite for separable classes."""
    inputs = sample.inputs(Calibration(is_relative=is_relative))
    middle, spread = float(inputs.mean()), float(inputs.std()) or 1.0
    design = np.stack([(inputs - middle) / spread, np.ones(len(inputs))], axis=1)
    target, weights = sample.is_true.astype(np.float64), sample.weights
    share = np.clip((weights @ target) / weights.sum(), 1e-12, 1 - 1e-12)
    parameters, ridge = np.array([1.0, np.log(share / (1 - share))]), 1e-3 * np.array([1.0, 0.0])
    for _ in range(100):
        probabilities = _sigmoid(design @ parameters)
        gradient = design.T @ (weights * (probabilities - target)) + ridge * parameters
        curvature = (design * (weights * probabilities * (1 - probabilities))[:, None]).T @ design + np.diag(ridge + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 2.0 / np.abs(step).max()) if step.any() else 1.0  # limits the step while far from the optimum
        parameters -= step
        if np.abs(step).max() < 1e-8:
            break
    if parameters[0] < 0:  # worse than chance: use the base rate rather than reversed scores
        return Calibration(0.0, float(np.log(share / (1 - share))), is_relative)
    slope = float(parameters[0] / spread)
    return Calibration(slope, float(parameters[1] - slope * middle), is_relative)


def _sigmoid(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))


def _probabilities(sample: ScoredCandidates, calibration: Calibration) -> Floats:
    return _sigmoid(sample.inputs(calibration) * calibration.slope + calibration.offset)


def _log_loss(sample: ScoredCandidates, calibration: Calibration) -> float:
    return _mean_log_loss(sample, _probabilities(sample, calibration))


def _mean_log_loss(sample: ScoredCandidates, probabilities: Floats) -> float:
    likelihoods = np.where(sample.is_true, probabilities, 1 - probabilities)
    return float(sample.weights @ -np.log(np.maximum(likelihoods, 1e-300)) / sample.weights.sum())


def _reliability(sample: ScoredCandidates, probabilities: Floats) -> Reliability:
    top = sample.is_top
    top_bins = _bins(probabilities[top], sample.is_true[top], sample.weights[top])
    all_bins = _bins(probabilities, sample.is_true, sample.weights)
    return Reliability(
        error=_calibration_error(all_bins),
        top_error=_calibration_error(top_bins),
        log_loss=_mean_log_loss(sample, probabilities),
        bins=tuple((mean, share, round(count)) for mean, share, count in top_bins),
    )


def _bins(probabilities: Floats, is_true: NDArray[np.bool_], weights: Floats) -> list[tuple[float, float, float]]:
    number = np.minimum((probabilities * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    found = []
    for bin_ in range(NUM_BINS):
        inside = number == bin_
        count = float(weights[inside].sum())
        if count:
            found.append(
                (float(weights[inside] @ probabilities[inside]) / count, float(weights[inside] @ is_true[inside]) / count, count)
            )
    return found


def _calibration_error(bins: list[tuple[float, float, float]]) -> float:
    total = sum(count for _, _, count in bins)
    return sum(count * abs(mean - share) for mean, share, count in bins) / total
