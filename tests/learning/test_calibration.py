"""Probabilities: fitted parameters recovered from data drawn by known ones, and reliability that tells right from wrong."""

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
from hopwalk.learning import calibration
from hopwalk.learning.calibration import Evidence, calibrate, gather_evidence, measure_reliability
from hopwalk.learning.run import Run
from hopwalk.learning.calibration import Calibration
from hopwalk.scorers.base import Scorer
from tests.support.helpers import dataset_of


class TableScorer(Scorer):
    """A scorer whose scores [E, E] for the one question of every head are given."""

    def __init__(self, scores: np.ndarray, num_relations: int = 2) -> None:
        super().__init__(len(scores), num_relations)
        self._scores = torch.from_numpy(scores.astype(np.float32))

    def score_all_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        return self._scores[heads]

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        return self._scores[heads, tails]


def label(number: int) -> str:
    return f"{number:04}"


def world_of(is_true: np.ndarray, is_known: np.ndarray | None = None) -> Dataset:
    """A data set whose dev facts are `(head, asked, tail)` where it is true; training knows some others."""
    size = len(is_true)
    train = [(label(entity), "other", label(entity)) for entity in range(size)]
    if is_known is not None:
        train += [(label(head), "asked", label(tail)) for head, tail in np.argwhere(is_known)]
    return dataset_of(train, [(label(head), "asked", label(tail)) for head, tail in np.argwhere(is_true)])


def sigmoid(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-values))
    return result


def drawn(logits: np.ndarray, seed: int = 1) -> Dataset:
    """A world in which every candidate is true with the probability that its logit says."""
    return world_of(np.random.default_rng(seed).random(logits.shape) < sigmoid(logits))


def normal(size: int, *, spread: float = 2.0, seed: int = 0) -> np.ndarray:
    scores: np.ndarray = spread * np.random.default_rng(seed).standard_normal((size, size))
    return scores


# What is looked at


def test_evidence_by_hand():
    is_true, is_known = np.zeros((5, 5), dtype=bool), np.zeros((5, 5), dtype=bool)
    is_true[0, [1, 3]] = is_true[2, 4] = True
    is_known[0, [0, 2]] = is_known[1, 1] = is_known[2, 2] = True
    scores = np.arange(25.0).reshape(5, 5) / 10
    found = gather_evidence(TableScorer(scores), world_of(is_true, is_known), "valid")
    assert found is not None
    candidates = {0: [1, 3, 4], 2: [0, 1, 3, 4]}  # all but the answers that training knows; head 1 is not asked
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


def test_test_queries_know_dev():
    dataset = dataset_of(
        [("a", "r", "b"), ("b", "r", "b")],
        valid=[("a", "r", "c")],
        test=[("a", "r", "d"), ("b", "r", "d")],
    )
    found = gather_evidence(TableScorer(np.arange(16.0).reshape(4, 4), num_relations=1), dataset, "test")
    assert found is not None
    assert sorted(found.scores[found.scores < 4]) == [0, 3]  # of a: b is known from training, c from dev
    assert sorted(found.scores[found.scores >= 4]) == [4, 6, 7]


def test_the_rest_is_sampled_and_stands_for_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calibration, "TOP", 5)
    monkeypatch.setattr(calibration, "SAMPLED", 10)
    size = 60
    scores = normal(size)
    is_true = np.random.default_rng(0).random(scores.shape) < 0.1
    is_true[:, 0] = True
    found = gather_evidence(TableScorer(scores), world_of(is_true), "valid")
    assert found is not None
    for query in range(size):
        own = found.query == query
        false, weights = own & ~found.is_true, found.weights[own]
        assert weights.sum() == pytest.approx(size)
        assert false.sum() == 15
        assert (found.weights[false] == 1).sum() == 5
        assert found.scores[false & (found.weights == 1)].min() >= found.scores[false & (found.weights > 1)].max()
        assert (found.weights[own & found.is_true] == 1).all()


def test_answers_are_candidates_even_where_the_graph_knows_them():
    is_true = np.eye(4, dtype=bool)
    found = gather_evidence(TableScorer(np.zeros((4, 4))), world_of(is_true).with_valid_as_facts(), "valid")
    assert found is not None
    assert (found.is_true.sum(), len(found.is_true)) == (4, 16)
    assert found.is_top.all()


