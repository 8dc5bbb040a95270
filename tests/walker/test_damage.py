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
from tests.support.damage import cut, flip, remove, say, write
from tests.support.stopping import StopAt, Stopped, watching
from tests.support.villages import VILLAGE, settings_of


def test_runs_of_another_kind(trained_walker: Run):
    with pytest.raises(RunError, match=r"this is a run of kind 'scorer', not a walker\. Train a walker"):
        api.load(trained_walker.path / "scorer")
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


def _scorer_of_other_data(run: Path) -> None:
    about = Run(run / "scorer").about
    Run(run / "scorer").write_about(about | {"dataset": about["dataset"] | {"fingerprint": "0" * 64}})


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HopwalkError], str]] = {
    "a flipped bit": (flip("weights.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "cut off": (cut("weights.safetensors", 300), SavedFileError, "this is not a whole hopwalk file"),
    "no weights": (remove("weights.safetensors"), RunError, "the walker has no weights yet"),
    "weights of the scorer": (_weights_of_the_scorer, SavedFileError, "it does not hold the weights of walker"),
    "weights of another size": (_weights_of_another_size, SavedFileError, "the shape of entities is not that of the model"),
    "weights that are not finite": (_weights_that_are_not_finite, SavedFileError, "has values that are not finite"),
    "dataset, a flipped bit": (flip("dataset.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "no scorer": (remove("scorer"), RunError, "there is no such folder"),
    "a scorer cut off": (cut("scorer/weights.safetensors", 300), SavedFileError, "this is not a whole hopwalk file"),
    "a scorer of other data": (_scorer_of_other_data, RunError, "the run was trained on other data"),
    "blend a text": (say(blend_weight="half"), RunError, "the weight of the blend cannot be read"),
    "blend nothing": (say(blend_weight=None), RunError, "the weight of the blend cannot be read"),
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


@pytest.mark.parametrize(
    "damage", [flip("checkpoint.safetensors"), cut("checkpoint.safetensors", 300), flip("weights.safetensors")]
)
def test_damaged_checkpoints_are_not_resumed(
    tmp_path: Path, trained_walker: Run, checkpoints: None, damage: Callable[[Path], None]
):
    settings, scorer = settings_of({"walker.epochs": 2}), trained_walker.path / "scorer"
    with pytest.raises(Stopped):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, make_callbacks=watching("walker", StopAt(2, 1)))
    damage(tmp_path / "run")
    with pytest.raises(SavedFileError):
        api.train(VILLAGE, settings, out=tmp_path / "run", scorer=scorer, resume=True)
