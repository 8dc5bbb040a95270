"""`hopwalk data`: list, show, check, fetch, split and prepare."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import command
from tests.support.processes import hopwalk

FACTS = "a,r,b\nb,r,c\nc,q,a\na,q,c\nb,q,a\nc,r,a\nd,r,a\nd,q,b\na,r,d\n"


@pytest.fixture
def facts(in_folder: Path) -> Path:
    path = in_folder / "facts.csv"
    path.write_text(FACTS)
    return path


def test_help(capsys: pytest.CaptureFixture[str]):
    for name in ("list", "show", "check", "fetch", "split", "prepare"):
        text = command(capsys, "data", name, "--help").out
        assert name == "list" or "Examples" in text


def test_list(capsys: pytest.CaptureFixture[str]):
    assert "kinship" in command(capsys, "data", "list").out
    (first, *_) = json.loads(command(capsys, "data", "list", "--json").out)
    assert first["name"] == "umls"
    assert first["is_here"]


def test_show(capsys: pytest.CaptureFixture[str]):
    text = command(capsys, "data", "show", "UMLS").out
    assert "5,216" in text
    assert "Licence:" in text
    numbers = json.loads(command(capsys, "data", "show", "umls", "--json").out)
    assert (numbers["num_entities"], numbers["out_degree"]["median"], numbers["catalog"]["title"]) == (135, 28.0, "UMLS")


def test_check_a_file(facts: Path, capsys: pytest.CaptureFixture[str]):
    text = command(capsys, "data", "check", "facts.csv").out
    assert "4 entities, 2 relations, 9 facts" in text
    report = json.loads(command(capsys, "data", "check", "facts.csv", "--json").out)
    assert report["findings"][0]["level"] == "note"


def test_check_reports_an_error_with_its_line(facts: Path):
    facts.write_text(FACTS + "a,r\n")
    done = hopwalk("data", "check", "facts.csv", code=1)
    assert "facts.csv:10: expected 3 columns" in done.stderr
    report = json.loads(hopwalk("data", "check", "facts.csv", "--json", code=1).stdout)
    assert report["findings"][0]["level"] == "error"
    assert report["findings"][0]["line"] == 10


def test_split_then_prepare(facts: Path, capsys: pytest.CaptureFixture[str]):
    command(capsys, "data", "split", "facts.csv", "--out", "mine", "--valid", "0.2", "--test", "0.2", "--seed", "3")
    assert sorted(path.name for path in Path("mine").iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]
    assert "4 entities" in command(capsys, "data", "prepare", "mine", "--out", "ready").out
    shown = json.loads(command(capsys, "data", "show", "ready", "--json").out)
    assert shown["num_train"] + shown["num_valid"] + shown["num_test"] == 9
    refused = command(capsys, "data", "split", "facts.csv", "--out", "mine", code=1)
    assert "the folder is not empty" in refused.err
    command(capsys, "data", "split", "facts.csv", "--out", "mine", "--force")


def test_a_prepared_data_set_is_trained_like_its_file(facts: Path, capsys: pytest.CaptureFixture[str]):
    small = ["--scorer", "complex", "--epochs", "1", "--set", "scorer.dimension=8"]
    command(capsys, "data", "prepare", "facts.csv", "--out", "prepared/facts")
    for data, run in (("facts.csv", "from-file"), ("prepared/facts", "from-prepared")):
        assert "finished" in command(capsys, "train", data, *small, "--out", run).out
    weights = [(Path(run) / "weights.safetensors").read_bytes() for run in ("from-file", "from-prepared")]
    assert weights[0] == weights[1]


def test_reading_options(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("odd.txt").write_text("who;whom;how\nb;a;r\n")
    Path("names.tsv").write_text("a\tAnna\n")
    arguments = ["odd.txt", "--separator", ";", "--header", "--columns", "whom,how,who", "--labels", "names.tsv"]
    assert json.loads(command(capsys, "data", "show", *arguments, "--json").out)["num_facts"] == 1
    without_header = json.loads(command(capsys, "data", "show", "odd.txt", "--no-header", "--json").out)
    assert without_header["num_facts"] == 2


def test_facts_from_a_pipe():
    done = subprocess.run(
        [sys.executable, "-m", "hopwalk", "data", "show", "/dev/stdin", "--json"],
        input="a\tr\tb\n",
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["name"] == "stdin"


def test_old_splits_do_not_stay_beside_new_ones(facts: Path, capsys: pytest.CaptureFixture[str]):
    command(capsys, "data", "split", "facts.csv", "--out", "mine")
    again = ["data", "split", "facts.csv", "--out", "mine", "--valid", "0", "--test", "0", "--force"]
    assert "the folder has valid.tsv, which would be read with the new files" in command(capsys, *again, code=1).err


def test_split_does_not_write_over_its_input(facts: Path, capsys: pytest.CaptureFixture[str]):
    before = facts.read_text()
    refused = command(capsys, "data", "split", "facts.csv", "--out", ".", "--force", code=1)
    assert "the data to split is in the folder to write to" in refused.err
    assert facts.read_text() == before


def test_a_file_is_not_an_output_folder(facts: Path, capsys: pytest.CaptureFixture[str]):
    refused = command(capsys, "data", "prepare", "facts.csv", "--out", "facts.csv", "--force", code=1)
    assert "this is a file, not a folder" in refused.err


def test_a_preset_from_a_file(facts: Path, capsys: pytest.CaptureFixture[str]):
    Path("mine.toml").write_text("[graph]\nfan_out = 1\n")
    report = json.loads(command(capsys, "data", "check", "facts.csv", "--preset", "mine.toml", "--json").out)
    (cut,) = [finding for finding in report["findings"] if finding["code"] == "fan-out"]
    assert "1" in cut["message"]


def test_warnings_are_shown_where_data_is_used(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("facts.tsv").write_text("a\tr\tb\na\tr\tb\n")
    printed = command(capsys, "data", "prepare", "facts.tsv", "--out", "p").err
    assert (
        "duplicate facts in train (one of each is kept): 1" in printed and "Details: `hopwalk data check facts.tsv`." in printed
    )
    Path("other.tsv").write_text("head\trelation\ttail\na\tr\tb\nb\tr_inv\ta\n")
    printed = command(capsys, "data", "prepare", "other.tsv", "--out", "q").err
    assert "note: other.tsv: the first line is read as a header" in printed
    assert "note: facts of 1 inverse relation" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "show", "umsl"], "Did you mean 'umls'?"),
        (["data", "show", "no/such/file.tsv"], "there is no such file or folder"),
        (["data", "show", "empty.tsv"], "the file is empty"),
        (["data", "show", "."], "the folder has no train file"),
        (["data", "show", "empty.tsv", "--format", "xml"], "read.format = 'xml' is not valid"),
        (["data", "check", "ok.tsv", "--set", "seed=3"], "'split.seed'"),
        (["data", "fetch", "fb16k"], "Did you mean 'fb15k237'"),
        (["data", "fetch", "wn18rr", "--mirror", "."], "the mirror has no file"),
        (["data", "check", "umls", "--set", "graph.fanout=3"], "Did you mean 'graph.fan_out'"),
        (["data", "split", "umls", "--out", "x"], "umls is already split"),
        (["data", "split", "ok.tsv", "--out", "x", "--valid", "2"], "split.valid = 2.0 is not valid"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_clear_message(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    monkeypatch.setenv("HOPWALK_CACHE", str(in_folder / "cache"))
    Path("empty.tsv").touch()
    Path("ok.tsv").write_text("a\tr\tb\n")
    refused = command(capsys, *arguments, code=1)
    assert message in refused.err
    assert refused.err.startswith("error: ")
    assert refused.out == ""


def test_labels_are_printed_as_text(in_folder: Path):
    label = "\x1b[31m[bold]x[/bold] "
    Path("facts.tsv").write_text("".join(f"{label}{number}\tr\t{label}{number}\n" for number in range(5)))
    text = hopwalk("data", "check", "facts.tsv").stdout
    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text


@pytest.mark.mirror
def test_fetch_from_the_mirror(tmp_path: Path):
    done = hopwalk("data", "fetch", "wnrr", HOPWALK_CACHE=str(tmp_path))
    assert done.stdout == "wn18rr: ready (1 files in the cache)\n"
    assert "in the cache" in hopwalk("data", "list", HOPWALK_CACHE=str(tmp_path)).stdout
