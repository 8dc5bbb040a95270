"""Databases and endpoints on the command line, and that a password is nowhere in what is printed or written."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.commands import command, mistake
from tests.support.databases import IN_ADDRESS, PASSWORD, Server, in_this_process
from tests.support.endpoints import answers_of, endpoint, store_of
from tests.support.villages import VILLAGE

ALL = "select s, p, o from facts"
BRIEF = ("--scorer", "distmult", "--epochs", "1", "--set", "scorer.dimension=4")


@pytest.fixture(scope="module")
def server(empty_postgresql: Server) -> Server:
    rows = ", ".join(str(fact) for fact in VILLAGE.labels_of(VILLAGE.facts))
    empty_postgresql.run("create table facts (s text, p text, o text)", f"insert into facts values {rows}")
    return empty_postgresql


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_no_password_is_printed_or_written(
    server: Server, in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    in_this_process(monkeypatch)
    address, query, printed = server.address(), ("--query", ALL), []

    def run(*arguments: str, code: int = 0) -> str:
        told = command(capsys, *arguments, code=code)
        printed.append(told.out + told.err)
        return printed[-1]

    assert "postgres: " in run("data", "check", address, *query)
    run("data", "show", address, *query, "--json")
    run("data", "split", address, *query, "--out", "split")
    run("data", "prepare", address, *query, "--out", "prepared")
    run("train", address, *query, *BRIEF)
    assert (in_folder / "runs" / "postgres-distmult" / "card.md").exists()
    (in_folder / "predictions.tsv").write_text("head\trelation\ttail\tprobability\na\tr\tb\t0.5\n")
    run("export", "predictions.tsv", "--to", address)
    assert server.run("select tail, probability from predictions") == [("b", "0.5")]
    run("export", "predictions.tsv", "--to", address, code=1)
    run("complete", "runs/postgres-distmult", "--out", address, code=1)
    run("data", "check", address, "--query", "select 1", code=1)
    run("data", "check", address, "--query", "select 1", "--json", code=1)
    run("data", "check", address.replace("postgresql:", "postgrsql:"), *query, code=1)
    run("data", "check", address.replace("127.0.0.1", "no-such-host.invalid"), *query, code=1)
    run("data", "check", address.replace("%40", "@"), *query, code=1)
    run("train", address, *BRIEF, code=1)
    secrets = (PASSWORD, IN_ADDRESS, PASSWORD[:8], PASSWORD[-6:])
    assert not [text for text in printed for secret in secrets if secret in text]
    written = list(files_below(in_folder))
    assert len(written) > 10
    assert not [path for path in written for secret in secrets if secret.encode() in path.read_bytes() or secret in str(path)]
    assert "select s, p, o from facts" in (in_folder / "runs" / "postgres-distmult" / "settings.toml").read_text()


def test_no_password_of_an_endpoint_is_printed_or_written(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    facts = [[f"<http://v/{quote(label)}>" for label in fact] for fact in VILLAGE.labels_of(VILLAGE.facts)]
    turtle = "\n".join(f"{' '.join(fact)} ." for fact in facts)
    with endpoint(answers_of(store_of(turtle)), password="hush-hush") as address:
        known = address.replace("http://", "http://ada:hush-hush@")
        printed = [command(capsys, "train", f"{known}?key=hush-hush", *BRIEF, "--out", "run")]
        printed.append(command(capsys, "data", "prepare", known, "--out", "prepared"))
        printed.append(command(capsys, "data", "check", known.replace(":hush", ":hushhush"), code=1))
    assert not [text for told in printed for text in (told.out, told.err) if "hush" in text]
    assert not [path for path in files_below(in_folder) if b"hush" in path.read_bytes()]
    assert (in_folder / "run" / "weights.safetensors").exists()


def test_sqlite(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    with sqlite3.connect("village.db") as connection:
        connection.execute("create table facts (s text, p text, o text)")
        connection.executemany("insert into facts values (?, ?, ?)", VILLAGE.labels_of(VILLAGE.facts))
    connection.close()
    told = command(capsys, "train", "village.db", "--query", ALL, *BRIEF)
    assert "runs/village-distmult: finished" in told.out
    (in_folder / "new.tsv").write_text("head\trelation\ttail\tprobability\na\tr\tb\t0.5\n")
    assert command(capsys, "export", "new.tsv", "--to", "village.db").out == "village.db: 1 prediction written\n"
    assert "append to it or replace it (--append, --replace)" in mistake(capsys, "export", "new.tsv", "--to", "village.db")
    told = command(capsys, "export", "new.tsv", "--to", "sqlite:///village.db", "--append")
    assert told.out == "village.db: 1 prediction written\n"
    assert "exclude each other" in mistake(capsys, "export", "new.tsv", "--to", "x.db", "--append", "--replace")
    assert "there is no format 'gml'" in mistake(capsys, "export", "new.tsv", "--to", "x", "--format", "gml")
    assert command(capsys, "export", "new.tsv", "--to", "neo", "--format", "neo4j").out == "neo: 1 prediction written\n"
    assert sorted(path.name for path in Path("neo").iterdir()) == ["nodes.csv", "relationships.csv"]


def test_mistakes(in_folder: Path, capsys: pytest.CaptureFixture[str]):
    sqlite3.connect("empty.db").close()
    assert "a database needs a query" not in mistake(capsys, "train", "empty.db")  # an empty file is no database
    assert "read.query is for databases" in mistake(capsys, "train", "umls", "--query", ALL)
    assert "a connection string with a password" in mistake(capsys, "train", "host=a password=b")
