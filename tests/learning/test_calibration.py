"""Calibration: parameters recovered from data sampled with known ones, and reliability by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.errors import RunError
from hopwalk.learning.calibration import (
    Calibration,
    ScoredCandidates,
    calibrate,
    calibration_of,
    gather_candidates,
    measure_reliability,
)
from hopwalk.learning.ranking import AllScores, ScoreAllTails
from hopwalk.learning.run import Run
from hopwalk.learning.scorer import Scorer
from tests.support.helpers import dataset_of
from tests.support.schools import SCHOOL, settings_of


class TableScorer(Scorer):
    """A scorer with given scores [E, E] of the tails of every head, whatever the relation."""

    def __init__(self, scores: np.ndarray, num_relations: int = 2) -> None:
        super().__init__(len(scores), num_relations)
        self._scores = torch.from_numpy(scores.astype(np.float32))

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self._scores[heads]

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self._scores[heads, tails]


def table_scores(scores: np.ndarray) -> ScoreAllTails:
    """The same scores as a function."""
    return TableScorer(scores).numpy_scores


def label(number: int) -> str:
    return f"{number:04}"


def world_of(is_true: np.ndarray, is_known: np.ndarray | None = None) -> Dataset:
    """A data set whose dev facts are `(head, query, tail)` where `is_true`; those where `is_known` are in training."""
    size = len(is_true)
    train = [(label(entity), "other", label(entity)) for entity in range(size)]
    if is_known is not None:
        train += [(label(head), "query", label(tail)) for head, tail in np.argwhere(is_known)]
    return dataset_of(train, [(label(head), "query", label(tail)) for head, tail in np.argwhere(is_true)])


def sigmoid(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-values))
    return result


def sampled_world(logits: np.ndarray, seed: int = 1) -> Dataset:
    """A data set in which every candidate is true with the probability of its logit."""
    return world_of(np.random.default_rng(seed).random(logits.shape) < sigmoid(logits))


def normal(size: int, *, spread: float = 2.0, seed: int = 0) -> np.ndarray:
    scores: np.ndarray = spread * np.random.default_rng(seed).standard_normal((size, size))
    return scores


# Candidates


def test_candidates_by_hand():
    is_true, is_known = np.zeros((5, 5), dtype=bool), np.zeros((5, 5), dtype=bool)
    is_true[0, [1, 3]] = is_true[2, 4] = True
    is_known[0, [0, 2]] = is_known[1, 1] = is_known[2, 2] = True
    scores = np.arange(25.0).reshape(5, 5) / 10
    found = gather_candidates(table_scores(scores), world_of(is_true, is_known), "valid")
    assert found is not None
    candidates = {0: [1, 3, 4], 2: [0, 1, 3, 4]}  # all but the answers in training; head 1 has no query
    assert len({*found.query.tolist()}) == 2
    for head, tails in candidates.items():
        own = [row for row in range(len(found.scores)) if round(10 * found.scores[row]) // 5 == head]
        assert sorted(np.round(10 * found.scores[own]).astype(int) % 5) == tails
        assert len({*found.query[own].tolist()}) == 1
        shift = np.log(np.exp(scores[head]).sum())  # the softmax is over all tails
        np.testing.assert_allclose(found.relative_scores[own], found.scores[own] - shift, rtol=1e-6)
        for row in own:
            assert found.is_true[row] == is_true[head, round(10 * found.scores[row]) % 5]
    assert found.weights.tolist() == [1.0] * 7
    assert found.is_top.all()


def test_dev_answers_are_no_candidates_of_test_queries():
    dataset = dataset_of(
        [("a", "r", "b"), ("b", "r", "b")],
        valid=[("a", "r", "c")],
        test=[("a", "r", "d"), ("b", "r", "d")],
    )
    found = gather_candidates(table_scores(np.arange(16.0).reshape(4, 4)), dataset, "test")
    assert found is not None
    assert sorted(found.scores[found.scores < 4]) == [0, 3]  # of a: b is known from training, c from dev
    assert sorted(found.scores[found.scores >= 4]) == [4, 6, 7]


def test_a_sample_stands_for_the_other_candidates():
    """Of the false candidates of a query, the 50 most likely are kept, and 200 of the others with a weight."""
    size = 400
    scores = normal(size)
    is_true = np.random.default_rng(0).random(scores.shape) < 0.1
    is_true[:, 0] = True
    found = gather_candidates(table_scores(scores), world_of(is_true), "valid")
    assert found is not None
    for query in range(size):
        own = found.query == query
        false, weights = own & ~found.is_true, found.weights[own]
        assert weights.sum() == pytest.approx(size)
        assert false.sum() == 250
        assert (found.weights[false] == 1).sum() == 50
        assert found.scores[false & (found.weights == 1)].min() >= found.scores[false & (found.weights > 1)].max()
        assert (found.weights[own & found.is_true] == 1).all()


def test_answers_are_candidates_even_if_they_are_in_the_graph():
    is_true = np.eye(4, dtype=bool)
    known_world = replace(world_of(is_true), facts=world_of(is_true).all_facts())
    found = gather_candidates(table_scores(np.zeros((4, 4))), known_world, "valid")
    assert found is not None
    assert (found.is_true.sum(), len(found.is_true)) == (4, 16)
    assert found.is_top.all()


def test_no_candidates_without_queries():
    family = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    scores = table_scores(np.zeros((3, 3)))
    assert gather_candidates(scores, family, "valid") is None
    assert measure_reliability(scores, Calibration(), family, "test") is None
    assert calibrate(scores, family) == (Calibration(is_relative=True), None)


def test_batches_of_queries_do_not_matter():
    scores = normal(40)
    world = sampled_world(scores - 2)
    batch_sizes = []

    def score_all_tails(heads: np.ndarray, relations: np.ndarray) -> AllScores:
        batch_sizes.append(len(heads))
        return table_scores(scores)(heads, relations)

    whole = gather_candidates(score_all_tails, world, "valid")
    parts = gather_candidates(score_all_tails, world, "valid", most_bytes=8 * 40 * 7)
    assert batch_sizes == [40, 7, 7, 7, 7, 7, 5]
    assert whole is not None
    assert parts is not None
    for name in ScoredCandidates.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


# Fitting


def test_known_parameters_are_recovered():
    scores = normal(200)
    fitted, found = calibrate(table_scores(scores), sampled_world(0.8 * scores - 2.5))
    assert not fitted.is_relative
    assert fitted.slope == pytest.approx(0.8, rel=0.05)
    assert fitted.offset == pytest.approx(-2.5, rel=0.05)
    assert found is not None
    assert found.error < 0.01


def test_scores_far_from_zero_are_fitted_too():
    scores = normal(100)
    fitted, _ = calibrate(table_scores(1000 + 50 * scores), sampled_world(scores - 2))
    assert fitted.slope == pytest.approx(1 / 50, rel=0.1)
    assert fitted.slope * 1000 + fitted.offset == pytest.approx(-2, rel=0.1)


def test_sampled_candidates_are_weighted():
    """From a fraction of the candidates the parameters of all are recovered, though true ones are far more common in it."""
    size = 900
    scores = normal(size)
    world = sampled_world(0.8 * scores - 4.0)
    sample = gather_candidates(table_scores(scores), world, "valid")
    assert sample is not None
    assert len(sample.scores) < size * size / 2.5
    share = len(world.valid) / size**2
    assert sample.is_true.mean() > 2.5 * share  # without weights, the offset would be too high by about 1
    assert sample.weights @ sample.is_true / sample.weights.sum() == pytest.approx(share)
    fitted, found = calibrate(table_scores(scores), world)
    assert fitted.slope == pytest.approx(0.8, rel=0.1)
    assert fitted.offset == pytest.approx(-4.0, rel=0.05)
    assert found is not None
    assert found.error < 0.01


def test_relative_scores_if_scores_of_different_queries_are_not_comparable():
    """The scores of each query are shifted by a constant: only the softmax is comparable."""
    scores = normal(100, spread=3.0)
    relative = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    world = sampled_world(1.2 * relative + 3)
    shifted = table_scores(scores + 30 * np.random.default_rng(5).standard_normal((100, 1)))
    fitted, found = calibrate(shifted, world)
    assert fitted.is_relative
    assert fitted.slope == pytest.approx(1.2, rel=0.1)
    assert fitted.offset == pytest.approx(3, rel=0.1)
    assert found is not None
    assert found.error < 0.01


def test_plain_scores_if_they_are_comparable():
    """Some queries have many answers: that shows in their scores, but not in the softmax."""
    scores = normal(100) + 3 * np.random.default_rng(5).standard_normal((100, 1))
    fitted, _ = calibrate(table_scores(scores), sampled_world(scores - 2))
    assert not fitted.is_relative
    assert fitted.slope == pytest.approx(1, rel=0.1)


def test_classes_that_do_not_overlap():
    """The best slope is infinite; the fitted one is finite, and right for both classes."""
    is_true = np.eye(30, dtype=bool)
    scorer, world = TableScorer(np.where(is_true, 5.0, -5.0)), world_of(is_true)
    scorer.calibration, found = calibrate(scorer.numpy_scores, world)
    ids = torch.arange(30)
    probabilities = scorer.probability_of_all_tails(ids, torch.zeros_like(ids)).numpy()
    assert np.isfinite([scorer.calibration.slope, scorer.calibration.offset]).all()
    assert probabilities[is_true].min() > 0.99
    assert probabilities[~is_true].max() < 0.01
    assert found is not None
    assert found.log_loss < 0.01


def test_entities_that_are_not_reached_are_left_out():
    """A score of -inf is that of an entity out of reach: the others are fitted as if it did not exist."""
    logits = normal(60)
    dataset, is_reached = sampled_world(logits), np.random.default_rng(5).random((60, 60)) < 0.7
    scores = np.where(is_reached, logits, -np.inf)
    sample = gather_candidates(table_scores(scores), dataset, "valid")
    assert sample is not None and np.isfinite(sample.scores).all() and np.isfinite(sample.relative_scores).all()
    assert sample.weights.sum() == pytest.approx(is_reached[np.unique(dataset.valid.heads)].sum())
    calibration, reliability = calibrate(table_scores(scores), dataset)
    assert reliability is not None and reliability.top_error < 0.1
    assert not calibration.is_relative and calibration.slope == pytest.approx(1, abs=0.2)


def test_if_nothing_is_reached_nothing_is_fitted():
    dataset = sampled_world(normal(20))
    assert calibrate(table_scores(np.full((20, 20), -np.inf)), dataset) == (Calibration(is_relative=True), None)


def test_scores_without_information():
    world = sampled_world(np.full((60, 60), -2.0))
    scorer = TableScorer(np.zeros((60, 60)))
    scorer.calibration, _ = calibrate(scorer.numpy_scores, world)
    share = len(world.valid) / 3600
    assert scorer.probability_of_triples(*(torch.tensor([0]),) * 3).item() == pytest.approx(share, abs=0.002)


def test_probabilities_never_fall_as_scores_rise():
    """If dev contradicts the scores, the fitted slope is not negative."""
    scores = normal(60)
    fitted, _ = calibrate(table_scores(scores), sampled_world(-0.5 * scores - 2))
    assert fitted.slope >= 0


# Reliability


def test_reliability_by_hand():
    """Two queries with five candidates each, in three bins of the probabilities .1, .3 and .9."""
    probabilities = np.full((5, 5), 0.1)
    probabilities[0] = [0.9, 0.9, 0.3, 0.1, 0.1]
    probabilities[1] = [0.9, 0.3, 0.3, 0.3, 0.1]
    is_true = np.zeros((5, 5), dtype=bool)
    is_true[0, [0, 2]] = is_true[1, [0, 1]] = True
    logits = np.log(probabilities / (1 - probabilities))
    found = measure_reliability(table_scores(logits), Calibration(), world_of(is_true), "valid")
    assert found is not None
    expected = [(0.1, 0.0, 3), (0.3, 2 / 4, 4), (0.9, 2 / 3, 3)]
    for got, bin_ in zip(found.bins, expected, strict=True):
        assert got == pytest.approx(bin_, abs=1e-6)
    error = (3 * 0.1 + 4 * abs(0.3 - 0.5) + 3 * (0.9 - 2 / 3)) / 10
    assert found.error == pytest.approx(error, abs=1e-6)
    assert found.top_error == pytest.approx(error, abs=1e-6)  # five candidates are among the ten most likely
    likelihoods = [0.9, 0.1, 0.3, 0.9, 0.9, 0.9, 0.3, 0.7, 0.7, 0.9]  # of the truth
    assert found.log_loss == pytest.approx(-np.log(likelihoods).mean(), abs=1e-6)
    assert found.to_dict()["bins"] == found.bins


def test_a_calibrated_scorer_is_reliable_and_an_overconfident_one_is_not():
    logits = normal(200) - 3
    world = sampled_world(logits)
    right = measure_reliability(table_scores(logits), Calibration(), world, "valid")
    overconfident = measure_reliability(table_scores(3 * logits), Calibration(), world, "valid")
    assert right is not None
    assert overconfident is not None
    assert right.error < 0.01
    assert right.top_error < 0.03
    assert overconfident.error > 0.05
    assert overconfident.top_error > 0.1
    assert overconfident.log_loss > right.log_loss
    calibrated = measure_reliability(table_scores(3 * logits), Calibration(slope=1 / 3), world, "valid")
    assert calibrated is not None
    assert calibrated.log_loss == pytest.approx(right.log_loss, rel=1e-4)


def test_the_top_is_the_ten_most_likely_of_each_query():
    logits = normal(50) - 2
    found = measure_reliability(table_scores(logits), Calibration(), sampled_world(logits), "valid")
    assert found is not None
    assert sum(count for _, _, count in found.bins) == 50 * 10
    top = sigmoid(np.sort(logits, axis=1)[:, -10:])
    assert sum(mean * count for mean, _, count in found.bins) == pytest.approx(top.sum(), rel=1e-5)


def test_reliability_is_cross_validated():
    """So its log loss is above that of the best parameters on the data they were fitted to, which is the minimum."""
    scores = normal(12)
    world = sampled_world(scores - 1)
    calibration, cross_validated = calibrate(table_scores(scores), world)
    fitted = measure_reliability(table_scores(scores), calibration, world, "valid")
    assert cross_validated is not None
    assert fitted is not None
    assert cross_validated.log_loss > fitted.log_loss


# From training to probabilities


def school() -> Dataset:
    teaches = [(f"t{room}{one}", "teaches", f"p{room}{two}") for room in "abcde" for one in range(3) for two in range(4)]
    return dataset_of([fact for row, fact in enumerate(teaches) if row % 5], teaches[::10], teaches[5::10])


def trained(folder: Path, **values: Any) -> Run:
    tiny = {
        "model": "complex",
        "dimension": 8,
        "initial_scale": 0.1,
        "epochs": 15,
        "evaluate_every": 15,
        "batch_size": 16,
        "n3": 0.02,
    }
    settings = changed(Settings(), {f"scorer.{name}": value for name, value in (tiny | values).items()})
    return hopwalk.train_scorer(school(), settings, out=folder)


def test_probabilities_of_a_trained_scorer(tmp_path: Path):
    run = trained(tmp_path / "run")
    scorer, queries = hopwalk.load_scorer(run.path), school().valid
    heads, relations, tails = (
        torch.from_numpy(column.astype(np.int64)) for column in (queries.heads, queries.relations, queries.tails)
    )
    with torch.inference_mode():
        scores = scorer.score_all_tails(heads, relations)
        probabilities = scorer.probability_of_all_tails(heads, relations)
    assert scorer.calibration == Calibration(**run.about["calibration"])
    assert scorer.calibration.slope > 0
    assert scorer.calibration != Calibration()
    order = scores.argsort(dim=1)
    assert (probabilities.gather(1, order).diff(dim=1) >= 0).all()
    assert (probabilities.amax(dim=1) > probabilities.amin(dim=1)).all()
    reliability = run.about["reliability"]
    assert reliability["error"] < 0.1
    assert probabilities.gather(1, tails[:, None]).mean() > 3 * probabilities.mean()
    assert run.about["probability"] is None  # dev has too few facts for that
    assert "not calibrated: dev has too few facts" in (run.path / "card.md").read_text(encoding="utf-8")


def test_scores_of_a_binary_loss_are_log_odds(tmp_path: Path):
    run = trained(tmp_path / "run", loss="binary")
    assert hopwalk.load_scorer(run.path).calibration == Calibration() == Calibration(**run.about["calibration"])
    measured = measure_reliability(hopwalk.load_scorer(run.path).numpy_scores, Calibration(), school(), "valid")
    assert measured is not None
    assert run.about["reliability"]["log_loss"] == pytest.approx(measured.log_loss)


@pytest.mark.parametrize("values", [{"slope": 1e308}, {"slope": 1, "offset": -1e10}, {"slope": "x"}, {"slope": None}, 7])
def test_damaged_calibrations_are_refused(tmp_path: Path, values: object):
    run = hopwalk.train_scorer(SCHOOL, settings_of(epochs=1), out=tmp_path / "run")
    about = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    (run.path / "run.json").write_text(json.dumps(about | {"calibration": values}), encoding="utf-8")
    hopwalk.accept(run.path)
    with pytest.raises(RunError, match="calibration cannot be read"):
        calibration_of(Run.open(run.path))
