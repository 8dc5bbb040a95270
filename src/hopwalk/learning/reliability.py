"""How true probabilities are: predicted probabilities of candidates against the share of them that is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.learning.candidates import NUM_CANDIDATES, Sample
from hopwalk.learning.ranking import Floats

NUM_BINS, NUM_WORST = 10, 5
LIKELY, MANY_FACTS = 0.2, 50  # probabilities and relations that are compared one by one


@dataclass(frozen=True)
class FactReliability:
    """Probabilities of candidates compared with the share of them that is true.

    `error` is the expected calibration error of all candidates, most of which are clearly false; `likely_error` that of those
    with a probability of at least 0.2, and `chance` how much of that is to be expected of exact probabilities, because the split
    has only so many facts. `bins` are (mean probability, share that is true, number of candidates). `relations` are the worst
    ones of those with at least 50 facts in the split, as (relation, mean probability, share that is true, number, standard error
    of the share) of their candidates with a probability of at least 0.2.
    """

    error: float
    likely_error: float
    chance: float
    bins: tuple[tuple[float, float, int], ...]
    relations: tuple[tuple[str, float, float, int, float], ...]

    def lines(self) -> list[str]:
        """The result in sentences."""
        found = [
            f"Expected calibration error: {self.error:.4f} over the {NUM_CANDIDATES} best new candidates of each query, "
            f"{self.likely_error:.4f} over those with a probability of at least {LIKELY}.",
            f"Of exact probabilities, {self.chance:.4f} would be expected there: the split has only so many facts.",
        ]
        for name, mean, share, count, error in self.relations[:1]:
            found.append(
                f"The relation furthest off is {name}: {mean:.2f} predicted, {share:.2f} ± {error:.2f} true, "
                f"of {count:,} candidates."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Compared:
    """Mean probability, share that is true, its standard error if probabilities are exact, number of candidates."""

    mean: float
    share: float
    error: float
    count: float


def reliability(sample: Sample, probabilities: Floats, dataset: Dataset, splits: Sequence[str]) -> FactReliability:
    """The comparison, of all candidates and by relation. Labels are divided by the share of true facts that have one."""

    def compared(rows: NDArray[np.bool_]) -> _Compared:
        weights, chances, shares = sample.weights[rows], probabilities[rows], sample.shares[rows]
        count, labels = float(weights.sum()), shares * chances
        share = float(weights @ (sample.is_labelled[rows] / shares)) / count
        error = float(np.sqrt((weights / shares) ** 2 @ (labels * (1 - labels)))) / count
        return _Compared(float(weights @ chances) / count, share, error, count)

    number = np.minimum((probabilities * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    bins = [compared(number == bin_) for bin_ in np.unique(number)]
    likely = [compared((number == bin_) & (probabilities >= LIKELY)) for bin_ in np.unique(number[probabilities >= LIKELY])]
    facts = np.concatenate([dataset.splits[split].relations for split in splits])
    relations = []
    for relation in np.flatnonzero(np.bincount(facts, minlength=1) >= MANY_FACTS).tolist():
        is_likely = (sample.facts[:, 1] == relation) & (probabilities >= LIKELY)
        if is_likely.sum() >= NUM_CANDIDATES:
            one = compared(is_likely)
            name = dataset.relations.name(relation)
            relations.append((name, one.mean, min(one.share, 1.0), round(one.count), one.error))
    relations.sort(key=lambda one: -abs(one[1] - one[2]))
    return FactReliability(
        error=_mean([(abs(one.mean - one.share), one.count) for one in bins]),
        likely_error=_mean([(abs(one.mean - one.share), one.count) for one in likely]),
        chance=_mean([(np.sqrt(2 / np.pi) * one.error, one.count) for one in likely]),  # E|x| of a normal x
        bins=tuple((one.mean, min(one.share, 1.0), round(one.count)) for one in bins),
        relations=tuple(relations[:NUM_WORST]),
    )


def _mean(values: Sequence[tuple[float, float]]) -> float:
    """The mean of (value, weight); 0 without any."""
    return float(sum(value * weight for value, weight in values) / max(sum(weight for _, weight in values), 1.0))
