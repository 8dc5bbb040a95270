"""Connections that do the server no good: slow, too many, ambiguous; and requests while it stops."""

import socket
import threading
from collections.abc import Mapping

import pytest

from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web.limits import Limits, most_connections
from hopwalk.web.middleware import host_name
from hopwalk.web.runs import RunView
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
