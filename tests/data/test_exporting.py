"""Predictions written to databases, N-Triples, Parquet, CSV and Neo4j's files; all of them or nothing."""

import csv
import sqlite3
from pathlib import Path

import polars as pl
import pyoxigraph
import pytest

import hopwalk
from hopwalk.errors import DataError, HopwalkError, SettingsError
from tests.support.databases import IN_ADDRESS, PASSWORD, Server, in_this_process

PREDICTIONS = pl.DataFrame(
    {
        "head": ["http://ex.org/a", "b c", 'd"; drop table x; --'],
        "relation": ["likes", "http://ex.org/r", "r>s"],
        "tail": ["ü, \u202e", "http://ex.org/x<y", "e"],
        "probability": [0.75, 0.5, 1.0],
        "rule": ["likes(X, Y) ← r(X, Y)", None, "s\u0085t"],
        "rule_support": [3, 4, None],
        "path": ["a → b", "b → c", "d → e"],
    }
)


@pytest.fixture(scope="module")
def server(empty_postgresql: Server) -> Server:
    return empty_postgresql


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    PREDICTIONS.write_parquet(tmp_path / "predictions.parquet")
    return tmp_path / "predictions.parquet"


class TestFiles:
    def test_parquet_csv_and_tsv_have_every_column(self, predictions: Path, tmp_path: Path):
        assert hopwalk.export(predictions, tmp_path / "again.tsv") == 3
        assert hopwalk.export(tmp_path / "again.tsv", tmp_path / "again.parquet") == 3
        again = pl.read_parquet(tmp_path / "again.parquet")
        assert again.schema == PREDICTIONS.schema
        assert again.drop("rule").equals(PREDICTIONS.drop("rule"))
        hopwalk.export(PREDICTIONS, tmp_path / "again.csv")
        assert pl.read_csv(tmp_path / "again.csv").equals(PREDICTIONS)

    def test_n_triples_are_what_a_parser_reads(self, predictions: Path, tmp_path: Path):
        hopwalk.export(predictions, tmp_path / "new.nt")
        parsed = list(pyoxigraph.parse(path=str(tmp_path / "new.nt"), format=pyoxigraph.RdfFormat.N_TRIPLES))
        assert [tuple(term.value for term in (q.subject, q.predicate, q.object)) for q in parsed] == [
            ("http://ex.org/a", "urn:hopwalk:likes", "urn:hopwalk:%C3%BC%2C%20%E2%80%AE"),
            ("urn:hopwalk:b%20c", "http://ex.org/r", "urn:hopwalk:http%3A%2F%2Fex.org%2Fx%3Cy"),
            ("urn:hopwalk:d%22%3B%20drop%20table%20x%3B%20--", "urn:hopwalk:r%3Es", "urn:hopwalk:e"),
        ]
        assert "# 0.75 likes(X, Y) ← r(X, Y) 3 a → b\n" in (tmp_path / "new.nt").read_text()

    def test_neo4j(self, predictions: Path, tmp_path: Path):
        assert hopwalk.export(predictions, tmp_path / "neo4j", format="neo4j") == 3
        with (tmp_path / "neo4j" / "nodes.csv").open(newline="", encoding="utf-8") as file:
            nodes = list(csv.DictReader(file))
        with (tmp_path / "neo4j" / "relationships.csv").open(newline="", encoding="utf-8") as file:
            assert file.readline() == ":START_ID,:END_ID,:TYPE,probability:float,rule:string,rule_support:long,path:string\n"
            file.seek(0)
            rows = list(csv.DictReader(file))
        assert nodes[0].keys() == {"id:ID", ":LABEL"} and {node[":LABEL"] for node in nodes} == {"Entity"}
        ids = [node["id:ID"] for node in nodes]
        assert len(ids) == len({*ids}) == 6
        assert {row[end] for row in rows for end in (":START_ID", ":END_ID")} == {*ids}
        assert [(row[":TYPE"], float(row["probability:float"])) for row in rows] == [
            ("likes", 0.75),
            ("http://ex.org/r", 0.5),
            ("r>s", 1.0),
        ]

    def test_what_complete_writes(self, uncles_run: Path, tmp_path: Path):
        found = hopwalk.load(uncles_run).complete(tmp_path / "new.tsv", above=0.0)
        assert found.facts > 0
        hopwalk.load(uncles_run).complete(tmp_path / "new.nt", above=0.0)
        assert hopwalk.export(tmp_path / "new.tsv", tmp_path / "exported.parquet") == found.facts
        table = pl.read_parquet(tmp_path / "exported.parquet")
        assert table.schema["probability"] == pl.Float64 and table.columns[:4] == ["head", "relation", "tail", "probability"]
        parsed = pyoxigraph.parse(path=str(tmp_path / "new.nt"), format=pyoxigraph.RdfFormat.N_TRIPLES)
        assert sum(1 for _ in parsed) == found.facts


