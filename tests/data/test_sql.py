"""Facts from PostgreSQL and SQLite: a real server, queries of all kinds, and everything that can be wrong with them."""

import sqlite3
import sys
import time
from pathlib import Path

import pytest

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, MissingPackageError
from tests.support.databases import IN_ADDRESS, PASSWORD, Server, in_this_process
from tests.support.helpers import FAMILY, facts_of, finding


@pytest.fixture
def quick_child(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)


ALL = "select s, p, o from facts"


@pytest.fixture(scope="module")
def server(empty_postgresql: Server) -> Server:
    rows = ", ".join(f"('{head}', '{relation}', '{tail}')" for head, relation, tail in FAMILY)
    empty_postgresql.run(
        "create table facts (s text, p varchar(20), o text)",
        f"insert into facts values {rows}",
        "create type kind as enum ('likes')",
        "create table other (id int, likes kind, whom uuid, at date, weight float8, nothing text, ok bool)",
        "insert into other values (7, 'likes', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2026-01-01', 0.5, null, true)",
    )
    return empty_postgresql


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "family.db") as connection:
        connection.execute("create table facts (s, p, o)")
        connection.executemany("insert into facts values (?, ?, ?)", FAMILY)
    connection.close()
    return tmp_path / "family.db"


@pytest.mark.usefixtures("quick_child")
class TestPostgresql:
    @pytest.mark.parametrize(
        "query",
        [
            ALL,
            f"{ALL} ; ",
            f"{ALL} where s <> '{{}} {{0}} %s'",
            f"{ALL} -- a comment",
            "select o as object, s as subject, p as predicate from facts",
            "with chosen as (select * from facts) select s, p, o from chosen order by 2",
        ],
    )
    def test_queries(self, server: Server, query: str):
        dataset = hopwalk.load_dataset(server.address(), query=query)
        assert facts_of(dataset) == {*FAMILY} and dataset.name == "postgres"

    def test_columns_of_the_same_name_and_other_types_are_labels(self, server: Server):
        query = "select a.id, a.likes, b.whom, b.id from other a, other b"
        settings = changed(Settings(), {"read.columns": "1,2,3"})
        assert facts_of(hopwalk.load_dataset(server.address(), settings, query=query)) == {
            ("7", "likes", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
        }
        query = "select a.id, a.likes, b.id from other a, other b"
        dataset = hopwalk.load_dataset(server.address(), query=query)
        assert facts_of(dataset) == {("7", "likes", "7")}
        assert "the columns column 1, column 2, column 3 of the query" in finding(dataset, "query-columns").message

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("", "a database needs a query"),
            ("select s, p from facts", r"expected 3 columns \(head, relation, tail\), found 2"),
            ("select s, p, o, 1 from facts", r"expected 3 columns \(head, relation, tail\), found 4"),
            ("select id, likes, nothing from other", r"row 1 has no tail \(1 such row\)"),
            ("select id, likes, '' from other", "row 1 has no tail"),
            ("select s, p, o from facts where false", "the query has no facts"),
            ("select id, likes, weight from other", "column 'weight' is not valid: it contains Float64, not text"),
            ("select id, likes, at from other", "column 'at' is not valid: it contains Date, not text"),
            ("select id, ok, likes from other", "column 'ok' is not valid: it contains Boolean, not text"),
            ("select s, p, o from no_facts", 'the database refused the query .relation "no_facts" does not exist'),
            ("selec", "the database refused the query .syntax error"),
            ("select 1/0, 2, 3", "the database refused the query .division by zero"),
            ("delete from facts returning s, p, o", "the database refused the query"),
            (f"{ALL}; delete from facts", "the database refused the query"),
            (f"{ALL}) as x; delete from facts; select * from (select 1", "the database refused the query"),
        ],
    )
    def test_bad_queries(self, server: Server, query: str, message: str):
        with pytest.raises(DataError, match=message) as error:
            hopwalk.load_dataset(server.address(), query=query)
        assert error.value.path == f"postgresql://127.0.0.1:{server.port}/postgres" and error.value.remedy
        assert server.run("select count(*) from facts") == [("6",)]  # nothing is lost

    def test_databases_in_another_encoding(self, server: Server):
        server.run("create database latin encoding 'LATIN1' template template0")
        query = "select 'M' || chr(252) || 'ller', 'wohnt in', 'K' || chr(246) || 'ln'"
        dataset = hopwalk.load_dataset(server.address(database="latin"), query=query)
        assert facts_of(dataset) == {("Müller", "wohnt in", "Köln")}
        server.run("drop database latin")

    def test_a_query_cannot_write(self, server: Server):
        server.run(
            "create or replace function wipe() returns text language plpgsql as $$ begin delete from facts; return 'x'; end $$"
        )
        with pytest.raises(DataError, match="cannot execute DELETE in a read-only transaction"):
            hopwalk.load_dataset(server.address(), query="select wipe(), 'r', 'b'")
        assert server.run("select count(*) from facts") == [("6",)]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ((IN_ADDRESS, "wr0ng"), 'password authentication failed for user "owner"'),
            (("/postgres", "/nothing"), 'database "nothing" does not exist'),
            (("127.0.0.1", "no-such-host.invalid"), "could not translate host name"),
            (("/postgres", "/postgres?no_such=1"), "invalid URI query parameter"),
        ],
    )
    def test_bad_addresses(self, server: Server, change: tuple[str, str], message: str):
        with pytest.raises(DataError, match=message) as error:
            hopwalk.load_dataset(server.address().replace(*change), query=ALL)
        told = f"{error.value}"
        assert "wr0ng" not in told and PASSWORD not in told and IN_ADDRESS not in told and "PGPASSWORD" in told

    def test_no_server(self, server: Server):
        address = server.address().replace(str(server.port), "1")
        with pytest.raises(DataError, match="Connection refused"):
            hopwalk.load_dataset(address, query=ALL)

    def test_a_server_that_says_nothing(self):
        import socket

        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            settings = changed(Settings(), {"read.timeout": 2})
            with pytest.raises(DataError, match="timeout expired"):
                hopwalk.load_dataset(f"postgresql://ada:pw@127.0.0.1:{silent.getsockname()[1]}/x", settings, query=ALL)

    def test_the_password_may_stand_in_the_environment(self, server: Server, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        assert len(hopwalk.load_dataset(server.address().replace(f":{IN_ADDRESS}", ""), query=ALL).facts) == 6


@pytest.mark.usefixtures("quick_child")
class TestSqlite:
    def load(self, data: str | Path, query: str = ALL) -> Dataset:
        return hopwalk.load_dataset(data, query=query)

    def test_by_address_and_by_file(self, database: Path):
        for data in (database, str(database), f"sqlite:///{database}"):
            dataset = self.load(data)
            assert facts_of(dataset) == {*FAMILY} and dataset.name == "family"

    def test_whole_numbers_and_texts_in_one_column(self, database: Path):
        assert facts_of(self.load(database, "select 1, 'r', 'x' union select 'a', 'r', 2")) == {("1", "r", "x"), ("a", "r", "2")}

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("", "a database needs a query"),
            ("select s, p from facts", "expected 3 columns"),
            ("select s, p, null from facts", r"row 1 has no tail \(6 such rows\)"),
            ("select s, p, 0.5 from facts", "column '0.5' is not valid: it contains float, not text"),
            ("select s, p, x'00' as o from facts", "column 'o' is not valid: it contains bytes, not text"),
            ("select s, p, o from facts where 0", "the query has no facts"),
            ("select s, p, o from missing", "the database refused the query .no such table: missing"),
            ("delete from facts", "the database refused the query"),
            ("select 1); delete from facts; select (1", "the database refused the query"),
        ],
    )
    def test_bad_queries(self, database: Path, query: str, message: str):
        before = database.read_bytes()
        with pytest.raises(DataError, match=message):
            self.load(database, query)
        assert database.read_bytes() == before

    def test_no_database(self, tmp_path: Path, database: Path):
        (tmp_path / "text.db").write_text("a\tr\tb\n")
        for name in ("none.db", "text.db"):
            with pytest.raises(DataError, match="there is no SQLite database of that name"):
                self.load(f"sqlite:///{tmp_path / name}")
        assert not (tmp_path / "none.db").exists()
        database.write_bytes(database.read_bytes()[:3000])
        with pytest.raises(DataError, match="the database refused the query"):
            self.load(database)

    def test_names_of_the_catalog_take_precedence(self, database: Path, monkeypatch: pytest.MonkeyPatch):
        database.rename(database.with_name("umls"))
        monkeypatch.chdir(database.parent)
        assert len(hopwalk.load_dataset("umls").entities) == 135
        assert facts_of(hopwalk.load_dataset("./umls", query=ALL)) == {*FAMILY}

    def test_a_query_is_needed(self, database: Path):
        with pytest.raises(DataError, match="a database needs a query for its facts"):
            hopwalk.load_dataset(database)


