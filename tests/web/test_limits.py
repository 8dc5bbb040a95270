"""Requests that the API refuses: invalid, too large, too many, too slow, for other hosts, or without the token."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import requests

from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.results import Answers
from hopwalk.web.limits import MOST_BODY_BYTES, MOST_URL_BYTES, Limits
from hopwalk.web.middleware import HEADERS
from hopwalk.web.runs import RunView
from tests.support.serving import QUERY, Client, problem_of, serving, wait_until


@pytest.fixture(scope="module")
def village(served_runs: Mapping[str, RunView]) -> RunView:
    return served_runs["village"]


def test_every_response_has_the_security_headers(client: Client):
    for response in (
        client.get(""),
        client.get("static/page.js"),
        client.get("nothing"),
        client.post("ask", QUERY),
        client.post("ask", {}),
        client.get("api/v1/health", headers={"Host": "evil.example"}),
    ):
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert "server" not in response.headers


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"k": 0}, "k"),
        ({"k": 101}, "k"),
        ({"k": "5"}, "k"),
        ({"paths": 21}, "paths"),
        ({"head": ""}, "head"),
        ({"head": "x" * 12_001}, "head"),
        ({"head": None}, "head"),
        ({"beam": 9}, "beam"),
        ({"head": "\ud800"}, "head"),
    ],
)
def test_values_beyond_their_limits(client: Client, more: dict[str, Any], place: str):
    problem = problem_of(client.post("ask", QUERY | more), 422)
    assert problem["code"] == "invalid_request" and place in problem["message"]


def test_bodies_that_are_not_a_query(client: Client):
    def send(data: bytes, kind: str = "application/json") -> requests.Response:
        return requests.post(f"{client.address}api/v1/ask", data=data, headers={"Content-Type": kind}, timeout=30)

    for broken in (b"{", b"\xff\xfe"):
        assert problem_of(send(broken), 422)["message"] == "The body is not JSON"
    problem_of(send(b"[" * 50_000), 400)
    problem_of(send(b"[1]"), 422)
    problem_of(send(json.dumps(QUERY).encode(), "text/plain"), 422)  # a page of another site could send it


def test_large_requests(client: Client):
    assert problem_of(client.post("ask", QUERY | {"head": "x" * MOST_BODY_BYTES}), 413)["code"] == "body_too_large"

    def pieces() -> Iterator[bytes]:
        for _ in range(MOST_BODY_BYTES // 1024 + 1):
            yield b" " * 1024

    url = f"{client.address}api/v1/ask"
    assert problem_of(requests.post(url, data=pieces(), timeout=30), 413)["code"] == "body_too_large"
    assert problem_of(client.get("?q=" + "x" * MOST_URL_BYTES), 414)["code"] == "url_too_long"
    assert client.get("?head=" + "%3C" * 10_000).status_code == 200  # a link to a label of 10,000 characters
    with suppress(requests.RequestException):  # the server hangs up
        assert client.get("x" * 200_000).status_code == 400
    assert client.get("api/v1/health").status_code == 200


def test_wrong_paths_and_methods(client: Client):
    assert problem_of(client.get("api/v1/nothing"), 404)["code"] == "not_found"
    assert problem_of(client.get("api/v1/ask"), 405)["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("127.0.0.1:9", True),
        ("[::1]:9", True),
        ("192.168.1.7", True),
        ("walks.example.org", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_other_host_names_are_refused(village: RunView, host: str, is_ours: bool):
    with serving({"village": village}, hosts=["Walks.example.org"]) as client:
        response = client.get("api/v1/health", headers={"Host": host})
    if is_ours:
        assert response.status_code == 200
    else:
        assert problem_of(response, 400)["code"] == "unknown_host"


def test_token(village: RunView):
    with serving({"village": village}, token="correct-horse") as client:
        assert client.post("ask", QUERY).status_code == 200
        assert client.get("metrics").status_code == 200
        for wrong in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer "},
            {"Authorization": "Basic correct-horse"},
        ):
            for response in (
                client.post("ask", QUERY, headers=wrong),
                client.get("api/v1/runs", headers=wrong),
                client.get("api/v1/entities", headers=wrong),
                client.get("metrics", headers=wrong),
            ):
                assert problem_of(response, 401)["code"] == "unauthorized"
                assert response.headers["www-authenticate"] == "Bearer"
        for open_to_all in ("", "docs", "static/page.js", "api/v1/health", "openapi.json"):
            assert client.get(open_to_all, headers={}).status_code == 200
        assert client.get("api/v1/runs", headers={"Authorization": "Bearer correct-hörse".encode()}).status_code == 401


def slow(event: threading.Event) -> Callable[..., Any]:
    def held(reasoner: Reasoner, queries: list[Any], **_: Any) -> list[Answers]:
        event.wait(20)
        return [Answers([], *query, hops=2) for query in queries]

    return held


def test_a_query_that_takes_too_long_times_out(village: RunView, monkeypatch: pytest.MonkeyPatch):
    event = threading.Event()
    monkeypatch.setattr(Reasoner, "ask_many", slow(event))
    with serving({"village": village}, limits=Limits(seconds=0.2)) as client:
        response = client.post("ask", QUERY)
        assert problem_of(response, 504)["code"] == "timeout" and response.headers["retry-after"] == "1"
        event.set()
        assert client.post("ask", QUERY).status_code == 200


def test_a_body_that_does_not_arrive_times_out(village: RunView):
    with serving({"village": village}, limits=Limits(seconds=0.2)) as client:
        host, port = client.address.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_too_many_waiting_queries_are_refused_with_retry_after(village: RunView, monkeypatch: pytest.MonkeyPatch):
    event = threading.Event()
    monkeypatch.setattr(Reasoner, "ask_many", slow(event))
    with serving({"village": village}, limits=Limits(waiting=2)) as client, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(client.post, "ask", QUERY | {"k": k}) for k in range(1, 9)]
        wait_until(lambda: sum(future.done() for future in futures) == 5)  # one is held, two wait
        event.set()
        responses = [future.result() for future in futures]
    refused = [response for response in responses if response.status_code != 200]
    assert len(refused) == 5
    for response in refused:
        assert problem_of(response, 503)["code"] == "overloaded" and response.headers["retry-after"] == "1"


def test_failures_show_no_traceback(client: Client, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Reasoner, "explain", fail)
    response = client.post("explain", QUERY | {"tail": "man 1"})
    problem = problem_of(response, 500)
    assert problem["code"] == "internal" and "secret" not in response.text and "Traceback" not in response.text
    assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
