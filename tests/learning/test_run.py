"""Run folders: damaged ones are refused with an error, and so are used folders."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hopwalk
from hopwalk.errors import HopwalkError, RunError, SavedFileError
from hopwalk.learning import training
from hopwalk.learning.run import Run
from hopwalk.scorers.models import build_scorer
from tests.support.commands import command
from tests.support.damage import accepted, cut, flip, remove, say, write
from tests.support.helpers import dataset_of
from tests.support.schools import SCHOOL, TRAINED, settings_of
from tests.support.stopping import StopAt, Stopped, result_of


def _weights_of(**values: Any) -> Callable[[Path], None]:
    """The weights of another scorer, of the same data."""

    def damage(run: Path) -> None:
        scorer = build_scorer(len(SCHOOL.entities), len(SCHOOL.relations), settings_of(**values).scorer)
        Run(run).save_weights(training.arrays_of(scorer), TRAINED.scorer.model)

    return damage


def _weights_of_complex(run: Path) -> None:
    """The weights of a run of the same size: 6 complex numbers are 12."""
    other = hopwalk.train_scorer(SCHOOL, settings_of(model="complex", dimension=6, epochs=1), out=run.with_name("other"))
    shutil.copy(other.weights_path, run / "weights.safetensors")


def _weights_changed(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Weights in a whole file, with other values."""

    def damage(run: Path) -> None:
        file = Run(run).load_weights()
        Run(run).save_weights({name: change(file.array(name)) for name in file.names}, TRAINED.scorer.model)

    return damage


def _swap_data(run: Path) -> None:
    """The same shapes, one fact different."""
    facts = SCHOOL.labels_of(SCHOOL.train)
    other = dataset_of(
        [*facts[1:], ("pupil a0", "teaches", "pupil a1")], SCHOOL.labels_of(SCHOOL.valid), SCHOOL.labels_of(SCHOOL.test)
    )
    assert (len(other.entities), len(other.relations)) == (len(SCHOOL.entities), len(SCHOOL.relations))
    other.save(run / "dataset.safetensors")


def _weights_as_data(run: Path) -> None:
    shutil.copy(run / "weights.safetensors", run / "dataset.safetensors")


def _remove_all(run: Path) -> None:
    shutil.rmtree(run)


def _foreign(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()
    (run / "model.safetensors").write_bytes(b"somebody else's")


def _file_instead(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("a,r,b\n")


def _folder_instead(run: Path) -> None:
    (run / "run.json").unlink()
    (run / "run.json").mkdir()


def _with_nan(array: Any) -> Any:
    array.flat[3] = np.nan
    return array


DAMAGES: dict[str, tuple[Callable[[Path], None], type[HopwalkError], str]] = {
    "weights, a flipped bit": (flip("weights.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "weights cut off": (cut("weights.safetensors", 500), SavedFileError, "this is not a whole hopwalk file"),
    "weights empty": (cut("weights.safetensors", 0), SavedFileError, "this is not a whole hopwalk file"),
    "weights missing": (remove("weights.safetensors"), SavedFileError, "the file cannot be opened"),
    "weights are text": (write("weights.safetensors", "no\n" * 99), SavedFileError, "this is not a whole hopwalk file"),
    "weights of ConvE": (_weights_of(model="conve"), SavedFileError, "its parameters are not those of the model"),
    "weights of another size": (_weights_of(dimension=15), SavedFileError, "the shape of entities is not that of the model"),
    "weights of another model of the same size": (
        accepted(_weights_of_complex),
        SavedFileError,
        "does not hold the weights of distmult",
    ),
    "weights turned round": (
        _weights_changed(lambda array: array.T),
        SavedFileError,
        "the shape of entities is not that of the model",
    ),
    "weights of another type": (
        _weights_changed(lambda array: array.view(np.int32)),
        SavedFileError,
        "the type of entities is not that of the model",
    ),
    "weights that are NaN": (_weights_changed(_with_nan), SavedFileError, "has values that are not finite"),
    "dataset, a flipped bit": (flip("dataset.safetensors"), SavedFileError, "its content does not fit its checksum"),
    "dataset cut off": (cut("dataset.safetensors", 700), SavedFileError, "this is not a whole hopwalk file"),
    "dataset missing": (remove("dataset.safetensors"), SavedFileError, "the file cannot be opened"),
    "dataset of another run": (accepted(_swap_data), RunError, "the run was trained on other data"),
    "weights in place of the dataset": (_weights_as_data, SavedFileError, "this file does not hold a hopwalk dataset"),
    "run.json missing": (remove("run.json"), RunError, "this is not a run folder: run.json is missing"),
    "run.json cut off": (cut("run.json", 100), RunError, "the file is damaged or cannot be read"),
    "run.json empty": (cut("run.json", 0), RunError, "the file is damaged or cannot be read"),
    "run.json not text": (write("run.json", b"\xff\xfe\x00"), RunError, "the file is damaged or cannot be read"),
    "run.json a list": (write("run.json", "[1, 2]"), RunError, "it does not hold a JSON object"),
    "run.json a folder": (_folder_instead, RunError, "the file is damaged or cannot be read"),
    "run.json of the future": (say(format=99), RunError, "written by another version of hopwalk"),
    "run.json without kind": (say(kind=None), RunError, "written by another version of hopwalk"),
    "run.json of another kind": (say(kind="walker"), RunError, "a run of kind 'walker', not a scorer"),
    "run.json without data": (say(dataset="test"), RunError, "it does not describe the run, its data or its training"),
    "run.json of other data": (say(dataset={"name": "test", "fingerprint": "0"}), RunError, "the run was trained on other data"),
    "calibration not there": (say(calibration=[1, 2]), RunError, "its calibration cannot be read"),
    "calibration no number": (say(calibration={"slope": "steep"}), RunError, "its calibration cannot be read"),
    "settings cut off": (cut("settings.toml", 30), RunError, "not valid TOML"),
    "settings missing": (remove("settings.toml"), RunError, "cannot be read"),
    "settings of another version": (write("settings.toml", "[scorer]\nwings = 2\n"), RunError, "there is no setting"),
    "nothing there": (_remove_all, RunError, "there is no such folder"),
    "somebody else's folder": (_foreign, RunError, "this is not a run folder: run.json is missing"),
    "a file": (_file_instead, RunError, "run"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported(tmp_path: Path, trained_scorer: Run, capsys: pytest.CaptureFixture[str], name: str):
    damage, error, message = DAMAGES[name]
    folder = tmp_path / "run"
    shutil.copytree(trained_scorer.path, folder)
    hopwalk.load_scorer(folder)
    damage(folder)
    with pytest.raises(error, match=message) as raised:
        hopwalk.load_scorer(folder)
    assert str(folder) in str(raised.value)
    printed = command(capsys, "evaluate", str(folder), code=1)
    assert printed.err.startswith("error: ")
    assert printed.out == ""


def test_no_changed_byte_of_the_header_goes_unnoticed(tmp_path: Path, trained_scorer: Run):
    shutil.copytree(trained_scorer.path, tmp_path / "run")
    path = tmp_path / "run" / "weights.safetensors"
    whole = path.read_bytes()
    size = 8 + int.from_bytes(whole[:8], "little")
    ids, random = torch.arange(4), np.random.default_rng(0)
    expected = hopwalk.load_scorer(trained_scorer.path).score_all_tails(ids, ids)
    for place in range(size):
        other = bytearray(whole)
        other[place] ^= int(random.integers(1, 256))
        path.write_bytes(other)
        try:
            found = hopwalk.load_scorer(tmp_path / "run").score_all_tails(ids, ids)
        except HopwalkError:
            continue
        assert torch.equal(found, expected), place


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip("checkpoint.safetensors"), "its content does not fit its checksum"),
        (cut("checkpoint.safetensors", 900), "this is not a whole hopwalk file"),
        (
            lambda run: shutil.copy(run / "weights.safetensors", run / "checkpoint.safetensors"),
            "does not hold a hopwalk checkpoint",
        ),
        (remove("weights.safetensors"), "the file cannot be opened"),
        (flip("weights.safetensors"), "its content does not fit its checksum"),
        (_weights_of(dimension=15), "the shape of entities is not that of the model"),
    ],
    ids=["flipped", "cut off", "weights", "no best weights", "flipped best weights", "other best weights"],
)
def test_training_does_not_resume_from_a_damaged_checkpoint(
    tmp_path: Path, checkpoints: None, damage: Callable[[Path], None], message: str
):
    with pytest.raises(Stopped):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", callbacks=[StopAt(2, 1)])
    damage(tmp_path / "run")
    with pytest.raises(SavedFileError, match=message):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "run", resume=True)


def test_used_folders(tmp_path: Path, trained_scorer: Run):
    with pytest.raises(RunError, match=r"there is already a run in this folder\. Resume it, or choose another folder\."):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=trained_scorer.path)
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        for folder in (tmp_path, tmp_path / "notes.txt"):
            with pytest.raises(RunError, match="the folder is not empty"):
                hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path / "empty")


