"""Walkers trained and evaluated at the command line, and its mistakes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.cli import train as cli_train
from hopwalk.config.loading import load_settings
from hopwalk.learning.run import Run
from tests.support.commands import command, mistake
from tests.support.stopping import StopAt, result_of, results_of, watching
from tests.support.villages import SET, VILLAGE, settings_of, village_of

# Training and evaluation

SHORT = ["--epochs", "1", "--set", "scorer.epochs=1"]


def test_train_and_evaluate(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "village", *SET)
    assert "runs/village: finished after 4 epochs; dev MRR" in printed.out
    assert "`hopwalk evaluate runs/village` ranks the test answers." in printed.out
    forecast = printed.err.splitlines()[0]  # before anything is trained
    assert forecast.startswith("The walker needs about ")
    assert forecast.endswith("for each of at most 4 epochs on this machine, dev evaluation aside.")
    assert "in parts" not in forecast

    tables = command(capsys, "evaluate", "runs/village").out
    rankings = "paths, with reward", "paths (the paper's)", "scorer alone", "blend of both"
    assert all(said in tables for said in (*rankings, "not reached by a path; they count 0"))
    written = json.loads(Path("runs/village/evaluation-test.json").read_text())
    found = json.loads(command(capsys, "evaluate", "runs/village", "--json").out)
    assert all(found[name] == written[name] for name in ("paths", "probability", "scorer", "blend"))
    assert found["paths"]["heads"]["num_queries"] == 0
    found = json.loads(command(capsys, "evaluate", "runs/village", "--both", "--json").out)
    assert found["paths"]["heads"]["num_queries"] == len(VILLAGE.test)
    assert "was finished already" in command(capsys, "train", "village", *SET, "--resume").out


def test_evaluate_shows_how_far_it_has_come(
    trained_walker: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    run = str(trained_walker.path)
    assert command(capsys, "evaluate", run).err == ""  # it took no second
    monkeypatch.setattr("hopwalk.cli.console.SECONDS_BEFORE_A_BAR", -1)
    assert "questions ranked" in command(capsys, "evaluate", run).err


def test_the_forecast_tells_of_parts(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    parts = ["--set", "walker.memory_mb=64", "--set", "walker.rollouts=200", "--no-reward-shaping", "--guidance", "0"]
    told = command(capsys, "train", "village", *SET, *SHORT, *parts, "--set", "walker.batch_size=512").err
    assert ", in parts of " in told.splitlines()[0]


MODERN = load_settings().walker


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"recipe": "modern", "estimator": "sum", "guidance": MODERN.guidance, "reward_shaping": True, "seed": 0}),
        (
            ["--walker", "minerva"],
            {"recipe": "minerva", "estimator": "sampled", "guidance": 0, "reward_shaping": False, "baseline": "average"}
            | {"uses_entities": False, "rollouts": 20, "gradient_clip": 5},
        ),
        (
            ["--walker", "paper"],
            {"recipe": "paper", "estimator": "sampled", "guidance": 0, "reward_shaping": True, "baseline": "none"}
            | {"uses_entities": True, "rollouts": 20},
        ),
        (["--no-reward-shaping", "--guidance", "0"], {"recipe": "modern", "guidance": 0, "reward_shaping": False}),
        (["--no-reward-shaping"], {"guidance": MODERN.guidance, "reward_shaping": False}),
        (["--guidance", "0.7"], {"guidance": 0.7, "reward_shaping": True}),
        (["--action-dropout", "0.25", "--seed", "7"], {"action_dropout": 0.25, "seed": 7}),
        (["--walker", "minerva", "--reward-shaping"], {"recipe": "minerva", "reward_shaping": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(village_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: dict[str, Any]):
    small = [f"walker.{name}=8" for name in ("dimension", "history_dimension")] + ["scorer.dimension=8", "walk.hops=2"]
    command(capsys, "train", "village", *(part for name in small for part in ("--set", name)), *SHORT, *arguments)
    run = Run.open("runs/village")
    walker = run.settings.walker.model_dump()
    assert {name: walker[name] for name in expected} == expected
    needs_scorer = bool(walker["reward_shaping"] or walker["guidance"])
    assert (run.path / "scorer").exists() == needs_scorer == ("guided" in (run.path / "card.md").read_text() or needs_scorer)
    assert run.settings.scorer.seed == walker["seed"]
    rankings = ["paths", *(["probability"] if walker["rerank_weight"] else []), "scorer", "blend"]
    assert [*api.evaluate_walker(run.path)] == (rankings if needs_scorer else ["paths"])


def test_a_scorer_can_be_given(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    command(capsys, "train", "village", *SET, "--reward", str(trained_walker.path / "scorer"), "--out", "run")
    assert result_of(Run.open("run"))[:2] == result_of(trained_walker)[:2]  # but for the name of the data set
    assert Run.open("run/scorer").about == Run.open(trained_walker.path / "scorer").about  # copied: the time it took is the same
    command(capsys, "train", "village", *SET, *SHORT, "--reward", "distmult", "--out", "other")
    assert Run.open("other/scorer").settings.scorer.model == "distmult"


def test_ctrl_c_at_the_command_line(village_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    for name in ("walker", "scorer"):
        with monkeypatch.context() as patch:
            stop = watching(name, StopAt(2, 1, KeyboardInterrupt))
            patch.setattr(cli_train.TrainingBars, "begin", lambda _, *of, stop=stop: stop(*of))
            printed = command(capsys, "train", "village", *SET, "--out", name).out
        assert f"{name}: interrupted after {'1 epoch' if name == 'walker' else '0 epochs'}" in printed
        assert "Go on with the same command and --resume." in printed
        assert "finished" not in printed
    assert "error: scorer: the walker is not trained yet" in command(capsys, "evaluate", "scorer", code=1).err
    command(capsys, "evaluate", "walker")
    command(capsys, "evaluate", "scorer/scorer")


def test_evaluation_is_not_offered_before_there_is_a_walker(
    village_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    stop = watching("scorer", StopAt(1, 1, KeyboardInterrupt))
    monkeypatch.setattr(cli_train.TrainingBars, "begin", lambda _, *of: stop(*of))
    assert "hopwalk evaluate" not in command(capsys, "train", "village", *SET, "--out", "run").out


def test_json_is_what_is_written(copied: Path, capsys: pytest.CaptureFixture[str]):
    found = json.loads(command(capsys, "evaluate", str(copied), "--json").out)
    assert found == json.loads((copied / "evaluation-test.json").read_text())


# What must be refused

MISTAKES: dict[str, tuple[list[str], str]] = {
    "unknown recipe": (["--walker", "old"], "walker.recipe = 'old' does not fit"),
    "unknown scorer": (["--reward", "complx"], "there is no scorer 'complx' Did you mean 'complex'?"),
    "unknown folder": (["--reward", "runs/lost"], "there is no scorer 'runs/lost'"),
    "all edges dropped": (["--action-dropout", "1"], "walker.action_dropout = 1.0 does not fit"),
    "guidance below nothing": (["--guidance", "-1"], "walker.guidance = -1.0 does not fit"),
    "no epochs": (["--epochs", "0"], "there is nothing to train in 0 epochs"),
    "little memory": (["--set", "walker.memory_mb=1"], "walker.memory_mb = 1 does not fit"),
    "unknown setting": (["--set", "walker.dropout=1"], "there is no setting 'walker.dropout'"),
    "data in the folder": (["--out", "village"], "village: this is no empty folder"),
    "scorer of other data": (["--reward", "other"], "other: the run was trained on other data"),
    "a walker as scorer": (["--reward", "walker"], "this is a run of kind 'walker', not a scorer"),
    "used folder": (["--out", "walker"], "walker: there is a run in this folder already Go on with it with --resume"),
    "another seed": (["--out", "walker", "--resume", "--seed", "1"], "has walker.seed = 0, not 1: it cannot go on"),
    "another beam": (["--out", "walker", "--resume", "--set", "walk.beam=8"], "has walk.beam = 32, not 8"),
    "another graph": (["--out", "walker", "--resume", "--set", "graph.fan_out=8"], "has graph.fan_out = 400, not 8"),
    "another scorer": (["--out", "walker", "--resume", "--reward", "conve"], "has scorer.model = 'complex', not 'conve'"),
    "more epochs": (["--out", "walker", "--resume", "--epochs", "9"], "has walker.epochs = 4, not 9"),
}


@pytest.fixture(scope="module")
def other_scorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scorer of other data."""
    return api.train_scorer(village_of(15), settings_of(), out=tmp_path_factory.mktemp("other") / "run").path


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_clear_message(
    village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str], name: str, other_scorer: Path
):
    arguments, message = MISTAKES[name]
    shutil.copytree(trained_walker.path, "walker")
    shutil.copytree(other_scorer, "other")
    before = results_of(Run.open("walker"))
    assert message in mistake(capsys, "train", "village", *SET, *arguments)
    assert not Path("runs").exists()  # nothing is begun that would stand in the way of the next try
    assert results_of(Run.open("walker")) == before


def test_divergence_at_the_command_line(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "diverged" in mistake(capsys, "train", "village", *SET, "--set", "walker.learning_rate=1e30")


def test_no_training_queries(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    api.prepare(replace(VILLAGE, train=VILLAGE.train[:0]), "facts")
    told = mistake(capsys, "train", "facts", *SET)
    assert "has no training questions" in told


def test_contradicting_options(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    """Of two things that are said, neither is left out in silence."""
    assert "--reward" in mistake(capsys, "train", "village", *SET, "--scorer", "complex", "--reward", "distmult")
    alone = ["--no-reward-shaping", "--guidance", "0"]
    assert "--reward" in mistake(capsys, "train", "village", *SET, *alone, "--reward", str(trained_walker.path / "scorer"))
    assert not Path("runs").exists()
