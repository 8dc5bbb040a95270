"""Candidates that are drawn stand for all: probabilities of being drawn, weights, and facts that are found twice."""

import numpy as np
import pytest

from hopwalk.data.dataset import Dataset
from hopwalk.learning.candidates import Sample, gather, inclusion
from hopwalk.learning.reliability import reliability
from tests.learning.test_probability import NUM_HEADS, scores_of, world  # noqa: F401  (a fixture)
from tests.support.helpers import dataset_of


def test_inclusion_by_hand():
    """In proportion to sizes, but never above 1; what a large one cannot take, the others get."""
    assert inclusion(np.array([1.0, 1.0, 2.0]), 2).tolist() == pytest.approx([0.5, 0.5, 1.0])
    assert inclusion(np.array([1.0, 2.0, 97.0]), 2).tolist() == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert inclusion(np.array([1.0, 5.0]), 2).tolist() == [1.0, 1.0]
    sizes = np.random.default_rng(0).random(1000) ** 4
    found = inclusion(sizes, 100)
    assert found.sum() == pytest.approx(100) and found.max() <= 1
    assert (np.diff(found[np.argsort(sizes)]) >= 0).all()


def test_few_candidates_are_all_there_once(world: Dataset):  # noqa: F811
    sample = gather(scores_of(world), world, ["valid"], 10_000)
    assert sample is not None
    assert len(np.unique(sample.facts, axis=0)) == len(sample.facts)
    assert {*sample.weights.tolist()} <= {1.0, 2.0}  # from one end, or from both
    missing = {tuple(fact) for fact in world.valid.array().tolist()}
    assert {tuple(fact) for fact in sample.facts[sample.is_labelled].tolist()} <= missing
    assert sample.shares == pytest.approx(len(world.valid) / (len(world.valid) + len(world.test)))


def test_what_is_drawn_stands_for_all(world: Dataset, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    """The sums of weights, of all candidates and of labelled ones, are about those of all candidates, in the mean of draws."""
    whole = gather(scores_of(world), world, ["valid"], 10_000)
    assert whole is not None
    expected = [whole.weights.sum(), whole.weights @ whole.is_labelled, whole.weights @ (whole.features[:, 2] > 0)]
    sums, generator = [], np.random.default_rng
    for seed in range(12):
        monkeypatch.setattr("numpy.random.default_rng", lambda _, seed=seed: generator(seed))
        sample = gather(scores_of(world), world, ["valid"], NUM_HEADS // 4)
        assert sample is not None and len(sample.weights) < 0.9 * len(whole.weights)
        sums.append([sample.weights.sum(), sample.weights @ sample.is_labelled, sample.weights @ (sample.features[:, 2] > 0)])
    assert np.mean(sums, axis=0).tolist() == pytest.approx(expected, rel=0.12)


def test_shares_of_each_relation(world: Dataset):  # noqa: F811
    sample = gather(scores_of(world), world, ["test"], 10_000, by_relation=True)
    assert sample is not None
    for relation in (world.relations.id("r0"), world.relations.id("r1")):
        valid, test = ((split.relations == relation).sum() for split in (world.valid, world.test))
        assert sample.shares[sample.facts[:, 1] == relation] == pytest.approx(test / (valid + test))


def test_reliability_by_hand():
    """Ten candidates at 0.8, of which 2 are labelled, where one in four true ones is; ten at 0.1, none labelled."""
    data = dataset_of([("a", "r", "b")], [("a", "r", "c")])
    facts = np.array([[0, 0, number] for number in range(20)])
    chances, labels = np.repeat([0.8, 0.1], 10), np.arange(20) < 2
    sample = Sample(facts, np.zeros((20, 7)), labels, np.ones(20), np.full(20, 0.25))
    found = reliability(sample, chances, data, ["valid"])
    assert found.likely_error == pytest.approx(0.0, abs=1e-9) and found.error == pytest.approx(0.05)
    assert found.chance == pytest.approx(np.sqrt(2 / np.pi) * np.sqrt(10 * 0.2 * 0.8) / 10 / 0.25)
    assert [bin_[2] for bin_ in found.bins] == [10, 10]
    assert "would be expected" in found.lines()[1]
