"""Connections that do the server no good: slow, too many, ambiguous; and requests while it stops."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web import protocol
from hopwalk.web.limits import Limits, most_connections
from hopwalk.web.middleware import host_name
from hopwalk.web.runs import RunView
from hopwalk.web.server import server_of
from tests.support.serving import QUERY, Client, problem_of, serving, wait_until


def _port(client: Client) -> tuple[str, int]:
    return "127.0.0.1", int(client.address.rsplit(":", 1)[1].strip("/"))


def _all(connection: socket.socket) -> bytes:
    connection.settimeout(20)
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_headers_that_never_end_are_cut_off(served_runs: Mapping[str, RunView], sent: bytes):
    with serving(served_runs, limits=Limits(header_seconds=0.2)) as client, socket.create_connection(_port(client)) as slow:
        slow.sendall(sent)
        received = _all(slow)  # ends: the server hangs up
        assert received.startswith(b"HTTP/1.1 408 ") and b"too_slow" in received
        wait_until(lambda: not client.server.server_state.connections)
        assert client.post("ask", QUERY).status_code == 200


def test_a_second_request_must_end_too(served_runs: Mapping[str, RunView]):
    with serving(served_runs, limits=Limits(header_seconds=0.2)) as client, socket.create_connection(_port(client)) as slow:
        slow.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in slow.recv(65536)
        slow.sendall(b"GET /api/v1/hea")
        assert b" 408 " in _all(slow)


@pytest.mark.parametrize("limits", [Limits(connections=5), Limits(connections_per_address=5)], ids=["all", "address"])
def test_connections_are_capped(served_runs: Mapping[str, RunView], limits: Limits):
    with serving(served_runs, limits=limits) as client:
        idle = [socket.create_connection(_port(client)) for _ in range(5)]
        wait_until(lambda: len(client.server.server_state.connections) == 5)
        with socket.create_connection(_port(client)) as more:
            received = _all(more)
        assert received.startswith(b"HTTP/1.1 503 ") and b"too_many_connections" in received
        for one in idle:
            one.close()
        wait_until(lambda: not client.server.server_state.connections)
        assert client.post("ask", QUERY).status_code == 200


def test_connections_leave_files_for_other_uses(monkeypatch: pytest.MonkeyPatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert most_connections(Limits()) == 192


@pytest.mark.parametrize("host", ["[::1].evil.com", "[::1", "localhost:80:90", "local host:x", "[::1]evil"])
def test_hosts_that_only_begin_like_an_address(client: Client, host: str):
    assert host_name(host) == ""
    assert problem_of(client.get("api/v1/health", headers={"Host": host}), 400)["code"] == "unknown_host"


def test_two_lengths_are_refused(client: Client):
    with socket.create_connection(_port(client)) as connection:
        connection.sendall(
            b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n0\r\n\r\n"
        )
        received = _all(connection)
    assert b" 400 " in received.splitlines()[0] and b"both Content-Length and Transfer-Encoding" in received


@pytest.mark.parametrize("target", [b"?api/v1/health", b"api/v1/health", b"*", b"http://localhost/api/v1/health"])
def test_addresses_that_are_no_paths_are_refused(client: Client, target: bytes):
    """The first was answered with a redirect (soak, load:15)."""
    with socket.create_connection(_port(client)) as connection:
        connection.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = _all(connection)
    assert b" 400 " in received.splitlines()[0] and b"does not begin with a slash" in received


def test_stopping_answers_what_was_accepted(served_runs: Mapping[str, RunView], monkeypatch: pytest.MonkeyPatch):
    is_asked, may_answer, ask = threading.Event(), threading.Event(), Reasoner.ask_many

    def slow(self: Reasoner, *arguments: object, **options: object) -> object:
        is_asked.set()
        assert may_answer.wait(20)
        return ask(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Reasoner, "ask_many", slow)
    statuses: list[int] = []
    with serving(served_runs) as client:
        accepted = threading.Thread(target=lambda: statuses.append(client.post("ask", QUERY).status_code))
        accepted.start()
        assert is_asked.wait(20)
        client.server.should_exit = True
        wait_until(lambda: client.server._app.is_stopping)  # type: ignore[attr-defined]
        refused = client.get("api/v1/runs")
        assert problem_of(refused, 503)["code"] == "stopping" and refused.headers["connection"] == "close"
        may_answer.set()
        accepted.join(20)
        assert statuses == [200]


def _not_reading(client: Client) -> socket.socket:
    """A client that sends many requests and reads none of the responses."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(_port(client))
    connection.setblocking(False)
    try:
        for _ in range(1000):
            connection.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    except BlockingIOError:
        pass
    return connection


def test_who_does_not_read_is_cut_off(served_runs: Mapping[str, RunView]):
    with serving(served_runs, limits=Limits(seconds=0.5)) as client, _not_reading(client):
        wait_until(lambda: bool(client.server.server_state.connections))
        wait_until(lambda: not client.server.server_state.connections)
        assert client.get("api/v1/health").status_code == 200


def test_the_end_of_a_server_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """A connection that never ends is cut off, however long a request may take: its answers are sent already."""
    monkeypatch.setattr(protocol, "SECONDS_TO_CLOSE", 0.05)
    aborted: list[object] = []

    class Endless:
        def shutdown(self) -> None: ...

        @property
        def transport(self) -> Any:
            return self

        def abort(self) -> None:
            aborted.append(self)
            server.server_state.connections.discard(self)

    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    server = server_of(app, Limits(seconds=1000.0))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.servers = []

    async def stop() -> None:
        server.server_state.connections.add(Endless())  # type: ignore[arg-type]
        server.force_exit = False
        await asyncio.wait_for(server.shutdown(), 60)

    monkeypatch.setattr(server.lifespan, "shutdown", lambda: asyncio.sleep(0))
    asyncio.run(stop())
    assert len(aborted) == 1
