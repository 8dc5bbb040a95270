"""Evaluation of a run by what ranks its answers, and the control with an untrained policy."""

import json
import shutil
from pathlib import Path

import pytest

from hopwalk import api
from hopwalk.errors import SettingsError
from tests.support.villages import VILLAGE


@pytest.fixture
def uncles(uncles_run: Path, tmp_path: Path) -> Path:
    """A copy of the run that has learnt uncles without a scorer."""
    return Path(shutil.copytree(uncles_run, tmp_path / "uncles"))


def test_a_trained_policy_is_better_than_the_untrained_control(uncles: Path):
    found = api.evaluate(uncles, untrained_control=True)
    assert [*found] == ["policy", "untrained_policy"]
    assert found["policy"].tails.mrr > 2 * found["untrained_policy"].tails.mrr
    written = json.loads((uncles / "evaluation-test.json").read_text(encoding="utf-8"))
    assert written["untrained_policy"] == found["untrained_policy"].to_dict()
    assert api.evaluate(uncles)["policy"].to_dict() == found["policy"].to_dict()  # the control leaves the run as it is


def test_the_control_of_a_walker_with_a_scorer(copied: Path):
    plain, found = api.evaluate(copied), api.evaluate(copied, untrained_control=True)
    assert [*plain] == ["policy"] and [*found] == ["policy", "untrained_policy"]  # the scorer does not rank
    assert found["policy"].to_dict() == plain["policy"].to_dict()
    assert found["untrained_policy"].tails.num_queries == len(VILLAGE.test)
    again = api.evaluate(copied, untrained_control=True)
    assert {name: one.to_dict() for name, one in again.items()} == {name: one.to_dict() for name, one in found.items()}


def test_a_scorer_has_one_ranking_and_no_control(village_run: Path, copied: Path):
    found = api.evaluate(copied / "scorer")
    assert [*found] == ["scorer"] and found["scorer"].heads.num_queries == len(VILLAGE.test)
    with pytest.raises(SettingsError, match="the untrained control is for walkers"):
        api.evaluate(copied / "scorer", untrained_control=True)
    with pytest.raises(SettingsError, match="there is no split 'train' to evaluate"):
        api.evaluate(village_run, "train")