class TestChild:
    """What only the process of its own shows."""

    def test_sqlite(self, database: Path):
        assert facts_of(hopwalk.load_dataset(database, query=ALL)) == {*FAMILY}

    def test_a_result_that_is_too_large(self, server: Server):
        settings = changed(Settings(), {"read.expanded_mb": 1})
        query = "select 'entity with a long name ' || i, 'r', 'b' from generate_series(1, 40000) i"
        with pytest.raises(DataError, match="the result of the query has more than 1 MB"):
            hopwalk.load_dataset(server.address(), settings, query=query)

    def test_the_password_is_no_argument_of_a_process(self, server: Server):
        """Other users of a machine can read the arguments of processes, and sometimes their environment."""
        import threading

        seen: list[str] = []
        reading = threading.Thread(
            target=hopwalk.load_dataset, args=(server.address(),), kwargs={"query": f"{ALL}, pg_sleep(0.7)"}
        )
        reading.start()
        while reading.is_alive():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    content = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                except OSError:
                    continue
                seen += [content.decode(errors="replace")] if b"sql_child" in content else []
            time.sleep(0.05)
        reading.join()
        assert seen and not any(PASSWORD in text or IN_ADDRESS in text for text in seen)

    def test_without_the_driver(self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "adbc_driver_postgresql.py").write_text("raise ImportError")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        with pytest.raises(MissingPackageError, match="pip install adbc-driver-postgresql"):
            hopwalk.load_dataset(server.address(), query=ALL)
