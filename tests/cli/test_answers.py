"""`hopwalk ask`, `explain`, `rules` and `complete` at the command line."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from hopwalk import api
from tests.support.commands import command
from tests.support.villages import VILLAGE

HEAD, RELATION, TAIL = VILLAGE.labels_of(VILLAGE.test)[0]


def test_ask(uncles_run: Path, capsys: pytest.CaptureFixture[str]):
    run = str(uncles_run)
    printed = command(capsys, "ask", run, "Child_0", "uncle", "-k", "3").out
    assert printed.startswith("child 0 —uncle→ ?")
    assert all(printed.count(f"\n  {rank}. ") == 1 for rank in (1, 2, 3)) and "\n  4. " not in printed
    assert "child 0 —mother→ mother 0 —brother→" in printed
    answered = json.loads(command(capsys, "ask", run, "mother 0", "mother", "--inverse", "--json").out)
    assert answered["relation"] == "mother⁻¹" and len(answered["answers"]) == 10
    several = command(capsys, "ask", run, "child 0", "uncle", "-k", "1", "--paths", "4").out
    assert several.count("\n") > 2
    new = json.loads(command(capsys, "ask", run, "child 0", "mother", "--new", "--json").out)
    assert new["answers"] and not any(answer["is_known"] for answer in new["answers"])


def test_explain(uncles_run: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["explain", str(uncles_run), HEAD, RELATION, TAIL]
    printed = command(capsys, *arguments).out
    assert printed.startswith(f"{HEAD} —uncle→ {TAIL}: not a known fact")
    assert "uncle(X,Y) ⇐ mother(X,A), brother(A,Y): right 67 % of the time, 43 of 64\n    share " in printed
    assert json.loads(command(capsys, *arguments, "--json").out)["tail"] == TAIL


def test_rules(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, target = str(uncles_run), tmp_path / "rules.txt"
    command(capsys, "rules", run, "uncle", "-k", "2", "--anyburl", str(target))
    first = target.read_text(encoding="utf-8").splitlines()[0].split("\t")
    assert first[3] == "uncle(X,Y) <= mother(X,A), brother(A,Y)"
    assert float(first[2]) == pytest.approx(int(first[1]) / int(first[0]), abs=1e-5)
    assert json.loads(command(capsys, "rules", run, "uncle", "--json").out)[0]["queries"] > 3
    assert "there is no split 'all'" in command(capsys, "rules", run, "uncle", "--split", "all", code=1).err


def test_complete(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "new.tsv"
    printed = command(capsys, "complete", str(uncles_run), "--relation", "uncle", "--above", "0.2", "--out", str(target)).out
    assert "new facts from 32 queries" in printed.replace("\n", "") and target.exists()
    again = ["complete", str(uncles_run), "--relation", "uncle", "--above", "0.2", "--out", str(target), "--resume"]
    assert "already complete" in command(capsys, *again).out.replace("\n", " ")


def test_mistakes(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(uncles_run)
    (tmp_path / "file").touch()
    for arguments, message in (
        (["ask", run, "nobody at all", "uncle"], "error: there is no entity 'nobody at all'"),
        (["ask", run, "?", "uncle"], "the tail is missing"),
        (["ask", run, "?", "uncle"], "hopwalk ask RUN ? uncle TAIL"),
        (["ask", run, "child 0"], "error: there is no query"),
        (["ask", run, "child 0", "uncle", "--from", "-"], "there is also one on the command line"),
        (["ask", run, "--from", str(tmp_path / "none")], "the queries cannot be read: No such file"),
        (["ask", str(tmp_path / "none"), "a", "b"], "no such folder"),
        (["ask", str(tmp_path / "file"), "a", "b"], "this is a file, not a run folder"),
        (["complete", run, "--out", str(tmp_path / "new.doc")], "error: the format of new.doc is not known"),
    ):
        refused = command(capsys, *arguments, code=1)
        assert message in refused.err and not refused.out


@pytest.mark.parametrize("option", ["-k", "--paths"])
def test_counts_must_be_positive(uncles_run: Path, capsys: pytest.CaptureFixture[str], option: str):
    assert "greater than or equal to 1" in command(capsys, "ask", str(uncles_run), "child 0", "uncle", option, "0", code=2).err


# Pages


def test_pages_load_nothing_and_run_nothing(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "answer.html"
    printed = command(capsys, "ask", str(uncles_run), "child 0", "uncle", "-k", "4", "--html", str(target))
    page = target.read_text(encoding="utf-8")
    assert printed.out.startswith("child 0 —uncle→ ?") and str(target) in printed.err
    assert page.count("<li>") == 4 and page.count("<h2>") == 1
    assert "<script" not in page and "style=" not in page and "src=" not in page and "href=" not in page
    assert {*re.findall(r"https?://[^\"' ]+", page)} == {"http://www.w3.org/2000/svg"}  # the name of SVG, not an address to load
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_a_folder_is_not_a_page(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    refused = command(capsys, "ask", str(uncles_run), "child 0", "uncle", "--html", str(tmp_path), code=1)
    assert "is a folder" in refused.err and not refused.out


# Facts that are added


def test_added_facts(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = tmp_path / "more.csv"
    table.write_text("head,relation,tail\nchild 0,uncle,man 15\n")
    arguments = ["ask", str(uncles_run), "child 0", "uncle", "-k", "100", "--facts", str(table)]
    printed = command(capsys, *arguments)
    assert re.search(r"man 15 +known", printed.out) and "read as a header" in printed.err
    explained = command(capsys, "explain", str(uncles_run), "child 0", "uncle", "man 15", "--facts", str(table)).out
    assert explained.startswith("child 0 —uncle→ man 15: a known fact")
    table.write_text("child 0,uncle,man 15\nchild 0,uncle,man 99\n")
    refused = command(capsys, *arguments, code=1)
    assert "more.csv: fact 2 (child 0 uncle man 99): there is no entity 'man 99'" in refused.err and not refused.out
    assert "no such file" in command(capsys, *arguments[:-1], str(tmp_path / "none.csv"), code=1).err


# Many queries


def ask_from(folder: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, *more: str, code: int = 0) -> tuple[str, str]:
    file = folder.parent / "queries.tsv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    printed = command(capsys, "ask", str(folder), "--from", str(file), *more, code=code)
    return printed.out, printed.err


def test_queries_of_a_file(uncles_run: Path, capsys: pytest.CaptureFixture[str]):
    reasoner, queries = api.load(uncles_run), "child 0\tuncle\r\n\nmother 0\tmother⁻¹\nchild 0\tuncle\n"
    printed, _ = ask_from(uncles_run, capsys, queries, "-k", "2")
    first, second = reasoner.ask("child 0", "uncle", k=2, num_paths=1), reasoner.ask("mother 0", "mother⁻¹", k=2, num_paths=1)
    assert printed == f"{first}\n\n{second}\n\n{first}\n"
    lines = ask_from(uncles_run, capsys, queries, "-k", "2", "--json")[0].splitlines()
    assert [json.loads(line)["head"] for line in lines] == ["child 0", "mother 0", "child 0"]
    inverse = ask_from(uncles_run, capsys, "mother 0\tmother\n", "-k", "2", "--inverse")[0]
    assert inverse == f"{second}\n"


def test_queries_of_standard_input(uncles_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfchild 0\tuncle\nchild 0\tuncel\n")))
    refused = command(capsys, "ask", str(uncles_run), "--from", "-", code=1)
    assert refused.err.startswith("error: standard input:2: there is no relation 'uncel'") and not refused.out


def test_a_page_of_many_queries(uncles_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ask_from(uncles_run, capsys, "child 0\tuncle\nchild 1\tuncle\n", "--html", str(tmp_path / "all.html"))
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert page.count("<h2>") == 2 and "<title>2 queries</title>" in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "child 0\tuncle\nchild 0 uncle\n",
            r"queries.tsv:2: expected a head and a relation with a tab between them, found 1 column\n",
        ),
        ("child 0\tuncle\tman 1\n", "queries.tsv:1: .* found 3 columns"),
        ("child 0\t\n", "queries.tsv:1: expected a head and a relation"),
        ("child 0\tuncle\nnobody at all\tuncle\n", "queries.tsv:2: there is no entity 'nobody at all'"),
        (
            "child 0\tuncle\nnobody at all\tnothing\n",
            "queries.tsv:2: there is no entity 'nobody at all'; there is no relation 'nothing'",
        ),
        (b"child 0\tuncle\n\xff\tuncle\n", "queries.tsv:2: the line is not UTF-8 text"),
        ("\n \n", "queries.tsv: the file has no queries"),
    ],
)
def test_mistakes_in_a_file_of_queries(uncles_run: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, message: str):
    printed, error = ask_from(uncles_run, capsys, text, code=1)
    assert re.search(message, error) and not printed
