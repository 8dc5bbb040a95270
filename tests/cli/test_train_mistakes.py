"""Mistakes in `hopwalk train` and `evaluate`: one clear message, and nothing is written."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import hopwalk
from hopwalk import api
from hopwalk.learning.run import Run
from tests.support.commands import command, mistake
from tests.support.schools import SCHOOL
from tests.support.stopping import results_of
from tests.support.villages import SET, VILLAGE, settings_of, village_of


@pytest.fixture
def school(in_folder: Path) -> Path:
    """The school as a folder of files, in the current folder."""
    hopwalk.write_folder(SCHOOL, "school")
    return in_folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "school", "--scorer", "complx"], "Did you mean 'complex'"),
        (["train", "school", "--scorer", "conve", "--set", "scorer.dimension=8"], "scorer.dimension = 8"),
        (["train", "school", "--recipe", "old"], "scorer.recipe = 'old' is not valid"),
        (["train", "school", "--scorer", "complex", "--epochs", "0"], "scorer.epochs = 0 is not valid"),
        (["train", "school", "--reasoner", "walker", "--epochs", "0"], "there is nothing to train in 0 epochs"),
        (["train", "school", "--set", "scorer.dimensions=8"], "Did you mean 'scorer.dimension'"),
        (["train", "school", "--out", "school"], "school: the folder is not empty"),
        (["train", "school", "--scorer", "conve", "--set", "scorer.relation_weight=1"], "scorer.relation_weight"),
        (["train", "nothing"], "there is no data set and no file 'nothing'"),
        (["evaluate", "nothing"], "nothing: there is no such folder"),
        (["evaluate", "school"], "school: this is not a run folder: run.json is missing"),
        (["evaluate", "school", "--split", "train"], "there is no split 'train' to evaluate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_scorers(school: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str):
    refused = command(capsys, *arguments, code=1)
    assert refused.err.startswith("error: ")
    assert message in refused.err
    assert refused.out == ""
    assert not Path("runs").exists()


MISTAKES: dict[str, tuple[list[str], str]] = {
    "unknown recipe": (["--walker", "old"], "walker.recipe = 'old' is not valid"),
    "unknown scorer": (["--reward", "complx"], "there is no scorer 'complx' Did you mean 'complex'?"),
    "unknown folder": (["--reward", "runs/lost"], "there is no scorer 'runs/lost'"),
    "more than all actions dropped": (["--action-dropout", "1.1"], "walker.action_dropout = 1.1 is not valid"),
    "no epochs": (["--epochs", "0"], "there is nothing to train in 0 epochs"),
    "little memory": (["--set", "walker.memory_mb=1"], "walker.memory_mb = 1 is not valid"),
    "unknown setting": (["--set", "walker.dropout=1"], "there is no setting 'walker.dropout'"),
    "data in the folder": (["--out", "village"], "village: the folder is not empty"),
    "scorer of other data": (["--reward", "other"], "other: the run was trained on other data"),
    "a walker as scorer": (["--reward", "walker"], "this is a run of kind 'walker', not a scorer"),
    "used folder": (["--out", "walker"], "walker: there is already a run in this folder Resume it (--resume)"),
    "another seed": (["--out", "walker", "--resume", "--seed", "1"], "walker.seed = 0, not 1"),
    "another beam": (["--out", "walker", "--resume", "--set", "walk.beam=8"], "walk.beam = 32, not 8"),
    "another graph": (["--out", "walker", "--resume", "--set", "graph.fan_out=8"], "graph.fan_out = 400, not 8"),
    "another scorer": (["--out", "walker", "--resume", "--reward", "conve"], "scorer.model = 'complex', not 'conve'"),
    "more epochs": (["--out", "walker", "--resume", "--epochs", "9"], "walker.epochs = 4, not 9"),
}


@pytest.fixture(scope="module")
def other_scorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scorer of other data."""
    return api.train_scorer(village_of(15), settings_of(), out=tmp_path_factory.mktemp("other") / "run").path


@pytest.mark.parametrize("name", MISTAKES)
def test_walkers(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str], name: str, other_scorer: Path):
    arguments, message = MISTAKES[name]
    shutil.copytree(trained_walker.path, "walker")
    shutil.copytree(other_scorer, "other")
    before = results_of(Run.open("walker"))
    assert message in mistake(capsys, "train", "village", *SET, *arguments)
    assert not Path("runs").exists()  # nothing is left that would be in the way of the next try
    assert results_of(Run.open("walker")) == before


def test_no_training_queries(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    api.prepare(replace(VILLAGE, train=VILLAGE.train[:0]), "facts")
    assert "has no training queries" in mistake(capsys, "train", "facts", *SET)


def test_contradicting_options(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    scorer = str(trained_walker.path / "scorer")
    assert "--reward" in mistake(capsys, "train", "village", *SET, "--scorer", "complex", "--reward", "distmult")
    assert "--reward" in mistake(capsys, "train", "village", *SET, "--no-reward-shaping", "--reward", scorer)
    small = ["--set", "scorer.dimension=8"]
    assert "--start" in mistake(capsys, "train", "village", "--scorer", "complex", *small, "--start", str(trained_walker.path))
    assert not Path("runs").exists()
