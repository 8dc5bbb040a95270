"""Child processes that read and write what may be hostile, endless or stuck: they are limited in memory, and can be killed.

A child is a script that imports nothing of hopwalk but this. It gets its request on standard input, never as an argument, which
other users of the machine could read; and it answers with lines of JSON. `{"error": …}` is an error, with the `file` that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import IO, Any

OVERHEAD_BYTES = 2 * 10**9  # of address space, for Python, polars and its threads
OUT_OF_MEMORY = "it cannot be read in the memory there is"


class ChildError(Exception):
    """What a child could not do, in its own words, and the file that it was reading if there are several."""

    def __init__(self, problem: str, *, file: int = 0, kind: str = "") -> None:
        super().__init__(problem)
        self.file, self.kind = file, kind


class Child:
    """A conversation with a child."""

    def __init__(self, to_child: IO[bytes], from_child: IO[bytes]) -> None:
        self._to_child, self._from_child = to_child, from_child

    def tell(self, value: Any) -> None:
        """Send a value."""
        with suppress(BrokenPipeError):  # it has ended; `hear` says why
            self._to_child.write(json.dumps(value).encode() + b"\n")
            self._to_child.flush()

    def hear(self) -> Any:
        """The next value; a `ChildError` if that is an error, or if the child has ended."""
        line = self._from_child.readline()
        value = json.loads(line) if line else {"error": OUT_OF_MEMORY}
        if isinstance(value, dict) and "error" in value:
            raise ChildError(value["error"], file=value.get("file", 0), kind=value.get("kind", ""))
        return value


@contextmanager
def started(script: ModuleType, request: dict[str, Any], *, most_bytes: int) -> Iterator[Child]:
    """A child that runs the script with a request and at most so much memory; it is killed when the block ends."""
    assert script.__file__ is not None
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        [sys.executable, "-P", script.__file__, str(most_bytes)],  # -P: its folder is not a place for imports
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # backtraces of the reader
        env={**os.environ, "PYTHONPATH": paths, "RUST_BACKTRACE": "0"},
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            child = Child(process.stdin, process.stdout)
            child.tell(request)
            yield child
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.stdin.close()


def request_of_parent() -> Any:
    """In the child: the next value that the parent sends."""
    return json.loads(sys.stdin.readline())


def reply(value: Any) -> None:
    """In the child: send a value to the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def limit_memory(most_bytes: int) -> None:
    """In the child: allow no more address space, and no core dumps, which would have what is read in them."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # Windows, or a limit that may not be set
        pass
