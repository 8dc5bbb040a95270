"""Run folders written by the first version, before settings, parameters and rankings were renamed, still open and resume."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.errors import RunError
from hopwalk.learning.run import Run
from tests.support.villages import train_walker, village_of

RUNS = Path(__file__).parents[1] / "support" / "first_version_runs"


@pytest.fixture(scope="module")
def expected() -> Any:
    """The answers and metrics that the first version gave with these runs."""
    return json.loads((RUNS / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(RUNS, tmp_path_factory.mktemp("first version") / "runs"))


def test_settings_have_the_names_of_today(runs: Path):
    text = (runs / "walker" / "settings.toml").read_text(encoding="utf-8")
    assert "reward_weight = " in text and "learn_valid = " in text and "blend_weight = -1.0" in text
    settings = Run.open(runs / "walker").settings
    assert not settings.walker.train_on_valid and settings.scorer.num_sampled_tails == 0
    assert Run.open(runs / "conve").settings.scorer.embedding_height == 3


@pytest.mark.parametrize("use", [api.load, api.evaluate])
def test_a_guided_walker_is_refused(runs: Path, use: Callable[[Path], object]):
    """Its parameters were learnt together with the scorer's log-odds in the last hop: without them it is another model."""
    with pytest.raises(RunError, match=r"this walker was guided by its scorer.* no longer does\. Train it again") as raised:
        use(runs / "walker")
    assert str(runs / "walker") in str(raised.value)


def test_the_scorer_of_a_guided_walker_answers(runs: Path, expected: Any):
    found = api.evaluate(runs / "walker" / "scorer")["scorer"].tails.mrr
    assert found == pytest.approx(expected["walker"]["evaluation"]["scorer"])
    assert len(api.load(runs / "walker" / "scorer").ask("child 0", "uncle", k=5)) == 5


@pytest.mark.parametrize("name", ["conve", "ensemble"])
def test_scorers_have_the_same_metrics(runs: Path, expected: Any, name: str):
    assert api.evaluate(runs / name)["scorer"].tails.mrr == pytest.approx(expected[name])


def test_an_interrupted_walker_resumes(runs: Path):
    """Not to the bits of the first version: walks on the same path share their dropout now, so random numbers are others."""
    interrupted, again = Run.open(runs / "interrupted"), runs / "again"
    settings, history = interrupted.settings, interrupted.history  # settings of today, where the first version had none
    assert settings.walker.pooling == "max" and settings.walker.estimator == "sum"
    shutil.copytree(interrupted.path, again)
    first, second = (train_walker(village_of(6), settings, out=path, resume=True) for path in (interrupted.path, again))
    assert first.is_finished and first.about["epochs"] == 3
    assert 0 < len(history) < 3 and [record["valid_mrr"] for record in first.history[: len(history)]] == [
        record["valid_mrr"] for record in history
    ]
    assert first.about["valid_mrr"] == second.about["valid_mrr"]


def test_a_run_with_a_removed_setting_that_mattered_is_refused(runs: Path, tmp_path: Path):
    copied = shutil.copytree(runs / "walker", tmp_path / "walker")
    path = copied / "settings.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("damping = 0.85", "damping = 0.5"), encoding="utf-8")
    with pytest.raises(api.HopwalkError, match=r"graph\.damping"):
        api.load(copied)


def test_the_settings_of_an_old_run_are_a_preset(runs: Path):
    settings = api.load_settings(runs / "walker" / "settings.toml")
    assert settings == changed(Run.open(runs / "walker").settings, {})
