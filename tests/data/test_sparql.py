"""SPARQL endpoints: facts page by page, readable names, and endpoints that stall, refuse or lie."""

import json
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data import sparql
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError
from tests.support.endpoints import Answer, answers_of, endpoint, send, store_of
from tests.support.helpers import facts_of, finding

TURTLE = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ann :knows :bob, :cat ; :age 7 ; rdfs:label "Anna"@de, "Ann"@en .
:bob :knows :cat ; :likes [ :knows :ann ] ; rdfs:label "Bobby", "Bob" .
:cat :knows :dan ; rdfs:label "Katze"@de, "Chat"@fr .
:knows rdfs:label "knows" .
"""
EX = "http://example.org/"
KNOWS = {
    (f"{EX}ann", f"{EX}knows", f"{EX}bob"),
    (f"{EX}ann", f"{EX}knows", f"{EX}cat"),
    (f"{EX}bob", f"{EX}knows", f"{EX}cat"),
    (f"{EX}cat", f"{EX}knows", f"{EX}dan"),
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "SECONDS_BETWEEN_TRIES", (0.0, 0.0))


def load(answer: Answer, query: str = "", **read: Any) -> Dataset:
    with endpoint(answer) as address:
        return hopwalk.load_dataset(
            address, changed(Settings(), {f"read.{key}": value for key, value in read.items()}), query=query
        )


class TestReading:
    @pytest.mark.parametrize(("page", "most_rows"), [(10_000, 10**9), (1, 10**9), (2, 10**9), (10_000, 3)])
    def test_all_facts_whatever_the_size_of_a_page(self, page: int, most_rows: int):
        """The last endpoint sends three rows, however many are asked for."""
        dataset = load(answers_of(store_of(TURTLE), most_rows=most_rows), page=page)
        assert facts_of(dataset) == KNOWS
        assert dataset.name == "127.0.0.1"

    def test_names(self):
        dataset = load(answers_of(store_of(TURTLE)))
        names = {label.removeprefix(EX): dataset.entities.name(dataset.entities.id(label)) for label in dataset.entities}
        assert names == {"ann": "Ann", "bob": "Bob", "cat": "Chat", "dan": f"{EX}dan"}
        assert dataset.relations.name(0) == "knows"

    def test_names_are_asked_for_in_batches_or_not_at_all(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(sparql, "NAMES_AT_ONCE", 2)
        asked: list[str] = []
        dataset = load(answers_of(store_of(TURTLE), asked=asked))
        assert dataset.entities.name(dataset.entities.id(f"{EX}cat")) == "Chat"
        assert max(query.count("example.org") for query in asked) == 2
        asked.clear()
        assert not load(answers_of(store_of(TURTLE), asked=asked), endpoint_names=False).entities.has_names
        assert len(asked) == 3  # the variables, a page, and an empty one

    def test_a_query_of_ones_own(self):
        query = "PREFIX : <http://example.org/>\nSELECT ?object ?predicate ?subject { ?subject ?predicate ?object } # LIMIT 1"
        dataset = load(answers_of(store_of(TURTLE)), query, page=3)
        assert facts_of(dataset) == KNOWS
        assert finding(dataset, "literals").count == 8 and finding(dataset, "blank-nodes").count == 2

    def test_a_query_with_a_limit_is_sent_as_it_is(self):
        asked: list[str] = []
        query = f"SELECT ?s ?p ?o {{ ?s ?p ?o . ?s <{EX}knows> ?o }} ORDER BY ?s ?o LIMIT 3"
        dataset = load(answers_of(store_of(TURTLE), asked=asked), query, endpoint_names=False)
        assert len(dataset.facts) == 2 and asked == [query]  # the first row has a blank node

    def test_user_and_password(self):
        with endpoint(answers_of(store_of(TURTLE)), password="p@ss word") as address:
            known = address.replace("http://", "http://ada:p%40ss%20word@")
            assert facts_of(hopwalk.load_dataset(known)) == KNOWS
            with pytest.raises(DataError, match=r"the server answered 401 \(who are you\?\)") as error:
                hopwalk.load_dataset(address.replace("http://", "http://ada:wr0ng@"))
        assert "wr0ng" not in str(error.value) and "password" in error.value.remedy


def once(first: Answer, then: Answer) -> Answer:
    """An endpoint that is wrong the first time."""
    count = [0]

    def answer(handler: BaseHTTPRequestHandler, query: str) -> None:
        count[0] += 1
        (first if count[0] == 1 else then)(handler, query)

    return answer


def stall(handler: BaseHTTPRequestHandler, query: str) -> None:
    time.sleep(3)


def trickle(handler: BaseHTTPRequestHandler, query: str) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def break_off(handler: BaseHTTPRequestHandler, query: str) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"head": {')
    handler.close_connection = True


def says(content: object, **more: Any) -> Answer:
    return lambda handler, _: send(handler, content if isinstance(content, bytes) else json.dumps(content).encode(), **more)


def rows(*values: str) -> dict[str, Any]:
    bindings = [{name: {"type": "uri", "value": value} for name in "spo"} for value in values]
    return {"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": bindings}}


def ignores_offset(handler: BaseHTTPRequestHandler, query: str) -> None:
    send(handler, json.dumps(rows("http://a")).encode())


class TestTrouble:
    @pytest.mark.parametrize(
        "first", [break_off, says(b"later", status=503, kind="text/plain"), says(b"", status=429, Retry_After="0")]
    )
    def test_what_passes_is_tried_again(self, first: Answer):
        assert facts_of(load(once(first, answers_of(store_of(TURTLE))))) == KNOWS

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (break_off, "no connection, or one that broke off"),
            (says(b"down", status=503, kind="text/plain"), r"the server answered 503 \(down\)"),
            (says(b"<html>", kind="text/html"), "it sent text/html, not application/sparql-results"),
            (says(b'{"head": {'), "not a result of a SELECT query"),
            (says({"head": {}, "boolean": True}), "not a result of a SELECT query"),
            (says({"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [{"s": "a"}]}}), "a row is not a table of terms"),
            (says(b"[" * 100_000), "not a result of a SELECT query"),
            (says(rows("http://a", "http://b", "http://c")), "it sent 3 rows where 2 were asked for: it ignores LIMIT"),
            (ignores_offset, "it sent a page twice: it ignores OFFSET or ORDER BY"),
            (says(rows("http://a"), X_SQL_State="S1TAT"), "its time was over"),
            (says({"head": {"vars": ["s", "p"]}, "results": {"bindings": []}}), "expected 3 columns"),
            (says({"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": []}}), "the query has no facts"),
        ],
    )
    def test_bad_answers(self, answer: Answer, message: str):
        with pytest.raises(DataError, match=message) as error:
            load(answer, page=2)
        assert (error.value.path or "").startswith("http://127.0.0.1")

    @pytest.mark.parametrize("answer", [stall, trickle])
    def test_an_endpoint_that_stalls(self, answer: Answer, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(sparql, "SECONDS_BETWEEN_TRIES", ())
        with pytest.raises(DataError, match="no whole answer within 1 seconds") as error:
            load(answer, timeout=1)
        assert "read.timeout" in error.value.remedy

    def test_an_endless_endpoint(self):
        number = iter(range(10**9))

        def endless(handler: BaseHTTPRequestHandler, query: str) -> None:
            send(handler, json.dumps(rows(*(f"http://{next(number)}/{'x' * 1000}" for _ in range(100)))).encode())

        with pytest.raises(DataError, match="the endpoint sent more than 2 MB"):
            load(endless, expanded_mb=2, page=100)

    def test_unbound_variables(self):
        query = f"SELECT ?s ?p ?o {{ ?s <{EX}knows> ?x . ?s ?p ?x OPTIONAL {{ ?x <{EX}likes> ?o }} }}"
        with pytest.raises(DataError, match=r"row \d has no tail"):
            load(answers_of(store_of(TURTLE)), query)

    def test_a_wrong_query(self):
        with pytest.raises(DataError, match=r"the server answered 400 \(syntax: "):
            load(answers_of(store_of(TURTLE)), "SELEC")

    def test_no_server(self):
        with endpoint(answers_of(store_of(TURTLE))) as address:
            pass
        with pytest.raises(DataError, match="no connection, or one that broke off"):
            hopwalk.load_dataset(address)

    def test_labels_that_would_end_an_iri_are_not_asked_about(self):
        """An endpoint cannot put its own text into our next query."""
        asked: list[str] = []
        evil = "http://a> } # "

        def answer(handler: BaseHTTPRequestHandler, query: str) -> None:
            asked.append(query)
            send(handler, json.dumps(rows(evil) if query.endswith(("OFFSET 0", "LIMIT 1")) else rows()).encode())

        dataset = load(answer)
        assert list(dataset.entities) == [evil]
        assert not any(evil in query for query in asked)
