"""SPARQL endpoints on loopback: pyoxigraph behind Python's HTTP server, and others that stall or lie."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pyoxigraph
import pytest

RESULTS = "application/sparql-results+json"
Answer = Callable[[BaseHTTPRequestHandler, str], None]


def store_of(turtle: str) -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    store.load(turtle.encode(), format=pyoxigraph.RdfFormat.TURTLE)
    return store


def send(handler: BaseHTTPRequestHandler, content: bytes, *, status: int = 200, kind: str = RESULTS, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def answers_of(store: pyoxigraph.Store, *, most_rows: int = 10**9, asked: list[str] | None = None) -> Answer:
    """The answers of a real engine, cut to `most_rows` as public endpoints do."""

    def answer(handler: BaseHTTPRequestHandler, query: str) -> None:
        if asked is not None:
            asked.append(query)
        try:
            found = store.query(query)
        except SyntaxError as error:
            send(handler, f"syntax: {error}".encode(), status=400, kind="text/plain")
            return
        assert isinstance(found, pyoxigraph.QuerySolutions)
        variables, rows = [variable.value for variable in found.variables], list(found)[:most_rows]
        send(handler, _json(variables, rows))

    return answer


def _json(variables: list[str], rows: list[pyoxigraph.QuerySolution]) -> bytes:
    import json

    bindings = [{name: _term(row[name]) for name in variables if row[name] is not None} for row in rows]
    return json.dumps({"head": {"vars": variables}, "results": {"bindings": bindings}}).encode()


def _term(term: object) -> dict[str, str]:
    if isinstance(term, pyoxigraph.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, pyoxigraph.BlankNode):
        return {"type": "bnode", "value": term.value}
    assert isinstance(term, pyoxigraph.Literal)
    return {"type": "literal", "value": term.value} | ({"xml:lang": term.language} if term.language else {})


@contextmanager
def endpoint(answer: Answer, *, password: str = "") -> Iterator[str]:
    """The address of an endpoint; with a password, of one that asks for it."""
    wanted = f"Basic {base64.b64encode(f'ada:{password}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if password and self.headers.get("Authorization") != wanted:
                send(self, b"who are you?", status=401, kind="text/plain")
                return
            answer(self, parse_qs(body)["query"][0])

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None: ...  # clients that have gone

    with Server(("127.0.0.1", 0), Handler) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/sparql"
        finally:
            server.shutdown()
            thread.join()