def test_no_evidence_without_queries():
    family = dataset_of([("a", "r", "b"), ("b", "r", "c")])
    scorer = TableScorer(np.zeros((3, 3)), num_relations=1)
    assert gather_evidence(scorer, family, "valid") is None
    assert measure_reliability(scorer, family, "test") is None
    assert calibrate(scorer, family) == (Calibration(is_relative=True), None)


def test_batches_of_queries_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    scores = normal(40)
    scorer, world = TableScorer(scores), drawn(scores - 2)
    whole = gather_evidence(scorer, world, "valid")
    monkeypatch.setattr(calibration, "BYTES_AT_ONCE", 8 * 40 * 7)
    parts = gather_evidence(scorer, world, "valid")
    assert whole is not None
    assert parts is not None
    for name in Evidence.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


# Fitting


def test_known_parameters_are_found_again():
    scores = normal(200)
    fitted, found = calibrate(TableScorer(scores), drawn(0.8 * scores - 2.5))
    assert not fitted.is_relative
    assert fitted.slope == pytest.approx(0.8, rel=0.05)
    assert fitted.offset == pytest.approx(-2.5, rel=0.05)
    assert found is not None
    assert found.error < 0.01


def test_scores_far_from_zero_are_fitted_too():
    scores = normal(100)
    fitted, _ = calibrate(TableScorer(1000 + 50 * scores), drawn(scores - 2))
    assert fitted.slope == pytest.approx(1 / 50, rel=0.1)
    assert fitted.slope * 1000 + fitted.offset == pytest.approx(-2, rel=0.1)


def test_sampled_evidence_is_weighed(monkeypatch: pytest.MonkeyPatch):
    """With a sixth of the candidates the parameters are still those of all; without the weights the offset is far off."""
    monkeypatch.setattr(calibration, "TOP", 10)
    monkeypatch.setattr(calibration, "SAMPLED", 15)
    scores = normal(200)
    world = drawn(0.8 * scores - 4.0)
    evidence = gather_evidence(TableScorer(scores), world, "valid")
    assert evidence is not None
    assert len(evidence.scores) < 200 * 200 / 4
    fitted, found = calibrate(TableScorer(scores), world)
    assert fitted.slope == pytest.approx(0.8, rel=0.1)
    assert fitted.offset == pytest.approx(-4.0, rel=0.05)
    assert found is not None
    assert found.error < 0.01
    monkeypatch.setattr(calibration, "gather_evidence", lambda *_: replace(evidence, weights=np.ones_like(evidence.weights)))
    assert calibrate(TableScorer(scores), world)[0].offset > -3.5


def test_relative_scores_where_only_those_compare():
    """Scores of different questions differ by any constant: what counts is the softmax."""
    scores = normal(100, spread=3.0)
    relative = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    world = drawn(1.2 * relative + 3)
    shifted = TableScorer(scores + 30 * np.random.default_rng(5).standard_normal((100, 1)))
    fitted, found = calibrate(shifted, world)
    assert fitted.is_relative
    assert fitted.slope == pytest.approx(1.2, rel=0.1)
    assert fitted.offset == pytest.approx(3, rel=0.1)
    assert found is not None
    assert found.error < 0.01


def test_plain_scores_where_those_compare():
    """Some questions have many answers: their scores say so, the softmax cannot."""
    scores = normal(100) + 3 * np.random.default_rng(5).standard_normal((100, 1))
    fitted, _ = calibrate(TableScorer(scores), drawn(scores - 2))
    assert not fitted.is_relative
    assert fitted.slope == pytest.approx(1, rel=0.1)


def test_classes_that_do_not_overlap():
    """The best slope is infinite; what is fitted is finite and right on both sides."""
    is_true = np.eye(30, dtype=bool)
    scorer, world = TableScorer(np.where(is_true, 5.0, -5.0)), world_of(is_true)
    scorer.calibration, found = calibrate(scorer, world)
    ids = torch.arange(30)
    probabilities = scorer.probability_of_all_tails(ids, torch.zeros_like(ids)).numpy()
    assert np.isfinite([scorer.calibration.slope, scorer.calibration.offset]).all()
    assert probabilities[is_true].min() > 0.99
    assert probabilities[~is_true].max() < 0.01
    assert found is not None
    assert found.log_loss < 0.01


def test_scores_that_say_nothing():
    world = drawn(np.full((60, 60), -2.0))
    scorer = TableScorer(np.zeros((60, 60)))
    scorer.calibration, _ = calibrate(scorer, world)
    share = len(world.valid) / 3600
    assert scorer.probability_of_triples(*(torch.tensor([0]),) * 3).item() == pytest.approx(share, abs=0.002)


