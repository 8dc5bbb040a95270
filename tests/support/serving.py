"""Runs to serve, a server in a thread of this process, and short ways to ask it."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import uvicorn

from hopwalk.web.app import create_app
from hopwalk.web.limits import Limits
from hopwalk.web.runs import RunView, load_runs
from hopwalk.web.server import bound_socket, server_of
from tests.support.helpers import Fact, dataset_of
from tests.support.villages import settings_of, train_walker, village_of

SCRIPT = "<script>document.title = 'run'</script>"
IMAGE = "<img src=x onerror=\"document.title='run'\">"
QUOTES = "\"quoted\" 'twice' & <b>"
OVERRIDE = "\u202egnp.exe"
LONG = "long " + "x" * 10_000
HOSTILE: list[Fact] = [
    (SCRIPT, "meets", IMAGE),
    (SCRIPT, "meets", QUOTES),
    (IMAGE, "</text><script>alert(1)</script>", OVERRIDE),
    (QUOTES, "</text><script>alert(1)</script>", LONG),
    (OVERRIDE, "meets", LONG),
    ("plain", "meets", SCRIPT),
    (LONG, "meets", "plain"),
    ("island", "meets", "islet"),
]
QUICK = {"walker.epochs": 1, "scorer.epochs": 1}  # what is learnt does not matter here
QUERY = {"head": "child 0", "relation": "uncle"}


def train_runs(folder: Path) -> dict[str, RunView]:
    """A small village, and a graph whose labels try to break out of the page."""
    village, hostile = village_of(num_mothers=4), dataset_of(HOSTILE)
    paths = [
        train_walker(village, settings_of(QUICK), out=folder / "village").path,
        train_walker(hostile, settings_of(QUICK | {"walk.hops": 3}), out=folder / "hostile").path,
    ]
    return load_runs(paths)


@dataclass(frozen=True)
class Client:
    """Asks a server."""

    address: str
    server: uvicorn.Server
    headers: Mapping[str, str]

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.address + path, timeout=30, **({"headers": self.headers} | options))

    def post(self, path: str, body: Any, **options: Any) -> requests.Response:
        return requests.post(f"{self.address}api/v1/{path}", json=body, timeout=30, **({"headers": self.headers} | options))


@contextmanager
def serving(runs: Mapping[str, RunView], **options: Any) -> Iterator[Client]:
    """A server with these runs; the options are those of `create_app`."""
    listening = bound_socket("127.0.0.1", 0)
    server = server_of(create_app(runs, **options), options.get("limits") or Limits())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    token = options.get("token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        yield Client(f"http://127.0.0.1:{listening.getsockname()[1]}/", server, headers)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def problem_of(response: requests.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    assert {*body["error"]} == {"code", "message", "remedy", "field", "suggestions"}
    assert isinstance(body["error"], dict)
    return body["error"]


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)
