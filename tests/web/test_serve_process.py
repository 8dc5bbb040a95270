"""`hopwalk serve` as a process: it starts, answers, stops when it is told to, and refuses what cannot be served."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from hopwalk.errors import RunError, SavedFileError, SettingsError
from hopwalk.web import server
from hopwalk.web.limits import Limits
from hopwalk.web.runs import RunView
from tests.support.commands import command


@pytest.fixture(scope="module")
def folder(served_runs: Mapping[str, RunView]) -> Path:
    return served_runs["village"].trained.run.path


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_starts_answers_and_stops(folder: Path, stop: signal.Signals):
    arguments = [sys.executable, "-m", "hopwalk", "serve", str(folder), "--port", "0", "--threads", "1"]
    environment = os.environ | {"HOPWALK_TOKEN": "correct-horse", "PYTHONUNBUFFERED": "0"}
    with subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            line, next_line = process.stdout.readline(), process.stdout.readline()
            found = re.fullmatch(r"hopwalk serves 1 run at (http://127\.0\.0\.1:\d+/); it asks for the token\n", line)
            assert found and next_line == "Ctrl-C stops it\n", line
            asked = {"head": "child 0", "relation": "uncle"}
            headers = {"Authorization": "Bearer correct-horse"}
            with requests.Session() as session:  # its connection stays open: that must not keep the server from stopping
                assert session.get(f"{found[1]}api/v1/runs", timeout=30).status_code == 401
                answered = session.post(f"{found[1]}api/v1/ask?token=correct-horse", json=asked, headers=headers, timeout=30)
                assert answered.status_code == 200
                process.send_signal(stop)
                out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped\n", "")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command would start the server with."""
    said: dict[str, Any] = {}

    def start(folders: Any, **options: Any) -> None:
        options["announce"]("http://127.0.0.1:1/")
        said.update(options, folders=folders)

    monkeypatch.setattr(server, "serve", start)
    for name in ("HOPWALK_TOKEN", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is as before in the end
        monkeypatch.delenv(name)
    return said


def test_options(started: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    shown = command(
        capsys, "serve", "a", "b", "--port", "0", "--allow-host", "x.org", "--timeout", "5", "--waiting", "9", "--threads", "3"
    )
    assert started["folders"] == [Path("a"), Path("b")]
    assert (started["host"], started["port"], started["token"], started["threads"]) == ("127.0.0.1", 0, None, 3)
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert started["hosts"] == ["x.org"] and started["limits"] == Limits(seconds=5.0, waiting=9)
    assert shown.err == "" and "hopwalk serves 2 runs at http://127.0.0.1:1/\n" in shown.out


@pytest.mark.parametrize(("more", "told"), [((), "anybody there, without a token"), (("--token", "x"), "whoever has the token")])
def test_other_hosts_than_loopback_are_warned_of(
    started: dict[str, Any], capsys: pytest.CaptureFixture[str], more: tuple[str, ...], told: str
):
    shown = command(capsys, "serve", "a", "--host", "0.0.0.0", *more)
    assert shown.err.startswith("warning: 0.0.0.0 can be reached from the network") and told in shown.err
    assert started["token"] == (more[1] if more else None)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delitem(sys.modules, "hopwalk.web.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    shown = command(capsys, "serve", "a", code=1)
    assert "needs the package uvicorn" in shown.err and "pip install 'hopwalk[serve]'" in shown.err


def test_folders_are_refused_before_the_port_is_bound(folder: Path, tmp_path: Path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_bytes((folder / "run.json").read_bytes())
    (tmp_path / "file").write_text("no run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for wrong in (tmp_path / "missing", tmp_path, broken, tmp_path / "file", folder / "scorer"):
            with pytest.raises((RunError, SavedFileError, SettingsError), match=re.escape(str(wrong))):
                server.serve([folder, wrong], port=port)
        with pytest.raises(SettingsError, match=f"the address 127.0.0.1 port {port} cannot be used .* --port 0"):
            server.serve([folder], port=port)


def test_hosts_that_do_not_exist(folder: Path):
    with pytest.raises(SettingsError, match="the address no such host port 0 cannot be used"):
        server.serve([folder], host="no such host", port=0)


@pytest.mark.parametrize("token", ["", "two words", "umläut", "line\nbreak"])
def test_tokens_that_cannot_be_sent(token: str):
    with pytest.raises(SettingsError, match="token"):
        server.serve([], token=token)


def test_addresses():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert server.address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}/"
    if socket.has_dualstack_ipv6():
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
            assert server.address_of(listening) == f"http://[::1]:{listening.getsockname()[1]}/"
