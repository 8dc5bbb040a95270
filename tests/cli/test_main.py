"""The command line as a whole: help, settings, exit codes, pipes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.processes import hopwalk


def test_help_and_version():
    assert "hopwalk data check" in hopwalk("--help").stdout
    assert hopwalk("--version").stdout.startswith("hopwalk 0.")


@pytest.mark.parametrize(
    "name",
    ["train", "evaluate", "ensemble", "compare", "reproduce", "record", "tune", "ask", "explain", "rules", "complete", "serve"],
)
def test_every_command_has_examples(capsys: pytest.CaptureFixture[str], name: str):
    text = command(capsys, name, "--help").out
    assert "Examples" in text and f"hopwalk {name} " in text and "--threads" in text


def test_settings(capsys: pytest.CaptureFixture[str]):
    assert "# η" in command(capsys, "settings").out
    assert "fan_out = 7" in command(capsys, "settings", "umls", "--set", "graph.fan_out=7").out
    assert "there is no preset 'nothing'" in command(capsys, "settings", "nothing", code=1).err


@pytest.mark.parametrize("arguments", [["data", "shwo"], ["data", "show"], ["data", "split", "x.tsv"], ["--no-such-option"]])
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]):
    assert "Usage" in command(capsys, *arguments, code=2).err


def test_output_may_be_cut_off():
    done = subprocess.run(f"{sys.executable} -m hopwalk settings | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_threads(in_folder: Path):
    """The number of threads is that of the option, and it is in the run."""
    Path("facts.csv").write_text("a,r,b\nb,r,c\nc,q,a\n")
    small = ["--epochs", "1", "--set", "scorer.dimension=8"]
    hopwalk("train", "facts.csv", "--scorer", "complex", *small, "--out", "run", "--threads", "1")
    assert json.loads(Path("run/run.json").read_text())["threads"] == 1


@pytest.mark.parametrize(
    "arguments",
    [["x" * 70_000], ["settings", "--" + "x" * 70_000], ["ask", "run", "a", "b", "-k", "x" * 70_000], ["\x1b[2J\u202e"]],
    ids=["command", "option", "value", "control"],
)
def test_mistakes_in_the_command_line_are_told_at_a_readable_length(capsys: pytest.CaptureFixture[str], arguments: list[str]):
    told = command(capsys, *arguments, code=2).err
    assert "Usage" in told and len(told) < 2500
    assert "\x1b[2J" not in told and "\u202e" not in told
