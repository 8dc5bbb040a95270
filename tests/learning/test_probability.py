"""One probability per fact: by hand, on synthetic scores with known truth, and in run folders."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hopwalk
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids
from hopwalk.errors import RunError
from hopwalk.learning.candidates import gather
from hopwalk.learning.probability import (
    STRAIGHT,
    EndScores,
    FactProbability,
    on_curve,
    probability_of,
    scores_from_one_end,
    swapped,
)
from hopwalk.learning.probability_fit import _fit_curve, fit_probability, measure_probability
from hopwalk.learning.reached import ReachedScores
from hopwalk.learning.run import Run
from tests.support.helpers import dataset_of
from tests.support.schools import SCHOOL, settings_of

NUM_HEADS, NUM_TAILS = 120, 12


def truth_of(head: int, relation: int, tail: int) -> float:
    """The chance that a fact of the synthetic world is true: relation 0 is often, relation 1 seldom."""
    return (0.8, 0.2)[relation] if (head + tail) % 4 == 0 else 0.02


@pytest.fixture(scope="module")
def world() -> Dataset:
    """Heads and tails; half of the true facts are known, the others are missing, half of those in dev."""
    random = np.random.default_rng(1)
    facts = [
        (f"h{head:03}", f"r{relation}", f"t{tail:02}")
        for head in range(NUM_HEADS)
        for relation in (0, 1)
        for tail in range(NUM_TAILS)
        if random.random() < truth_of(head, relation, tail)
    ]
    kind = random.choice(3, len(facts), p=[0.5, 0.25, 0.25])
    train, valid, test = ([fact for fact, own in zip(facts, kind, strict=True) if own == number] for number in range(3))
    profiles = [(f"h{head:03}", "is", "head") for head in range(NUM_HEADS)] + [
        (f"t{tail:02}", "is", "tail") for tail in range(NUM_TAILS)
    ]
    return dataset_of(train + profiles, valid, test)


def scores_of(world: Dataset, *, is_compact: bool = False):
    """Scores that know which facts can be true, but not how often those of a relation are."""
    labels = list(world.entities)

    def score(heads: Ids, relations: Ids) -> NDArray[np.float32] | ReachedScores:
        table = np.full((len(heads), len(labels)), -5.0, dtype=np.float32)
        for row, head in enumerate(heads.tolist()):
            for entity, label in enumerate(labels):
                ends = {labels[head][:1]: labels[head], label[:1]: label}
                if {"h", "t"} == {*ends} and ends["h"] != "head" and ends["t"] != "tail":
                    table[row, entity] = 2.0 if (int(ends["h"][1:]) + int(ends["t"][1:])) % 4 == 0 else -2.0
        if not is_compact:
            return table
        every = np.tile(np.arange(len(labels), dtype=np.int32), len(heads))
        offsets = np.arange(len(heads) + 1) * len(labels)
        return ReachedScores(offsets, every, table.ravel(), np.full(len(heads), -9.0, dtype=np.float32))

    return score


def test_log_odds_by_hand():
    """max and min of the relative scores, the scores, log(1 + n), a constant; weights of the relation, or those of all."""
    probability = FactProbability((1, 0, 0, 0, 0, 0, 0.5), {3: (0, 2, 1, -1, 1, 0, 0)}, 0.4)
    head, tail = (
        EndScores(*(np.array([x, x]) for x in (4.0, -1.0, 0.0))),
        EndScores(*(np.array([x, x]) for x in (1.0, -3.0, 2.0))),
    )
    found = probability.log_odds(np.array([3, 0], dtype=np.int32), head, tail)
    assert found.tolist() == pytest.approx([2 * -3.0 + 4.0 - 1.0 + np.log1p(0), -1.0 + 0.5])


def test_the_curve_by_hand():
    """A constant, a slope, and more slope from each knot on; what is more likely stays so."""
    curve = (1.0, 0.5, 0.1, 0.2, 0.3)
    assert on_curve(curve, np.array([-5.0, -2.0, 1.0, 3.0])).tolist() == pytest.approx([-1.5, 0.2, 2.2, 4.1])
    assert on_curve(STRAIGHT, np.array([-5.0, 3.0])).tolist() == [-5.0, 3.0]
    head, tail = (EndScores(*(np.array([value]) for value in (-2.0, -2.0, 0.0))) for _ in range(2))
    bent = FactProbability((1, 0, 0, 0, 0, 0, 0), {}, 0.4, curve)
    assert bent.log_odds(np.array([0], dtype=np.int32), head, tail).tolist() == pytest.approx([0.2])
    assert bent.to_dict()["curve"] == list(curve)


def test_a_curve_rises_where_labels_are_too_few_for_it(world: Dataset):
    """Whatever dev says, a fact with higher log-odds is not less likely."""
    sample = gather(scores_of(world), world, ["valid"], 10_000)
    assert sample is not None
    falling = -np.linspace(-8, 8, len(sample.weights))[np.argsort(np.argsort(sample.is_labelled, kind="stable"))]
    curve = _fit_curve(sample, falling)
    assert (np.diff(on_curve(curve, np.linspace(-9, 9, 50))) > 0).all()


def test_runs_from_before_the_curve_have_none(tmp_path: Path):
    run = hopwalk.train_scorer(SCHOOL, settings_of(epochs=1), out=tmp_path / "run")
    about = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    old = {"shared": [0.0] * 7, "by_relation": {}, "threshold": 0.5}
    (run.path / "run.json").write_text(json.dumps(about | {"probability": old}), encoding="utf-8")
    hopwalk.accept(run.path)
    found = probability_of(Run.open(run.path))
    assert found is not None and found.curve == STRAIGHT


def test_swapped_ends():
    one, other = (EndScores(*(np.array([x, x]) for _ in range(3))) for x in (1.0, 2.0))
    first, second = swapped(np.array([False, True]), one, other)
    assert first.scores.tolist() == [1, 2] and second.num_known.tolist() == [2, 1]


@pytest.mark.parametrize("is_compact", [False, True])
def test_scores_from_one_end(world: Dataset, is_compact: bool):
    """Every distinct query is scored once; -inf becomes a floor; the log-softmax is that over all entities."""
    asked: list[int] = []
    score = scores_of(world, is_compact=is_compact)

    def counted(heads: Ids, relations: Ids):
        asked.append(len(heads))
        return score(heads, relations)

    known = KnownAnswers([world.facts], len(world.entities), len(world.relations))
    heads, relations, tails = (np.array(ids, dtype=np.int32) for ids in ([5, 9, 5], [0, 0, 0], [130, 131, 132]))
    found = scores_from_one_end(counted, known.counts, heads, relations, tails, len(world.entities))
    assert sum(asked) == 2
    table = scores_of(world)(heads, relations).astype(np.float64)
    own = table[np.arange(3), tails]
    np.testing.assert_allclose(found.scores, own)
    np.testing.assert_allclose(found.relative, own - np.log(np.exp(table).sum(axis=1)), rtol=1e-6)
    assert found.num_known.tolist() == known.counts(heads, relations).tolist()


def test_the_frequency_of_each_relation_is_found_although_half_of_the_truth_is_not_in_dev(world: Dataset):
    """Scores cannot tell the relations apart; probabilities are those of the facts still missing, dev and test together."""
    fitted = fit_probability(scores_of(world), world)
    assert fitted is not None
    probability, reliability = fitted
    known = KnownAnswers([world.facts], len(world.entities), len(world.relations))
    missing = {*world.labels_of(world.valid), *world.labels_of(world.test)}
    for relation in (0, 1):
        candidates = [
            (f"h{head:03}", f"r{relation}", f"t{tail:02}")
            for head in range(NUM_HEADS)
            for tail in range(NUM_TAILS)
            if (head + tail) % 4 == 0
        ]
        ids = np.array(
            [[world.entities.id(h), world.relations.id(r), world.entities.id(t)] for h, r, t in candidates],
            dtype=np.int32,
        )
        is_new = ~known.contains(*ids.T)
        ends = []
        for head, way, tail in ((0, ids[:, 1], 2), (2, world.relation_ids.inverse(ids[:, 1]), 0)):
            ends.append(scores_from_one_end(scores_of(world), known.counts, ids[:, head], way, ids[:, tail], len(world.entities)))
        chances = 1 / (1 + np.exp(-probability.log_odds(ids[:, 1], *ends)))
        is_missing = np.array([fact in missing for fact in candidates])
        assert chances[is_new].mean() == pytest.approx(is_missing[is_new].mean(), abs=0.06)
    assert reliability.error < 0.03
    on_test = measure_probability(scores_of(world), probability, world)
    assert on_test is not None and on_test.error < 0.03
    assert 0 < probability.threshold <= 0.5
    assert "Expected calibration error" in on_test.lines()[0]


def test_without_dev_there_are_no_probabilities(world: Dataset):
    nothing = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    assert fit_probability(lambda heads, relations: np.zeros((len(heads), 3), dtype=np.float32), nothing) is None


def test_the_same_fit_from_tables_and_from_what_is_reached(world: Dataset):
    table, compact = (fit_probability(scores_of(world, is_compact=is_compact), world) for is_compact in (False, True))
    assert table is not None and compact is not None
    np.testing.assert_allclose(table[0].shared, compact[0].shared, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        {"shared": [1.0]},
        {"shared": [None] * 7, "by_relation": {}, "threshold": 0.5},
        {"shared": [0.0] * 7, "by_relation": {"x": [0.0] * 7}, "threshold": 0.5},
        {"shared": [0.0] * 7, "by_relation": [], "threshold": 0.5},
        {"shared": [0.0] * 7, "by_relation": {}, "threshold": 7},
        {"shared": [1e308] * 7, "by_relation": {}, "threshold": 0.5},
        {"shared": [0.0] * 7, "by_relation": {}, "threshold": 0.5, "curve": [1.0]},
        {"shared": [0.0] * 7, "by_relation": {}, "threshold": 0.5, "curve": None},
        "text",
    ],
)
def test_damaged_probabilities_are_refused(tmp_path: Path, values: object):
    run = hopwalk.train_scorer(SCHOOL, settings_of(epochs=1), out=tmp_path / "run")
    about = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    (run.path / "run.json").write_text(json.dumps(about | {"probability": values}), encoding="utf-8")
    hopwalk.accept(run.path)
    with pytest.raises(RunError, match="probabilities cannot be read"):
        probability_of(Run.open(run.path))