@pytest.mark.parametrize("last", ["dataset.safetensors", "settings.toml", "run.json"])
def test_killed_before_training_began(tmp_path: Path, trained_scorer: Run, monkeypatch: pytest.MonkeyPatch, last: str):
    """The folder has no run.json, and an incomplete file."""
    folder, replace = tmp_path / "run", Path.replace

    def kill(self: Path, target: Path) -> Path:
        if target.name == last:
            shutil.copy(self, self.with_name(f"{self.name[:-16]}{'0' * 16}"))  # `kill -9` would not have it removed
            raise Stopped
        return replace(self, target)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Path, "replace", kill)
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert f".{last}.{'0' * 16}" in [path.name for path in folder.iterdir()]
    with pytest.raises(RunError, match="the folder is not empty"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=folder)
    assert result_of(hopwalk.train_scorer(SCHOOL, TRAINED, out=folder, resume=True)) == result_of(trained_scorer)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("names", [["settings.toml"], ["dataset.safetensors", "graph.safetensors"], [".settings.toml.mine"]])
def test_a_folder_of_other_files_is_left_alone(tmp_path: Path, names: list[str]):
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match="the folder is not empty"):
        hopwalk.train_scorer(SCHOOL, TRAINED, out=tmp_path, resume=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(names, "mine")


@pytest.mark.parametrize(
    "changed",
    [
        {"hopwalk": None},
        {"machine": 7},
        {"status": []},
        {"dataset": "umls"},
        {"dataset": {"name": "umls"}},
        {"seconds": "long"},
        {"epochs": -1},
        {"best_epoch": None},
        {"members": "abc"},
        {"members": [1]},
    ],
)
def test_descriptions_that_are_damaged_are_refused(tmp_path: Path, changed: dict[str, object]):
    """Also after the edit was accepted: a run whose `hopwalk` was taken out could be trained on, but for its card (soak)."""
    run = Run.create(tmp_path / "run", SCHOOL, settings_of(), {"kind": "scorer", "status": "training"})
    about = {name: value for name, value in (run.about | changed).items() if value is not None or name != "hopwalk"}
    (run.path / "run.json").write_text(json.dumps(about), encoding="utf-8")
    run.accept()
    with pytest.raises(RunError, match="it does not describe the run"):
        Run.open(run.path)
