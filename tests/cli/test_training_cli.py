"""Scorers trained and evaluated at the command line, and its mistakes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk.cli import train
from hopwalk.learning.run import Run
from tests.support.commands import command
from tests.support.schools import SCHOOL

TINY = ["--epochs", "2", "--set", "scorer.dimension=8"]


@pytest.fixture
def school(in_folder: Path) -> Path:
    """The school as a folder of files, in the current folder."""
    hopwalk.write_folder(SCHOOL, "school")
    return in_folder


def test_train_and_evaluate(school: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "school", "--scorer", "DistMult", "--seed", "3", *TINY).out
    assert "runs/school-distmult: finished after 2 epochs; dev MRR" in printed
    assert "`hopwalk evaluate runs/school-distmult` ranks the test answers." in printed
    settings = Run.open("runs/school-distmult").settings.scorer
    assert (settings.model, settings.seed, settings.epochs, settings.dimension) == ("DistMult", 3, 2, 8)

    table = command(capsys, "evaluate", "runs/school-distmult").out
    assert "hits@10" in table
    assert "95 % interval" in table
    found = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--json").out)
    assert found == json.loads(Path("runs/school-distmult/evaluation-test.json").read_text())
    assert (found["dataset"], found["split"], found["filter"]) == ("school", "test", "all known facts")
    assert found["tails"]["num_queries"] == found["heads"]["num_queries"] == len(SCHOOL.test)
    assert found["both"]["mrr"] == pytest.approx((found["tails"]["mrr"] + found["heads"]["mrr"]) / 2)
    assert found["relations"]["taught_by"]["mrr"] == pytest.approx(found["tails"]["mrr"])
    low, high = found["tails"]["mrr_interval_95"]
    assert low <= found["tails"]["mrr"] <= high

    on_dev = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--split", "valid", "--json").out)
    assert on_dev["filter"] == "all known facts but those of test"
    assert on_dev["tails"]["mrr"] == Run.open("runs/school-distmult").about["valid_mrr"]
    complete = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--split", "valid", "--complete", "--json").out)
    assert complete["filter"] == "all known facts"
    assert complete["tails"]["mrr"] >= on_dev["tails"]["mrr"]

    assert (
        "was finished already" in command(capsys, "train", "school", "--scorer", "DistMult", "--seed", "3", *TINY, "--resume").out
    )
    assert (
        "there is a run in this folder already" in command(capsys, "train", "school", "--scorer", "DistMult", *TINY, code=1).err
    )


@pytest.mark.parametrize("name", ["epochs", "best_epoch", "valid_mrr"])
def test_going_on_with_a_run_that_does_not_say_how_far_it_is(school: Path, capsys: pytest.CaptureFixture[str], name: str):
    command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run")
    run = Run.open("run")
    run.write_about({key: value for key, value in run.about.items() if key != name})
    command(
        capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run", "--resume", code=None
    )  # an error or not, but no traceback


def test_ctrl_c_at_the_command_line(school: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train.TrainingBar, "on_batch", stop)
    printed = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run").out
    assert "run: interrupted after 0 epochs" in printed
    assert "Go on with the same command and --resume." in printed
    assert "no dev questions" not in printed
    assert "finished" not in printed


def test_without_dev_and_test_queries(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("facts.csv").write_text("a,r,b\nb,r,c\nc,q,a\n")
    printed = command(capsys, "train", "facts.csv", "--scorer", "complex", *TINY, "--out", "run").out
    assert "run: finished after 2 epochs\n" in printed
    for split in ("test", "valid"):
        told = command(capsys, "evaluate", "run", "--split", split, code=1).err
        assert f"error: facts has no {split} questions" in told
        assert "hopwalk data split" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "school", "--scorer", "complx"], "Did you mean 'complex'"),
        (["train", "school", "--scorer", "conve", *TINY], "scorer.dimension = 8 does not make a picture of 10 rows"),
        (["train", "school", "--recipe", "old"], "scorer.recipe = 'old' does not fit"),
        (["train", "school", "--scorer", "complex", "--epochs", "0"], "scorer.epochs = 0 does not fit"),
        (["train", "school", "--epochs", "0"], "there is nothing to train in 0 epochs"),
        (["train", "school", "--set", "scorer.dimensions=8"], "Did you mean 'scorer.dimension'"),
        (["train", "school", "--out", "school"], "school: this is no empty folder"),
        (["train", "school", "--scorer", "conve", "--set", "scorer.relation_weight=1"], "no meaning for ConvE"),
        (["train", "nothing"], "there is neither a data set nor a file 'nothing'"),
        (["evaluate", "nothing"], "nothing: there is no such folder"),
        (["evaluate", "school"], "school: this folder is no run: run.json is missing"),
        (["evaluate", "school", "--split", "train"], "there is no split 'train' to rank"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_clear_message(school: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str):
    told = command(capsys, *arguments, code=1)
    assert told.err.startswith("error: ")
    assert message in told.err
    assert told.out == ""
    assert not Path("runs").exists()


def test_divergence_at_the_command_line(school: Path, capsys: pytest.CaptureFixture[str]):
    told = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--set", "scorer.learning_rate=1e30", code=1)
    assert "error: " in told.err  # after the progress bar
    assert "diverged" in told.err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]):
    for name in ("train", "evaluate"):
        text = command(capsys, name, "--help").out
        assert "Examples" in text
        assert f"hopwalk {name} " in text


def test_tensorboard_that_is_not_installed(school: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    told = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run", "--tensorboard", code=1).err
    assert "--tensorboard needs the package tensorboard, which is not installed" in told
    assert not Path("run").exists()
