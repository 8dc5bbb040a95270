"""The command line as people use it: in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FACTS = "a,r,b\nb,r,c\nc,q,a\na,q,c\nb,q,a\nc,r,a\nd,r,a\nd,q,b\na,r,d\n"


def hopwalk(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "hopwalk", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


@pytest.fixture
def facts(in_folder: Path) -> Path:
    path = in_folder / "facts.csv"
    path.write_text(FACTS)
    return path


def test_help_and_version():
    assert "hopwalk data check" in hopwalk("--help").stdout
    assert hopwalk("--version").stdout.startswith("hopwalk 0.")
    for command in ("list", "show", "check", "fetch", "split", "prepare"):
        text = hopwalk("data", command, "--help").stdout
        assert command == "list" or "Examples" in text


def test_list():
    assert "kinship" in hopwalk("data", "list").stdout
    (first, *_) = json.loads(hopwalk("data", "list", "--json").stdout)
    assert first["name"] == "umls"
    assert first["is_here"]


def test_show():
    text = hopwalk("data", "show", "UMLS").stdout
    assert "5,216" in text
    assert "Licence:" in text
    numbers = json.loads(hopwalk("data", "show", "umls", "--json").stdout)
    assert (numbers["num_entities"], numbers["out_degree"]["median"], numbers["catalog"]["title"]) == (135, 28.0, "UMLS")


def test_check_own_file(facts: Path):
    text = hopwalk("data", "check", "facts.csv").stdout
    assert "4 entities, 2 relations, 9 facts" in text
    report = json.loads(hopwalk("data", "check", "facts.csv", "--json").stdout)
    assert report["findings"][0]["level"] == "note"


def test_check_reports_an_error_with_its_line(facts: Path):
    facts.write_text(FACTS + "a,r\n")
    ran = hopwalk("data", "check", "facts.csv", code=1)
    assert "facts.csv:10: expected 3 columns" in ran.stderr
    report = json.loads(hopwalk("data", "check", "facts.csv", "--json", code=1).stdout)
    assert report["findings"][0]["level"] == "error"
    assert report["findings"][0]["line"] == 10


def test_split_then_prepare(facts: Path):
    hopwalk("data", "split", "facts.csv", "--out", "mine", "--valid", "0.2", "--test", "0.2", "--seed", "3")
    assert sorted(path.name for path in Path("mine").iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]
    assert "Graph(4 entities" in hopwalk("data", "prepare", "mine", "--out", "ready").stdout
    shown = json.loads(hopwalk("data", "show", "ready", "--json").stdout)
    assert shown["num_train"] + shown["num_valid"] + shown["num_test"] == 9
    refused = hopwalk("data", "split", "facts.csv", "--out", "mine", code=1)
    assert "the folder is not empty" in refused.stderr
    hopwalk("data", "split", "facts.csv", "--out", "mine", "--force")


def test_reading_options(in_folder: Path):
    Path("odd.txt").write_text("who;whom;how\nb;a;r\n")
    Path("names.tsv").write_text("a\tAnna\n")
    arguments = ["odd.txt", "--separator", ";", "--header", "--columns", "whom,how,who", "--labels", "names.tsv"]
    assert json.loads(hopwalk("data", "show", *arguments, "--json").stdout)["num_facts"] == 1
    assert "found 3 separated" not in hopwalk("data", "show", "odd.txt", "--no-header").stdout


def test_facts_from_a_pipe():
    ran = subprocess.run(
        [sys.executable, "-m", "hopwalk", "data", "show", "/dev/stdin", "--json"],
        input="a\tr\tb\n",
        capture_output=True,
        text=True,
    )
    assert json.loads(ran.stdout)["name"] == "stdin"


def test_old_splits_do_not_stay_beside_new_ones(facts: Path):
    hopwalk("data", "split", "facts.csv", "--out", "mine")
    ran = hopwalk("data", "split", "facts.csv", "--out", "mine", "--valid", "0", "--test", "0", "--force", code=1)
    assert "the folder holds valid.tsv, which would be read beside the new files" in ran.stderr


def test_split_does_not_write_over_what_it_reads(facts: Path):
    before = facts.read_text()
    ran = hopwalk("data", "split", "facts.csv", "--out", ".", "--force", code=1)
    assert "the data to divide lies in the folder to write to" in ran.stderr
    assert facts.read_text() == before


def test_out_that_is_a_file(facts: Path):
    assert (
        "this is a file, not a folder" in hopwalk("data", "prepare", "facts.csv", "--out", "facts.csv", "--force", code=1).stderr
    )


def test_preset_of_ones_own(facts: Path):
    Path("mine.toml").write_text("[graph]\nfan_out = 1\n")
    assert "at most 2 from one" in hopwalk("data", "prepare", "facts.csv", "--preset", "mine.toml", "--out", "p").stdout


def test_warnings_are_told_where_data_is_used(in_folder: Path):
    Path("facts.tsv").write_text("a\tr\tb\na\tr\tb\n")
    assert "more than once in train (one of each is kept): 1" in hopwalk("data", "prepare", "facts.tsv", "--out", "p").stderr
    Path("other.tsv").write_text("head\trelation\ttail\na\tr\tb\nb\tr_inv\ta\n")
    told = hopwalk("data", "prepare", "other.tsv", "--out", "q").stderr
    assert "note: other.tsv: the first line is read as a header" in told
    assert "note: facts of 1 inverse relation read as facts of the relations they invert: 1" in told


def test_settings():
    assert "# η" in hopwalk("settings").stdout
    assert "fan_out = 7" in hopwalk("settings", "umls", "--set", "graph.fan_out=7").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "show", "umsl"], "Did you mean 'umls'?"),
        (["data", "show", "no/such/file.tsv"], "there is no such file or folder"),
        (["data", "show", "empty.tsv"], "the file is empty"),
        (["data", "show", "."], "there is no train file"),
        (["data", "show", "empty.tsv", "--format", "xml"], "read.format = 'xml' does not fit"),
        (["data", "check", "ok.tsv", "--set", "seed=3"], "Did you mean 'split.seed'"),
        (["data", "fetch", "fb16k"], "Did you mean 'fb15k237'"),
        (["data", "fetch", "wn18rr", "--mirror", "."], "the mirror has no file"),
        (["data", "check", "umls", "--set", "graph.fanout=3"], "Did you mean 'graph.fan_out'"),
        (["data", "split", "umls", "--out", "x"], "umls is divided already"),
        (["data", "split", "ok.tsv", "--out", "x", "--valid", "2"], "split.valid = 2.0 does not fit"),
        (["settings", "nothing"], "there is no preset 'nothing'"),
    ],
)
def test_mistakes_get_one_clear_message(in_folder: Path, arguments: list[str], message: str):
    Path("empty.tsv").touch()
    Path("ok.tsv").write_text("a\tr\tb\n")
    ran = hopwalk(*arguments, code=1, HOPWALK_CACHE=str(in_folder / "cache"))
    assert message in ran.stderr
    assert ran.stderr.startswith("error: ")
    assert ran.stdout == ""


@pytest.mark.parametrize("arguments", [["data", "shwo"], ["data", "show"], ["data", "split", "x.tsv"], ["--no-such-option"]])
def test_wrong_usage(arguments: list[str]):
    assert "Usage" in hopwalk(*arguments, code=2).stderr


def test_labels_are_shown_not_obeyed(in_folder: Path):
    label = "\x1b[31m[bold]x[/bold] "
    Path("facts.tsv").write_text("".join(f"{label}{number}\tr\t{label}{number}\n" for number in range(5)))
    text = hopwalk("data", "check", "facts.tsv").stdout
    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text


def test_output_may_be_cut_off():
    ran = subprocess.run(f"{sys.executable} -m hopwalk settings | head -1", shell=True, capture_output=True, text=True)
    assert ran.stderr == ""


@pytest.mark.mirror
def test_fetch_from_the_mirror(tmp_path: Path):
    ran = hopwalk("data", "fetch", "wnrr", HOPWALK_CACHE=str(tmp_path))
    assert ran.stdout == "wn18rr: ready (1 files in the cache)\n"
    assert "in the cache" in hopwalk("data", "list", HOPWALK_CACHE=str(tmp_path)).stdout
