"""`hopwalk mcp`: its options and the missing package; `tests/agents` has what it serves."""

import sys
from pathlib import Path
from typing import Any

import pytest

from hopwalk.mcp import http, stdio
from tests.support.commands import command


def test_stdio_is_the_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    served: list[Path] = []
    monkeypatch.setattr(stdio, "serve_stdio", served.append)
    shown = command(capsys, "mcp", "a")
    assert served == [Path("a")] and shown.out == "", "stdout is for messages of the protocol"


@pytest.mark.parametrize("token", [None, "correct-horse"])
def test_http(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str | None):
    started: dict[str, Any] = {}

    def start(run: Path, **options: Any) -> None:
        options["announce"]("http://127.0.0.1:1/mcp", options["token"] or "made")
        started.update(options, run=run)

    monkeypatch.setattr(http, "serve_http", start)
    monkeypatch.delenv("HOPWALK_TOKEN", raising=False)
    shown = command(capsys, "mcp", "a", "--http", "--port", "0", *(("--token", token) if token else ()))
    assert (started["run"], started["host"], started["port"], started["token"]) == (Path("a"), "127.0.0.1", 0, token)
    assert "at http://127.0.0.1:1/mcp\n" in shown.err and shown.out == ""
    assert ("Authorization: Bearer made" in shown.err) == (token is None)
    assert "correct-horse" not in shown.err


def test_without_its_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "hopwalk.mcp.stdio")
    monkeypatch.setitem(sys.modules, "mcp", None)
    shown = command(capsys, "mcp", "a", code=1)
    assert "`hopwalk mcp` needs the package mcp" in shown.err and "pip install mcp" in shown.err


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shown = command(capsys, "mcp", str(tmp_path / "nowhere"), code=1)
    assert "nowhere" in shown.err and shown.out == ""


def test_other_hosts_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shown = command(capsys, "mcp", str(tmp_path), "--http", "--host", "0.0.0.0", code=1)
    assert "0.0.0.0 is not an address of this machine alone" in shown.err and "TLS" in shown.err
