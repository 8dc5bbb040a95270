"""What `hopwalk train` trains: propagation unless a walker or a scorer is asked for; and what contradicts that."""

import json
import re
from pathlib import Path

import pytest

from hopwalk import api
from hopwalk.learning.run import Run
from hopwalk.propagation import budget
from tests.support.commands import command, mistake
from tests.support.villages import PLAIN_SET, PROPAGATION_SET, VILLAGE

SHORT = [*PROPAGATION_SET, "--set", "propagation.queries=64", "--set", "propagation.evaluations=1"]


@pytest.mark.parametrize("named", [[], ["--reasoner", "propagation"]], ids=["default", "named"])
def test_propagation_is_trained(village_folder: Path, capsys: pytest.CaptureFixture[str], named: list[str]):
    """Also with the settings of a walker, which name the scorer that rewards it."""
    preset = village_folder / "walker.toml"
    preset.write_text("[scorer]\nmodel = 'complex'\n")
    printed = command(capsys, "train", "village", *named, "--preset", str(preset), *SHORT, "--seed", "3")
    assert printed.out.startswith("runs/village: finished after 64 queries; in 10 questions with a known answer")
    assert re.search(r"^propagation part 1/1: ", printed.err, re.MULTILINE)
    run = Run.open("runs/village")
    assert (run.about["kind"], run.settings.scorer.model, run.settings.propagation.seed) == ("scorer", "propagation", 3)
    assert [*json.loads(command(capsys, "evaluate", "runs/village", "--json").out)] == ["scorer"]
    answered = command(capsys, "ask", "runs/village", "child 0", "uncle", "-k", "2").out
    assert len(re.findall("child 0 [—←]", answered)) == 3  # the query, and a path of each answer


def test_folders_are_named_by_what_is_trained(village_folder: Path, capsys: pytest.CaptureFixture[str]):
    alone = [*PLAIN_SET, "--no-reward-shaping", "--epochs", "1"]
    for arguments, folder in (
        (SHORT, "village"),
        (["--scorer", "Propagation", *SHORT], "village-propagation"),
        (["--scorer", "complex", "--epochs", "1", "--set", "scorer.dimension=8"], "village-complex"),
        (alone, "village-walker"),
        (["--reasoner", "walker", *alone, "--out", "mine"], "mine"),
    ):
        assert f"{folder}: finished after" in command(capsys, "train", "village", *arguments).out
    assert {path.name for path in Path("runs").iterdir()} == {
        "village",
        "village-propagation",
        "village-complex",
        "village-walker",
    }


