"""`hopwalk serve` as a process: it starts, answers, stops on a signal, and refuses folders and options that are wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import requests

from hopwalk.errors import RunError, SavedFileError, SettingsError
from hopwalk.web import server
from hopwalk.web.runs import RunView


@pytest.fixture(scope="module")
def folder(served_runs: Mapping[str, RunView]) -> Path:
    return served_runs["village"].reasoner.run.path


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
            found = re.fullmatch(r"Serving 1 run at (http://127\.0\.0\.1:\d+/) with a token\n", line)
            assert found and next_line == "Press Ctrl-C to stop.\n", line
            query = {"head": "child 0", "relation": "uncle"}
            headers = {"Authorization": "Bearer correct-horse"}
            with requests.Session() as session:  # its connection stays open, and must not keep the server from stopping
                assert session.get(f"{found[1]}api/v1/runs", timeout=30).status_code == 401
                answered = session.post(f"{found[1]}api/v1/ask?token=correct-horse", json=query, headers=headers, timeout=30)
                assert answered.status_code == 200
                process.send_signal(stop)
                out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "Stopped.\n", "")


def test_folders_are_refused_before_the_port_is_bound(folder: Path, tmp_path: Path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_bytes((folder / "run.json").read_bytes())
    (tmp_path / "file").write_text("no run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for wrong in (tmp_path / "missing", tmp_path, broken, tmp_path / "file"):
            with pytest.raises((RunError, SavedFileError, SettingsError), match=re.escape(str(wrong))):
                server.serve([folder, wrong], port=port)
        with pytest.raises(
            SettingsError, match=f"the address 127.0.0.1 port {port} cannot be used .* port 0 takes any free port"
        ):
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
