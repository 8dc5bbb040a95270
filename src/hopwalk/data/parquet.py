"""Parquet files, read in a child process: damage to one can end a process, or have it allocate without end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hopwalk.data import parquet_child
from hopwalk.data.source import Source
from hopwalk.errors import DataError
from hopwalk.utils.files import storing

OVERHEAD_BYTES = 2 * 10**9  # of address space, for Python, polars and its threads

ChooseColumns = Callable[[list[str]], Sequence[str]]


def read_columns(source: Source, choose: ChooseColumns, *, most_mb: int) -> pl.DataFrame:
    """The columns of a Parquet file that `choose` picks by their names; at most `most_mb` megabytes are read."""
    with tempfile.TemporaryDirectory(prefix="hopwalk-", ignore_cleanup_errors=True) as folder:
        path, out = source.path, Path(folder) / "columns.arrow"
        if path is None or not _is_utf8(path):
            path = Path(folder) / "source.parquet"
            with storing(path, len(source.content)), path.open("wb") as copy, source.open() as file:
                while chunk := file.read(2**20):
                    copy.write(chunk)
        _run_child(source, path, out, choose, OVERHEAD_BYTES + 2 * most_mb * 10**6)
        return pl.read_ipc(out)


def _run_child(source: Source, path: Path, out: Path, choose: ChooseColumns, most_bytes: int) -> None:
    command = [sys.executable, parquet_child.__file__, str(path.absolute()), str(out), str(most_bytes)]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # backtraces of the reader
        env={**os.environ, "PYTHONPATH": paths, "RUST_BACKTRACE": "0"},
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            names = _reply(source, child.stdout.readline())
            child.stdin.write(json.dumps(list(choose(names))).encode() + b"\n")
            child.stdin.close()
            _reply(source, child.stdout.readline())
        finally:
            child.kill()


def _reply(source: Source, line: bytes) -> Any:
    """The value that the child printed; an error if it is one, or if the child ended."""
    value = json.loads(line) if line else "it cannot be read in the memory there is"
    if isinstance(value, str):
        raise DataError(f"the Parquet file is not valid: {value}", path=source.name, remedy="Write or download the file again.")
    return value


def _is_utf8(path: Path) -> bool:
    """Whether polars can open a file of that name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
