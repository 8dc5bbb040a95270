"""Two runs on the same queries: differences, their significance, and where they come from."""

from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.learning.metrics import paired_bootstrap
from hopwalk.reasoning.comparing import Comparison
from tests.support.villages import ALONE, VILLAGE, settings_of, train_walker, village_of


def test_a_difference_and_its_interval_by_hand():
    first = np.array([1.0, 0.0, 0.0, 0.0])
    found = paired_bootstrap({"v": first}, {"v": np.ones(4)}, samples=4000)["v"]
    assert (found.first, found.second, found.value) == (0.25, 1.0, 0.75)
    # A mean of four draws from 0, 1, 1, 1: all ones with probability (3/4)^4 = 0.32, no ones with (1/4)^4 = 0.004.
    assert found.interval == (0.25, 1.0)
    # As far from the mean of 0.75 as 0.75 is a mean of 0 only: 1/256.
    assert found.p_value == pytest.approx(1 / 256, abs=0.004)


def test_no_difference_is_none():
    same = np.array([1.0, 0.5, 0.25])
    found = paired_bootstrap({"v": same}, {"v": same})["v"]
    assert (found.value, found.interval, found.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_p_values_of_chance_are_level():
    """Of pairs that differ by chance alone, about one in twenty has a p-value below 0.05."""
    random = np.random.default_rng(0)
    pairs = [(random.random(80), random.random(80)) for _ in range(200)]
    values = [paired_bootstrap({"v": one}, {"v": other}, samples=100)["v"].p_value for one, other in pairs]
    assert 0.01 < np.mean(np.array(values) < 0.05) < 0.12


@pytest.fixture(scope="module")
def learnt(uncles_run: Path) -> Path:
    """A walker that has learnt who uncles are."""
    return uncles_run


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A walker without a scorer that has learnt almost nothing."""
    settings = settings_of(ALONE | {"walker.epochs": 1, "walker.learning_rate": 1e-9})
    return train_walker(VILLAGE, settings, out=tmp_path_factory.mktemp("short") / "run").path


@pytest.fixture(scope="module")
def found(short: Path, learnt: Path) -> Comparison:
    return api.compare(short, learnt)


def test_the_numbers_are_those_of_the_evaluations(found: Comparison, short: Path, learnt: Path):
    for name, metric in (("mrr", "mrr"), ("hits@1", "hits_at_1"), ("hits@10", "hits_at_10")):
        difference = found.differences[name]
        assert difference.first == pytest.approx(getattr(api.evaluate(short)["policy"].tails, metric))
        assert difference.second == pytest.approx(getattr(api.evaluate(learnt)["policy"].tails, metric))
        assert difference.interval[0] <= difference.value <= difference.interval[1]
    assert found.num_queries == len(VILLAGE.test)
    assert sum(change.share for change in found.relations) == pytest.approx(found.differences["mrr"].value)


def test_the_trained_run_wins(found: Comparison, short: Path, learnt: Path):
    assert found.verdict.startswith("The second run is better by")
    assert api.compare(learnt, short).verdict.startswith("The first run is better by")
    assert found.num_won > found.num_lost
    for example in found.won:
        assert example.second_rank is not None
        assert example.first_rank is None or example.second_rank < example.first_rank
        assert example.second_path is not None and example.second_path.head == example.head
        assert example.second_path.edges[-1].entity == example.tail


def test_a_run_is_as_good_as_itself(short: Path):
    same = api.compare(short, short, "valid")
    assert same.verdict.startswith("No clear difference: +0.00")
    assert not same.won and not same.lost and same.num_won == same.num_lost == 0


def test_a_walker_against_a_scorer(learnt: Path, village_run: Path):
    """An embedding model has no path to show."""
    mixed = api.compare(village_run / "scorer", learnt)
    assert mixed.differences["mrr"].first == pytest.approx(api.evaluate(village_run / "scorer")["scorer"].tails.mrr)
    assert mixed.differences["mrr"].second == pytest.approx(api.evaluate(learnt)["policy"].tails.mrr)
    examples = (*mixed.won, *mixed.lost)
    assert examples and all(example.first_path is None for example in examples)
    assert any(example.second_path is not None for example in examples)


def test_a_split_that_cannot_be_compared(short: Path):
    with pytest.raises(SettingsError, match="no split 'train'"):
        api.compare(short, short, "train")


def test_runs_of_other_data_are_refused(short: Path, tmp_path: Path):
    other = train_walker(village_of(12), settings_of(ALONE | {"walker.epochs": 1}), out=tmp_path / "run").path
    with pytest.raises(RunError, match="the runs are of different data"):
        api.compare(short, other)


def test_a_model_trained_on_dev_is_not_compared_on_it(tmp_path: Path):
    settings = settings_of({"scorer.train_on_valid": True, "scorer.epochs": 1})
    run = api.train_scorer(VILLAGE, settings, out=tmp_path / "run").path
    with pytest.raises(DataError, match="trained on the dev"):
        api.compare(run, run, "valid")
