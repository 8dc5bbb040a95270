"""Addresses of databases and endpoints: what they are called, and what is never shown of them."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.data.addresses import Address, is_address
from hopwalk.errors import DataError, SettingsError


@pytest.mark.parametrize(
    ("text", "kind", "shown", "name"),
    [
        ("postgresql://ada:pw@db.example.org:5432/facts", "postgresql", "postgresql://db.example.org:5432/facts", "facts"),
        ("postgres://ada@db/my%20graph?sslmode=require", "postgresql", "postgres://db/my%20graph", "my-graph"),
        ("postgresql:///facts?host=/run/pg&password=pw", "postgresql", "postgresql:///facts", "facts"),
        ("postgresql://a,b:5433/facts", "postgresql", "postgresql://a,b:5433/facts", "facts"),
        ("postgresql://[2001:db8::7]:5432", "postgresql", "postgresql://[2001:db8::7]:5432", "2001-db8-7"),
        ("sqlite:///folder/my%20facts.db", "sqlite", "folder/my facts.db", "my-facts"),
        ("sqlite:////folder/facts.db", "sqlite", "/folder/facts.db", "facts"),
        ("https://ada:pw@query.example.org/sparql?key=pw", "sparql", "https://query.example.org/sparql", "query.example.org"),
        ("HTTP://host:8080/@ada/sparql", "sparql", "http://host:8080/@ada/sparql", "host"),
    ],
)
def test_what_is_shown(text: str, kind: str, shown: str, name: str):
    address = Address.of(text)
    assert (address.kind, address.shown, address.name) == (kind, shown, name)
    assert "pw" not in f"{address!r} {address} {address.shown} {address.name}"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:p/w!@host/facts",  # libpq would say: invalid port "p"
        "postgresql://ada:p@w!@host:x/facts",
        "postgresql://ada:p?w!@host/facts",
        "postgresql://ada:p#w!@host/facts",
        "mysql://ada:p-w!@host/facts",
        "postgress://ada:p-w!@host/facts",
        "https://ada:p-w!@/sparql",
        "host=db user=ada password=p-w! dbname=facts",
        "sqlite://",
    ],
)
def test_what_is_wrong_with_an_address_does_not_repeat_it(text: str):
    with pytest.raises(DataError) as error:
        hopwalk.load_dataset(text, query="select 1")
    assert "w!" not in f"{error.value} {error.value.path}"


def test_secrets_are_removed_from_the_texts_of_others():
    address = Address.of("postgresql://ada:p%40ss@host/facts?sslpassword=other")
    assert address.redact("user ada, password p@ss or p%40ss or other") == "user ada, password … or … or …"


def test_a_path_is_no_address():
    assert not is_address("C:/facts.csv") and not is_address("facts.csv") and not is_address("umls")
    with pytest.raises(DataError, match="an address is a text, not a path"):
        hopwalk.load_dataset(Path("postgresql://ada:pw@host/facts"))


def test_where_only_files_are_read_an_address_is_not_repeated(uncles_run: Path):
    with pytest.raises(DataError, match="an address cannot be read here") as error:
        hopwalk.load(uncles_run).with_facts("postgresql://ada:pw@host/facts")
    assert "pw" not in str(error.value)
    with pytest.raises(DataError, match="there is no such file"):
        hopwalk.load_dataset("folder/password=1/facts.tsv")


def test_a_query_is_for_databases(tmp_path: Path):
    (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
    with pytest.raises(SettingsError, match=r"read\.query is for databases and SPARQL endpoints"):
        hopwalk.load_dataset(tmp_path / "facts.tsv", query="select 1")
