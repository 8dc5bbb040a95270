"""Damaged run folders of walkers are refused, and not resumed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hopwalk import api
from hopwalk.errors import HopwalkError, RunError, SavedFileError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.walker import runs
from tests.support.commands import mistake
from tests.support.damage import accepted, cut, flip, remove, say, write
from tests.support.stopping import StopAt, Stopped, watching
from tests.support.villages import VILLAGE, settings_of, train_walker


def test_runs_of_another_kind(trained_walker: Run):
    with pytest.raises(RunError, match=r"this is a run of kind 'scorer', not a walker\. Train a walker"):
        runs.load_decoder(Run.open(trained_walker.path / "scorer"))
    with pytest.raises(RunError, match="this is a run of kind 'walker', not a scorer"):
        api.load_scorer(trained_walker.path)


def _weights_of_the_scorer(run: Path) -> None:
    shutil.copy(run / "scorer" / "weights.safetensors", run / "weights.safetensors")


def _weights_of_another_size(run: Path) -> None:
    small = runs.build_environment(VILLAGE, settings_of({"walker.dimension": 5})).policy
    Run(run).save_weights(training.arrays_of(small), "walker")


def _weights_that_are_not_finite(run: Path) -> None:
    file = Run(run).load_weights()
    Run(run).save_weights({name: file.array(name) * np.float32(np.nan) for name in file.names}, "walker")


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HopwalkError], str]] = {
    "a flipped bit": (flip("weights.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "cut off": (cut("weights.safetensors", 300), SavedFileError, "this is not a whole hopwalk file"),
    "no weights": (remove("weights.safetensors"), RunError, "the walker has no weights yet"),
    "weights of the scorer": (accepted(_weights_of_the_scorer), SavedFileError, "it does not hold the weights of walker"),
    "weights of another size": (_weights_of_another_size, SavedFileError, "the shape of entities is not that of the model"),
    "weights that are not finite": (_weights_that_are_not_finite, SavedFileError, "has values that are not finite"),
    "dataset, a flipped bit": (flip("dataset.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "calibration a text": (say(calibration="half"), RunError, "its calibration cannot be read"),
    "slope a text": (say(calibration={"slope": "steep"}), RunError, "its calibration cannot be read"),
    "another kind": (say(kind="runner"), HopwalkError, "a run of kind 'runner'"),
    "settings of the future": (write("settings.toml", "[walker]\nwings = 2\n"), RunError, "there is no setting"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_runs_are_refused(copied: Path, capsys: pytest.CaptureFixture[str], name: str):
    damage, error, message = DAMAGES[name]
    damage(copied)
    with pytest.raises(error, match=message) as raised:
        api.load(copied)
    assert str(copied) in str(raised.value)
    assert message in mistake(capsys, "evaluate", str(copied))


def test_the_scorer_is_not_needed_to_answer(copied: Path, trained_walker: Run):
    """It rewarded the walker in training; answers are ranked by the policy alone."""
    remove("scorer")(copied)
    assert api.load(copied).ask("child 0", "uncle") == api.load(trained_walker.path).ask("child 0", "uncle")


@pytest.mark.parametrize(
    "damage", [flip("checkpoint.safetensors"), cut("checkpoint.safetensors", 300), flip("weights.safetensors")]
)
def test_damaged_checkpoints_are_not_resumed(
    tmp_path: Path, trained_walker: Run, checkpoints: None, damage: Callable[[Path], None]
):
    settings, scorer = settings_of({"walker.epochs": 2}), trained_walker.path / "scorer"
    with pytest.raises(Stopped):
        train_walker(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, make_callbacks=watching("walker", StopAt(2, 1)))
    damage(tmp_path / "run")
    with pytest.raises(SavedFileError):
        train_walker(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, resume=True)