def test_probabilities_never_fall_as_scores_rise():
    """A scorer that dev contradicts is not to be trusted, but not to be believed the other way round either."""
    scores = normal(60)
    fitted, _ = calibrate(TableScorer(scores), drawn(-0.5 * scores - 2))
    assert fitted.slope >= 0


# Reliability


def test_reliability_by_hand():
    """Two questions with five candidates each, in three bins: said .1, .3 and .9."""
    said = np.full((5, 5), 0.1)
    said[0] = [0.9, 0.9, 0.3, 0.1, 0.1]
    said[1] = [0.9, 0.3, 0.3, 0.3, 0.1]
    is_true = np.zeros((5, 5), dtype=bool)
    is_true[0, [0, 2]] = is_true[1, [0, 1]] = True
    found = measure_reliability(TableScorer(np.log(said / (1 - said))), world_of(is_true), "valid")
    assert found is not None
    expected = [(0.1, 0.0, 3), (0.3, 2 / 4, 4), (0.9, 2 / 3, 3)]
    for got, wanted in zip(found.bins, expected, strict=True):
        assert got == pytest.approx(wanted, abs=1e-6)
    error = (3 * 0.1 + 4 * abs(0.3 - 0.5) + 3 * (0.9 - 2 / 3)) / 10
    assert found.error == pytest.approx(error, abs=1e-6)
    assert found.top_error == pytest.approx(error, abs=1e-6)  # five candidates are among the ten likeliest
    chances = [0.9, 0.1, 0.3, 0.9, 0.9, 0.9, 0.3, 0.7, 0.7, 0.9]  # of what is the case
    assert found.log_loss == pytest.approx(-np.log(chances).mean(), abs=1e-6)
    assert found.to_dict()["bins"] == found.bins


def test_a_calibrated_scorer_is_reliable_and_an_overconfident_one_is_not():
    logits = normal(200) - 3
    world = drawn(logits)
    right = measure_reliability(TableScorer(logits), world, "valid")
    overconfident = measure_reliability(TableScorer(3 * logits), world, "valid")
    assert right is not None
    assert overconfident is not None
    assert right.error < 0.01
    assert right.top_error < 0.03
    assert overconfident.error > 0.05
    assert overconfident.top_error > 0.1
    assert overconfident.log_loss > right.log_loss
    calibrated = TableScorer(3 * logits)
    calibrated.calibration = Calibration(slope=1 / 3)
    mended = measure_reliability(calibrated, world, "valid")
    assert mended is not None
    assert mended.log_loss == pytest.approx(right.log_loss, rel=1e-4)


def test_the_top_is_the_ten_likeliest_of_each_query():
    logits = normal(50) - 2
    found = measure_reliability(TableScorer(logits), drawn(logits), "valid")
    assert found is not None
    assert sum(count for _, _, count in found.bins) == 50 * 10
    top = sigmoid(np.sort(logits, axis=1)[:, -10:])
    assert sum(mean * count for mean, _, count in found.bins) == pytest.approx(top.sum(), rel=1e-5)


def test_reliability_is_measured_on_what_was_not_fitted():
    """So its log loss is above that of the parameters that fit best, which nothing can be below."""
    scores = normal(12)
    scorer, world = TableScorer(scores), drawn(scores - 1)
    scorer.calibration, crossed = calibrate(scorer, world)
    fitted = measure_reliability(scorer, world, "valid")
    assert crossed is not None
    assert fitted is not None
    assert crossed.log_loss > fitted.log_loss


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
    scorer, asked = hopwalk.load_scorer(run.path), school().valid
    heads, relations, tails = (
        torch.from_numpy(column.astype(np.int64)) for column in (asked.heads, asked.relations, asked.tails)
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
    said = run.about["reliability"]
    assert said["error"] < 0.1
    assert probabilities.gather(1, tails[:, None]).mean() > 3 * probabilities.mean()
    assert f"{said['error']:.5f}" in (run.path / "card.md").read_text()


def test_binary_losses_give_log_odds_by_themselves(tmp_path: Path):
    run = trained(tmp_path / "run", loss="binary")
    assert hopwalk.load_scorer(run.path).calibration == Calibration() == Calibration(**run.about["calibration"])
    measured = measure_reliability(hopwalk.load_scorer(run.path), school(), "valid")
    assert measured is not None
    assert run.about["reliability"]["log_loss"] == pytest.approx(measured.log_loss)
