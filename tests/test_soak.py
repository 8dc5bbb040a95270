"""The soak: the same seed gives the same cases, failures are noticed, and a short form of each part finds none."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from tools.soak import inputs
from tools.soak.__main__ import Report, Worker
from tools.soak.damages import damage_case
from tools.soak.kills import COMMANDS, FORKED
from tools.soak.load import serve_and_load
from tools.soak.mutations import spoilt
from tools.soak.outcome import Outcome, judged

from hopwalk.data.loading import prepare
from hopwalk.errors import HopwalkError
from hopwalk.web.runs import RunView
from tests.support.schools import SCHOOL


@pytest.mark.parametrize("name", ["facts.tsv", "run.json", "history.jsonl", "settings.toml"])
def test_damage_depends_on_the_seed_alone(name: str):
    content = b'{"a": [1, {"b": 2}]}\n' if "json" in name else b"beam = 128\nhops = 3\n"
    made = [spoilt(content, Random(seed), name) for seed in range(300)]
    assert made == [spoilt(content, Random(seed), name) for seed in range(300)]
    assert len({*made}) > 100
    assert all(isinstance(spoilt(b"", Random(seed), name), bytes) for seed in range(20))


@pytest.mark.parametrize("name", ["run.json", "history.jsonl", "settings.toml"])
def test_what_is_damaged_can_be_damaged_again(name: str):
    """A second damage to a file whose JSON is nested too deeply ended the process (soak, damages:7036)."""
    nested = b'{"a": ' * 3000
    assert all(
        isinstance(spoilt(content, Random(seed), name), bytes) for seed in range(20) for content in (nested, b"\n" + nested)
    )


def test_what_is_a_failure():
    def outcome_of(error: Exception | None) -> Outcome:
        outcome = Outcome("case")
        with judged(outcome):
            if error:
                raise error
        return outcome

    errors = [None, HopwalkError("wrong", remedy="Do it right."), RecursionError(), EndlessError()]
    outcomes = [outcome_of(error) for error in errors]
    assert [outcome.outcome for outcome in outcomes] == ["accepted", "refused", "failed", "failed"]
    assert "RecursionError" in outcomes[2].problem


class EndlessError(HopwalkError):
    def __init__(self) -> None:
        super().__init__("wrong")

    def __str__(self) -> str:
        return "x" * 70_000


def test_failures_say_how_to_repeat_them(capsys: pytest.CaptureFixture[str]):
    report = Report(seed=7)
    reply = {"what": "facts.tsv", "counts": {"inputs": 1}, "seconds": 0.1, "peak_mb": 300, "problem": ""}
    report.add("inputs", 1, reply | {"outcome": "refused"})
    report.add("inputs", 2, reply | {"outcome": "failed", "problem": "a traceback"})
    report.add("inputs", 3, reply | {"outcome": "accepted", "seconds": 60.0})
    report.add("damages", 4, reply | {"outcome": "accepted", "peak_mb": 9000})
    assert [failure["case"] for failure in report.failures] == ["inputs:2", "inputs:3", "damages:4"]
    assert report.failures[0]["repeat"] == "python -m tools.soak --seed 7 --repeat inputs:2"
    assert report.content()["counts"]["inputs"] == 4 and "inputs:2" in capsys.readouterr().out


def test_a_process_that_dies_is_a_failure(tmp_path: Path):
    worker = Worker("inputs", 0, tmp_path)
    worker._command = [sys.executable, "-c", "import os; input(); os.abort()"]
    assert worker.do(1)["problem"] == "the process ended with code -6"
    worker._command = [sys.executable, "-c", "import json; input(); print(json.dumps({'what': 'next'}))"]
    assert worker.do(2) == {"what": "next"}
    worker.close()


CHEAP = [*inputs.FACTS, "settings file", "overrides", "search space", "result file", "prepared data", "labelled facts"]


def test_malformed_inputs_are_refused_or_read(tmp_path: Path):
    scratch, outcomes = tmp_path / "scratch", Counter[str]()
    prepare(SCHOOL, scratch / "village")
    for number in range(4 * len(CHEAP)):
        outcome, folder = Outcome(CHEAP[number % len(CHEAP)]), tmp_path / str(number)
        folder.mkdir()
        with judged(outcome):
            inputs.READERS[outcome.what][0](Random(number), scratch, folder)
        assert outcome.outcome != "failed", outcome
        outcomes[outcome.outcome] += 1
    assert outcomes["refused"] and outcomes["accepted"]


def test_damaged_runs_are_refused_or_right(tmp_path: Path, village_run: Path):
    shutil.copytree(village_run, tmp_path / "scratch" / "bases" / "walker")
    outcomes = Counter[str]()
    for number in range(30):
        (tmp_path / str(number)).mkdir()
        outcome = damage_case(Random(number), tmp_path / "scratch", tmp_path / str(number))
        assert outcome.outcome != "failed", outcome
        outcomes[outcome.outcome] += 1
    assert outcomes["refused"] and outcomes["accepted"]


def test_killed_again_and_again_the_bits_are_the_same(tmp_path: Path):
    """In a process of its own, which forks: this one has threads."""
    prepare(SCHOOL, tmp_path / "school")
    weights = [*([1.0] * len(FORKED)), 0.1]
    numbers = [
        number
        for number in range(200)
        if Random(f"0:kills:{number}").choices([*FORKED, COMMANDS], weights)[0] in ("train distmult", "train complex")
    ][:2]
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak.worker", "kills", "0", str(tmp_path)],
        input="".join(f"{number}\n" for number in numbers),
        capture_output=True,
        text=True,
        timeout=600,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["outcome"] for reply in replies] == ["accepted"] * 2, replies
    assert sum(reply["counts"]["kills"] for reply in replies) >= 1
    assert sum(reply["counts"]["resumed"] for reply in replies) == 2


def test_a_server_stopped_under_load_answers_what_it_accepted(served_runs: Mapping[str, RunView]):
    """Real processes: 16 clients, some of them hostile, and SIGTERM in the middle."""
    folder = served_runs["village"].reasoner.run.path
    tally = serve_and_load([folder], Random(0), clients=16, rate=0.0, seconds=2.0)
    assert tally.failures == []
    assert tally.counts["requests"] > 16 and tally.counts["servers stopped under load"] == 1
    assert tally.counts["malformed requests"]