def test_a_number_of_minutes(village_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    asked: list[float] = []

    def fit_budget(dataset: object, settings: object, minutes: float) -> object:
        asked.append(minutes)
        return settings

    monkeypatch.setattr("hopwalk.propagation.budget.fit_budget", fit_budget)
    printed = command(capsys, "train", "village", *SHORT, "--minutes", "0.5")
    assert asked == [0.5] and "64 training queries fit into 0.5 minutes." in printed.err
    assert "already finished" in command(capsys, "train", "village", *SHORT, "--minutes", "0.5", "--resume").out
    assert asked == [0.5]  # a run that is resumed has its number of queries


REFUSED: dict[str, tuple[list[str], str]] = {
    "unknown": (["--reasoner", "walkr"], "there is no reasoner 'walkr' Did you mean 'walker'?"),
    "unlike any": (["--reasoner", "complex"], "there is no reasoner 'complex' Reasoners are propagation and walker."),
    "reasoner and scorer": (["--reasoner", "walker", "--scorer", "complex"], "--scorer trains only a scorer"),
    "walker's recipe": (
        ["--reasoner", "propagation", "--walker", "paper"],
        "--walker is for walkers, and",
    ),
    "reward": (["--reasoner", "propagation", "--reward", "complex"], "--reward is for walkers"),
    "shaping": (["--reasoner", "propagation", "--no-reward-shaping"], "--reward-shaping is for walkers"),
    "action dropout": (["--scorer", "complex", "--action-dropout", "0.1"], "--action-dropout is for walkers, and --scorer"),
    "start": (["--reasoner", "propagation", "--start", "runs/none"], "--start is for walkers"),
    "epochs": (
        ["--epochs", "3"],
        "trained for a number of queries Set propagation.queries (--set",
    ),
    "epochs of rules": (["--scorer", "Neural-LP", "--epochs", "3"], "Set rules.queries (--set rules.queries=NUMBER)."),
    "minutes of a walker": ([*PLAIN_SET, "--minutes", "1"], "--minutes is for propagation"),
    "minutes of a scorer": (["--scorer", "complex", "--minutes", "1"], "--minutes is for propagation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions(village_folder: Path, capsys: pytest.CaptureFixture[str], name: str):
    arguments, message = REFUSED[name]
    assert message in mistake(capsys, "train", "village", *arguments)
    assert not Path("runs").exists()


def test_a_walker_can_be_started_from_without_other_options(
    village_folder: Path, uncles_run: Path, capsys: pytest.CaptureFixture[str]
):
    """`--start` alone means a walker: epochs are its own."""
    preset = ["--preset", str(uncles_run / "settings.toml")]
    command(capsys, "train", "village", *preset, "--start", str(uncles_run), "--epochs", "0", "--set", "walk.beam=4")
    run = Run.open("runs/village-walker")
    assert (run.about["kind"], run.about["epochs"], run.settings.walker.epochs, run.settings.walk.beam) == ("walker", 0, 0, 4)


# A propagation run in the other commands


def test_facts_with_new_entities(propagation_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "more.tsv"
    table.write_text("".join(f"new child {number}\tmother\tmother 5\n" for number in range(7)))
    run = str(propagation_run)
    printed = command(capsys, "ask", run, "new child 3", "uncle", "-k", "1", "--facts", str(table))
    assert "new child 3 —mother→ mother 5 —brother→ " in printed.out
    assert printed.err == "7 new entities: new child 0, new child 1, new child 2, new child 3, new child 4, …\n"
    table.write_text("new child\tmothr\tmother 5\n")
    refused = command(capsys, "ask", run, "child 0", "uncle", "--facts", str(table), code=1)
    assert "fact 1 (new child mothr mother 5): there is no relation 'mothr'" in refused.err and not refused.out


def test_rules_explanations_and_completion(propagation_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, (head, relation, tail) = str(propagation_run), VILLAGE.labels_of(VILLAGE.test)[0]
    assert "uncle(X,Y) ⇐ mother(X,A), brother(A,Y)" in command(capsys, "rules", run, "uncle", "-k", "1").out
    explained = command(capsys, "explain", run, head, relation, tail).out
    assert re.search(r"^Rank 1\. \d+\.\d % likely\.$", explained, re.MULTILINE)
    target = tmp_path / "new.tsv"
    printed = command(capsys, "complete", run, "--relation", "uncle", "--above", "0.3", "--out", str(target)).out
    assert "new facts from 46 queries" in printed.replace("\n", "")
    assert f"{head}\t{relation}\t{tail}\t0." in target.read_text(encoding="utf-8")


def test_an_embedding_model_says_that_it_has_no_paths(village_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    scorer = str(village_run / "scorer")
    printed = command(capsys, "ask", scorer, "child 0", "uncle", "-k", "2").out.splitlines()
    assert printed[1] == "An embedding model ranked these: it gives no paths." and printed[2].endswith("(no path)")
    assert "an embedding model has no paths, so it uses no rules" in mistake(capsys, "rules", scorer, "uncle")
    assert "an embedding model has no paths" in mistake(capsys, "complete", scorer, "--out", str(tmp_path / "new.tsv"))


# A file of one's own


@pytest.mark.parametrize(
    ("facts", "seconds_of_query", "told"),
    [
        (50_000, 0.0001, ""),
        (50_000, 0.1, "1,140 training queries in 2 minutes; 6,000 training queries would take about 11 minutes on this machine "),
        (20, 0.1, "30 facts: 6,000 training queries would take about 11 minutes on this machine. --minutes sets another time."),
    ],
)
def test_the_time_of_a_file_of_ones_own(
    in_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    facts: int,
    seconds_of_query: float,
    told: str,
):
    """Small graphs are those of at most `facts` facts; training itself is left out."""
    train_on(in_folder, monkeypatch, facts, seconds_of_query)
    printed = command(capsys, "train", "facts.csv", "--hold-out", "0", code=3).err
    assert printed.replace("\n", " ").startswith(told) and ("minutes" in printed) == bool(told)


def test_hours_are_not_begun_without_being_asked_for(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    train_on(in_folder, monkeypatch, 20, 1.0)
    refused = mistake(capsys, "train", "facts.csv")
    assert "27 facts: 6,000 training queries would take about 106 minutes on this machine" in refused  # three are held out
    assert "Say how long: --minutes 10 for 570 of them, --minutes 106 for all." in refused
    command(capsys, "train", "facts.csv", "--set", "propagation.queries=64", code=3)
    assert not Path("runs").exists()


def train_on(folder: Path, monkeypatch: pytest.MonkeyPatch, facts: int, seconds_of_query: float) -> None:
    """A file of 30 facts, a machine that takes so long for a query, and an end where training would begin."""

    def stop(*_: object, **__: object) -> None:
        raise SystemExit(3)

    lines = [f"e{number % 6},r{number % 5},e{(number + 1 + number // 6) % 6}" for number in range(30)]
    (folder / "facts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(budget, "FACTS_OF_DEFAULT", facts)
    monkeypatch.setattr(budget, "measure_cost", lambda *_, **__: budget.Cost(seconds_of_query, 0.0))
    monkeypatch.setattr(api, "train_scorer", stop)
