"""`hopwalk serve`: its options, its warning, and the missing package."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hopwalk.web import server
from hopwalk.web.limits import Limits
from tests.support.commands import command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The arguments with which the command starts the server."""
    started: dict[str, Any] = {}

    def start(folders: Any, **options: Any) -> None:
        options["announce"]("http://127.0.0.1:1/")
        started.update(options, folders=folders)

    monkeypatch.setattr(server, "serve", start)
    for name in ("HOPWALK_TOKEN", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, "")  # so that it is restored in the end
        monkeypatch.delenv(name)
    threads = torch.get_num_threads()
    yield started
    torch.set_num_threads(threads)


def test_options(started: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    shown = command(
        capsys, "serve", "a", "b", "--port", "0", "--allow-host", "x.org", "--timeout", "5", "--waiting", "9", "--threads", "3"
    )
    assert started["folders"] == [Path("a"), Path("b")]
    assert (started["host"], started["port"], started["token"]) == ("127.0.0.1", 0, None)
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OMP_NUM_THREADS"]) == ("PASSIVE", "3")
    assert started["hosts"] == ["x.org"] and started["limits"] == Limits(seconds=5.0, waiting=9)
    assert shown.err == "" and "Serving 2 runs at http://127.0.0.1:1/\n" in shown.out


def test_a_warning_is_readable_whatever_the_host(started: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    assert len(command(capsys, "serve", "a", "--host", "h" * 70_000).err) < 500


@pytest.mark.parametrize(
    ("more", "message"), [((), "by anyone, without a token"), (("--token", "x"), "by anyone with the token")]
)
def test_a_warning_for_hosts_other_than_loopback(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str
):
    shown = command(capsys, "serve", "a", "--host", "0.0.0.0", *more)
    assert shown.err.startswith("warning: 0.0.0.0 is reachable from the network") and message in shown.err
    assert started["token"] == (more[1] if more else None)


def test_without_its_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delitem(sys.modules, "hopwalk.web.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    shown = command(capsys, "serve", "a", code=1)
    assert "`hopwalk serve` needs the package uvicorn" in shown.err and "pip install uvicorn" in shown.err