class TestPostgresql:
    @pytest.fixture(autouse=True)
    def quick_child(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_this_process(monkeypatch)

    def test_a_table(self, server: Server):
        assert hopwalk.export(PREDICTIONS, server.address()) == 3
        assert server.run("select head, probability, rule_support from predictions where tail = 'e'") == [
            ('d"; drop table x; --', "1", "")
        ]
        types = server.run("select column_name, data_type from information_schema.columns where table_name = 'predictions'")
        assert {*types} >= {("probability", "double precision"), ("rule_support", "bigint"), ("path", "text")}
        with pytest.raises(DataError, match="there is already a table 'predictions'"):
            hopwalk.export(PREDICTIONS, server.address())
        assert server.run("select count(*) from predictions") == [("3",)]
        hopwalk.export(PREDICTIONS, server.address(), if_exists="append")
        assert server.run("select count(*) from predictions") == [("6",)]
        hopwalk.export(PREDICTIONS, server.address(), if_exists="replace")
        assert server.run("select count(*) from predictions") == [("3",)]

    def test_names_of_tables(self, server: Server):
        server.run("create schema made")
        hopwalk.export(PREDICTIONS, server.address(), table='made.odd "name"; drop table x')
        assert server.run('select count(*) from made."odd ""name""; drop table x"') == [("3",)]
        for name in ("", "made.", "x" * 64, "a\x00b"):
            with pytest.raises(DataError, match="is not the name of a table"):
                hopwalk.export(PREDICTIONS, server.address(), table=name)
        with pytest.raises(DataError, match=r"the database refused the table .*Nothing was written"):
            hopwalk.export(PREDICTIONS, server.address(), table="missing.predictions")

    def test_all_or_nothing(self, server: Server):
        """The last row breaks a rule of the table."""
        hopwalk.export(PREDICTIONS.head(1), server.address(), table="strict_ones")
        server.run("alter table strict_ones add check (probability < 1)")
        with pytest.raises(DataError, match="the database refused the table"):
            hopwalk.export(PREDICTIONS, server.address(), table="strict_ones", if_exists="append")
        assert server.run("select count(*) from strict_ones") == [("1",)]
        other = PREDICTIONS.rename({"rule": "regel"})
        with pytest.raises(DataError, match=r'Column "regel" does not exist'):
            hopwalk.export(other, server.address(), table="strict_ones", if_exists="append")

    def test_a_wrong_password(self, server: Server):
        with pytest.raises(DataError, match="password authentication failed") as error:
            hopwalk.export(PREDICTIONS, server.address("wr0ng"))
        assert "wr0ng" not in str(error.value) and PASSWORD not in str(error.value) and IN_ADDRESS not in str(error.value)


class TestSqlite:
    def test_a_table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        hopwalk.export(PREDICTIONS, tmp_path / "new.db", table="x y")  # in a child process
        in_this_process(monkeypatch)
        with pytest.raises(DataError, match="there is already a table 'x y'"):
            hopwalk.export(PREDICTIONS, f"sqlite:///{tmp_path / 'new.db'}", table="x y")
        hopwalk.export(PREDICTIONS, tmp_path / "new.db", table="x y", if_exists="append")
        with sqlite3.connect(tmp_path / "new.db") as connection:
            rows = connection.execute('select * from "x y"').fetchall()
            assert rows == [*PREDICTIONS.rows(), *PREDICTIONS.rows()]
            with pytest.raises(DataError, match="has no column named regel"):
                hopwalk.export(PREDICTIONS.rename({"rule": "regel"}), tmp_path / "new.db", table="x y", if_exists="append")
            hopwalk.export(PREDICTIONS, tmp_path / "new.db", table="x y", if_exists="replace")
            assert connection.execute('select count(*) from "x y"').fetchone() == (3,)
        connection.close()


class TestMistakes:
    @pytest.mark.parametrize(
        ("to", "options", "message"),
        [
            ("new.xml", {}, "the format of new.xml is not known"),
            ("https://host/sparql", {}, "predictions cannot be written to https://host/sparql"),
            ("mysql://ada:pw@host/x", {}, "addresses that begin with mysql: are not known"),
            ("new.csv", {"if_exists": "append"}, "only tables of a database are appended to or replaced"),
            ("new.csv", {"if_exists": "ignore"}, "if_exists = 'ignore' is not valid"),
            ("new", {"format": "gml"}, "there is no format 'gml'"),
            ("predictions.parquet", {}, "there is already a file of that name"),
        ],
    )
    def test_where_to(self, predictions: Path, monkeypatch: pytest.MonkeyPatch, to: str, options: dict[str, str], message: str):
        monkeypatch.chdir(predictions.parent)
        with pytest.raises(HopwalkError, match=message):
            hopwalk.export("predictions.parquet", to, **options)  # type: ignore[arg-type]
        assert [path.name for path in predictions.parent.iterdir()] == ["predictions.parquet"]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("none.tsv", None, "cannot be read"),
            ("none.parquet", None, "there is no such file"),
            ("facts.csv", b"a,r,b\n", "this is not a table of predictions"),
            ("facts.tsv", b"a\tr\tb\n", "there is no column head"),
            ("empty.tsv", b"", "the table is not valid"),
            ("wide.tsv", b"head\trelation\ttail\na\tr\n1\t2\t3\t4\t5\n", "the table is not valid|values that are not text"),
            ("half.parquet", b"PAR1 and no more", "the Parquet file is not valid"),
        ],
    )
    def test_what(self, tmp_path: Path, name: str, content: bytes | None, message: str):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            hopwalk.export(tmp_path / name, tmp_path / "new.nt")
        assert not (tmp_path / "new.nt").exists()

    def test_complete_does_not_write_to_an_address(self, uncles_run: Path, in_folder: Path):
        with pytest.raises(SettingsError, match="complete writes to a file, not to an address") as error:
            hopwalk.load(uncles_run).complete("postgresql://ada:pw@host")
        assert "pw" not in str(error.value) and not list(in_folder.iterdir())
