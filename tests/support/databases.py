"""A real PostgreSQL of the tests' own: Debian's package, started in a temporary folder by a user without privileges."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest

from hopwalk.data import sql, sql_child
from hopwalk.data.children import Child, ChildError
from hopwalk.errors import DataError

PASSWORD = "s3cr3t-Wort/mit@allem"
IN_ADDRESS = "s3cr3t-Wort%2Fmit%40allem"
MISSING = "needs PostgreSQL: Debian's package postgresql, which `make test` installs if it can"


def programs() -> Path | None:
    """The folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    folders = [*([Path(found).resolve().parent] if found else []), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    return next((folder for folder in folders if all((folder / name).exists() for name in ("initdb", "pg_ctl", "psql"))), None)


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server with one user, `owner`."""

    port: int
    folder: Path

    def address(self, password: str = IN_ADDRESS, database: str = "postgres") -> str:
        return f"postgresql://owner:{password}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str) -> list[tuple[str, ...]]:
        """The rows of the last statement, by PostgreSQL's own client."""
        program = programs()
        assert program is not None
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-d", "postgres", "-qAt", "-F", "\t"]
        commands = [part for statement in statements for part in ("-c", statement)]
        ran = subprocess.run(
            [program / "psql", "-X", "-v", "ON_ERROR_STOP=1", *options, *commands],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=True,
        )
        return [tuple(line.split("\t")) for line in ran.stdout.splitlines()]


@contextmanager
def postgresql() -> Iterator[Server]:
    """A server on a port of loopback; its files are in a folder with a short name, as sockets need one."""
    program = programs()
    assert program is not None, MISSING
    folder = Path(tempfile.mkdtemp(prefix="hopwalk-pg-", dir="/tmp"))
    as_user = _unprivileged(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    data = folder / "data"
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off -c shared_buffers=16MB -c max_connections=10"
    try:
        secured = ("-U", "owner", "-A", "scram-sha-256", "--pwfile", folder / "password")
        _run(program / "initdb", "-D", data, "-N", "-E", "UTF8", "--no-locale", *secured, **as_user)
        _run(program / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start", **as_user)
        yield Server(port, folder)
    finally:
        if (data / "postmaster.pid").exists():
            _run(program / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop", **as_user)
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> dict[str, int]:
    """Whom to run the server as: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return {}
    user = next(pwd.getpwnam(name) for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid}


def _run(*command: object, **as_user: int) -> None:
    ran = subprocess.run(
        list(map(str, command)),
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        extra_groups=[] if as_user else None,
        **as_user,
    )  # type: ignore[call-overload]
    assert ran.returncode == 0, ran.stderr.decode()


class Talk(Child):
    """A conversation with the script of a child that runs in a thread: the same code, without half a second to begin."""

    def __init__(self) -> None:
        self.to_child: SimpleQueue[Any] = SimpleQueue()
        self.from_child: SimpleQueue[Any] = SimpleQueue()

    def tell(self, value: Any) -> None:
        self.to_child.put(json.dumps(value))

    def hear(self) -> Any:
        value = json.loads(self.from_child.get(timeout=60))
        if isinstance(value, dict) and "error" in value:
            raise ChildError(value["error"], kind=value.get("kind", ""))
        return value


def in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Have databases read and written in a thread instead of a child process."""

    @contextmanager
    def started(script: ModuleType, request: dict[str, Any], *, most_bytes: int) -> Iterator[Talk]:
        talk = Talk()
        patch.setattr(sql_child, "limit_memory", lambda _: None)
        patch.setattr(sql_child, "request_of_parent", lambda: json.loads(talk.to_child.get(timeout=60)))
        patch.setattr(sql_child, "reply", lambda value: talk.from_child.put(json.dumps(value)))
        talk.tell(request)
        thread = threading.Thread(target=sql_child.main, args=(str(most_bytes),), daemon=True)
        thread.start()
        try:
            yield talk
        except DataError:  # the choice of columns refused the result: the script would wait for it
            talk.to_child.put("[]")
            raise
        finally:
            thread.join()

    patch.setattr(sql, "started", started)
