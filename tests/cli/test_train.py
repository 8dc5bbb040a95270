"""`hopwalk train` and `evaluate` at the command line: scorers and walkers, options, interruption."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hopwalk
from hopwalk import api
from hopwalk.cli.progress import TrainingProgress
from hopwalk.errors import DivergedError
from hopwalk.learning.run import Run
from tests.support.commands import command
from tests.support.schools import SCHOOL
from tests.support.stopping import StopAt, result_of, watching
from tests.support.villages import SET, VILLAGE

TINY = ["--epochs", "2", "--set", "scorer.dimension=8"]  # of a scorer
SHORT = ["--epochs", "1", "--set", "scorer.epochs=1"]  # of a walker


@pytest.fixture
def school(in_folder: Path) -> Path:
    """The school as a folder of files, in the current folder."""
    hopwalk.write_folder(SCHOOL, "school")
    return in_folder


# Scorers


def test_a_scorer_is_trained_and_evaluated(school: Path, capsys: pytest.CaptureFixture[str]):
    training = ["train", "school", "--scorer", "DistMult", "--seed", "3", *TINY]
    printed = command(capsys, *training).out
    assert (
        "runs/school-distmult: finished after 2 epochs; in 10 questions with a known answer, the right one is first in "
        in printed
    )
    assert "Evaluate it on test: hopwalk evaluate runs/school-distmult\n" in printed
    run = Run.open("runs/school-distmult")
    settings = run.settings.scorer
    assert (settings.model, settings.seed, settings.epochs, settings.dimension) == ("DistMult", 3, 2, 8)

    table = command(capsys, "evaluate", "runs/school-distmult").out
    assert "hits@10" in table
    assert "95 % interval" in table
    found = json.loads(command(capsys, "evaluate", "runs/school-distmult", "--json").out)["scorer"]
    assert found == json.loads((run.path / "evaluation-test.json").read_text())["scorer"]
    assert (found["dataset"], found["split"], found["filter"]) == ("school", "test", "all known facts")
    assert found["tails"]["num_queries"] == found["heads"]["num_queries"] == len(SCHOOL.test)
    assert found["both"]["mrr"] == pytest.approx((found["tails"]["mrr"] + found["heads"]["mrr"]) / 2)
    assert found["relations"]["taught_by"]["mrr"] == pytest.approx(found["tails"]["mrr"])
    low, high = found["tails"]["mrr_interval_95"]
    assert low <= found["tails"]["mrr"] <= high

    assert "already finished after 2 epochs" in command(capsys, *training, "--resume").out
    refused = command(capsys, *training, code=1).err
    assert "there is already a run in this folder" in refused
    assert "(--resume)" in refused and "(--out)" in refused


def test_a_scorer_is_evaluated_on_dev(school: Path, capsys: pytest.CaptureFixture[str]):
    command(capsys, "train", "school", "--scorer", "distmult", *TINY, "--out", "run")
    on_dev = json.loads(command(capsys, "evaluate", "run", "--split", "valid", "--json").out)["scorer"]
    assert on_dev["filter"] == "all known facts but those of test"
    assert on_dev["tails"]["mrr"] == Run.open("run").about["valid_mrr"]
    complete = json.loads(command(capsys, "evaluate", "run", "--split", "valid", "--complete", "--json").out)["scorer"]
    assert complete["filter"] == "all known facts"
    assert complete["tails"]["mrr"] >= on_dev["tails"]["mrr"]


@pytest.mark.parametrize("name", ["epochs", "best_epoch", "valid_mrr"])
def test_a_run_with_missing_keys_is_resumed_without_a_traceback(school: Path, capsys: pytest.CaptureFixture[str], name: str):
    training = ["train", "school", "--scorer", "complex", *TINY, "--out", "run"]
    command(capsys, *training)
    run = Run.open("run")
    run.write_about({key: value for key, value in run.about.items() if key != name})
    command(capsys, *training, "--resume", code=None)


def test_data_without_dev_and_test_queries(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("facts.csv").write_text("a,r,b\nb,r,c\nc,q,a\n")
    printed = command(capsys, "train", "facts.csv", "--scorer", "complex", *TINY, "--out", "run").out
    assert "run: finished after 2 epochs\n" in printed
    for split in ("test", "valid"):
        refused = command(capsys, "evaluate", "run", "--split", split, code=1).err
        assert f"error: facts has no {split} queries" in refused
        assert "hopwalk data split" in refused


# Walkers


@pytest.mark.usefixtures("wide")
def test_a_walker_is_trained_and_evaluated(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    printed = command(capsys, "train", "village", *SET)
    mrr = f"(dev MRR {100 * Run.open('runs/village-walker').about['valid_mrr']:.2f})\n"
    assert (
        "runs/village-walker: finished after 4 epochs; in 10 questions with a known answer" in printed.out and mrr in printed.out
    )
    assert "Evaluate it on test: hopwalk evaluate runs/village-walker\n" in printed.out
    assert " ⇐ " in printed.out  # its rules
    (asked,) = (line for line in printed.out.splitlines() if line.startswith("Ask it: hopwalk "))
    assert "1. " in command(capsys, *shlex.split(asked.removeprefix("Ask it: hopwalk "))).out
    assert "Show it on a page: hopwalk serve runs/village-walker\n" in printed.out
    lines = printed.err.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("The walker needs about "))
    assert lines[place].endswith("for each of at most 4 epochs, evaluation on dev aside.")
    assert lines[place + 1].startswith("walker epoch 1/4: ")

    tables = command(capsys, "evaluate", "runs/village-walker").out
    for part in (
        "tails (the paper's)",
        "not reached by a path; their reciprocal rank is 0",
        "Filtered ranking: other known answers are removed. Ties get the mean rank.",
    ):
        assert part in tables
    assert "untrained" not in tables
    written = json.loads(Path("runs/village-walker/evaluation-test.json").read_text())
    found = json.loads(command(capsys, "evaluate", "runs/village-walker", "--json").out)
    assert [*found] == ["policy"] and found == written
    assert found["policy"]["heads"]["num_queries"] == 0
    both = json.loads(command(capsys, "evaluate", "runs/village-walker", "--both", "--json").out)
    assert both["policy"]["heads"]["num_queries"] == len(VILLAGE.test)
    assert "already finished" in command(capsys, "train", "village", *SET, "--resume").out


@pytest.mark.usefixtures("wide")
def test_the_untrained_control_is_printed_and_written(copied: Path, capsys: pytest.CaptureFixture[str]):
    lines = command(capsys, "evaluate", str(copied), "--untrained-control").out.splitlines()
    written = json.loads((copied / "evaluation-test.json").read_text())
    for title, name in (("policy", "policy"), ("untrained policy", "untrained_policy")):
        row = next(line for line in lines if line.strip().startswith(f"{title}  "))
        assert f"{100 * written[name]['tails']['mrr']:.2f}" in row
        assert written[name]["tails"]["num_queries"] == len(VILLAGE.test)
    found = json.loads(command(capsys, "evaluate", str(copied), "--untrained-control", "--json").out)
    assert written == found
    refused = command(capsys, "evaluate", str(copied / "scorer"), "--untrained-control", code=1).err
    assert "the untrained control is for walkers" in refused


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--reasoner", "walker"], {"recipe": "modern", "estimator": "likelihood", "reward_shaping": True, "seed": 0}),
        (
            ["--walker", "minerva"],
            {"recipe": "minerva", "estimator": "sampled", "reward_shaping": False, "baseline": "standardised"}
            | {"uses_entities": False, "rollouts": 20, "gradient_clip": 5},
        ),
        (
            ["--walker", "paper"],
            {"recipe": "paper", "estimator": "sampled", "reward_shaping": True, "baseline": "none"}
            | {"uses_entities": True, "rollouts": 20},
        ),
        (["--no-reward-shaping"], {"recipe": "modern", "reward_shaping": False}),
        (["--action-dropout", "0.25", "--seed", "7"], {"action_dropout": 0.25, "seed": 7}),
        (["--reasoner", "walker", "--walker", "minerva", "--reward-shaping"], {"recipe": "minerva", "reward_shaping": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(village_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: dict[str, Any]):
    small = [f"walker.{name}=8" for name in ("dimension", "history_dimension")] + ["scorer.dimension=8", "walk.hops=2"]
    small += ["scorer.model=complex"]
    command(capsys, "train", "village", *(part for name in small for part in ("--set", name)), *SHORT, *arguments)
    run = Run.open("runs/village-walker")
    walker = run.settings.walker.model_dump()
    assert {name: walker[name] for name in expected} == expected
    assert (run.path / "scorer").exists() == walker["reward_shaping"]
    assert run.settings.scorer.seed == walker["seed"]
    assert [*api.evaluate(run.path)] == ["policy"]


def test_a_scorer_can_be_given(village_folder: Path, trained_walker: Run, capsys: pytest.CaptureFixture[str]):
    command(capsys, "train", "village", *SET, "--reward", str(trained_walker.path / "scorer"), "--out", "run")
    assert result_of(Run.open("run"))[:2] == result_of(trained_walker)[:2]  # the rest has the name of the data set
    assert Run.open("run/scorer").about == Run.open(trained_walker.path / "scorer").about  # copied, with the time it took
    command(capsys, "train", "village", *SET, *SHORT, "--reward", "distmult", "--out", "other")
    assert Run.open("other/scorer").settings.scorer.model == "distmult"


def test_json_is_as_in_the_file(copied: Path, capsys: pytest.CaptureFixture[str]):
    found = json.loads(command(capsys, "evaluate", str(copied), "--json").out)
    written = json.loads((copied / "evaluation-test.json").read_text())
    assert found == written


# Interruption


def test_an_interrupted_process_exits_with_130_and_can_be_resumed(school: Path):
    """Ctrl-C after the first line of progress, then the same command with --resume."""
    many = ["train", "school", "--scorer", "complex", "--epochs", "100000", "--set", "scorer.patience=100000", "--out", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "hopwalk", *many], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("scorer epoch 1/100000: loss ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    first, *more = out.splitlines()
    assert first.startswith("run: interrupted after ") and "dev MRR" in first
    assert more == [
        "Continue with the same command and --resume.",
        "Evaluate it on test: hopwalk evaluate run",
        "Ask it: hopwalk ask run 'pupil a0' taught_by",
        "Show it on a page: hopwalk serve run",
    ]
    assert Run.open("run").status == "interrupted"


@pytest.mark.parametrize("kind", ["walker", "scorer"])
def test_an_interrupted_walker(
    village_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
):
    """Interrupted in its second epoch, or in that of its scorer: it is evaluated as far as it has come, and resumed."""
    with monkeypatch.context() as patch:
        stop = watching(kind, StopAt(2, 1, KeyboardInterrupt))
        patch.setattr(TrainingProgress, "callbacks", lambda _, plan: stop(plan))
        printed = command(capsys, "train", "village", *SET, "--out", "run", code=130).out
    assert f"run: interrupted after {'1 epoch' if kind == 'walker' else '0 epochs'}" in printed
    assert "Continue with the same command and --resume." in printed
    assert "finished" not in printed
    if kind == "walker":
        assert "hopwalk evaluate run" in printed
        command(capsys, "evaluate", "run")
    else:
        assert "hopwalk evaluate" not in printed  # there is no walker yet
        assert "error: run: the walker has no weights yet" in command(capsys, "evaluate", "run", code=1).err
        command(capsys, "evaluate", "run/scorer")
    assert "run: finished after 4 epochs" in command(capsys, "train", "village", *SET, "--out", "run", "--resume").out


def test_divergence(village_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    class Diverging(StopAt):
        def on_evaluation(self, record: Any) -> None:
            raise DivergedError("training diverged: the loss is nan in epoch 1", remedy="Set a smaller scorer.learning_rate.")

    monkeypatch.setattr(TrainingProgress, "callbacks", lambda *_: [Diverging(0, 0)])
    refused = command(capsys, "train", "village", "--scorer", "complex", *TINY, code=1).err
    assert "error: training diverged: the loss is nan in epoch 1\n  Set a smaller scorer.learning_rate.\n" in refused


def test_tensorboard_that_is_not_installed(school: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    refused = command(capsys, "train", "school", "--scorer", "complex", *TINY, "--out", "run", "--tensorboard", code=1).err
    assert "needs the package tensorboard, which is not installed" in refused
    assert "pip install tensorboard" in refused
    assert not Path("run").exists()
