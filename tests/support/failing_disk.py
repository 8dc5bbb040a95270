"""A disk that refuses one write. Every way in which hopwalk writes below a folder is counted, and one of them fails."""

import builtins
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest


class FailingDisk:
    """Counts the operations that write below `folder`, by name; operation `at` (from 1) fails with the error code.

    `unseen` has the files that were opened for writing in a way that is not counted.
    """

    def __init__(self, folder: Path, at: int = 0, code: int = 0) -> None:
        self.folder, self.at, self.code = str(folder), at, code
        self.operations: list[str] = []
        self.unseen: list[str] = []
        self._opening = False

    def step(self, name: str, path: Any) -> None:
        if not str(path).startswith(self.folder):
            return
        self.operations.append(f"{name} {Path(path).name}")
        if len(self.operations) == self.at:
            raise OSError(self.code, os.strerror(self.code), str(path))

    def open(self, original: Any) -> Any:
        def opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            is_written = isinstance(path, str | os.PathLike) and any(letter in mode for letter in "wax+")
            if not is_written:
                return original(path, mode, *arguments, **options)
            self.step("open", path)
            self._opening = True
            try:
                file = original(path, mode, *arguments, **options)
            finally:
                self._opening = False
            return _File(file, self, path) if str(path).startswith(self.folder) else file

        return opened

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not self._opening and isinstance(arguments[2], int) and isinstance(arguments[0], str):
            path, flags = arguments[0], arguments[2]
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and path.startswith(self.folder):
                self.unseen.append(path)


class _File:
    """An open file whose writes are counted."""

    def __init__(self, file: Any, disk: FailingDisk, path: Any) -> None:
        self._file, self._disk, self._path = file, disk, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: Any) -> Any:
        self._disk.step("write", self._path)
        return self._file.write(content)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()


_current: list[FailingDisk] = []


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    for disk in _current:
        disk.audit(event, arguments)


sys.addaudithook(_on_event)  # hooks cannot be removed: this one does nothing without a disk


@contextmanager
def failing_disk(folder: Path, at: int = 0, code: int = 0, *, disk: FailingDisk | None = None) -> Iterator[FailingDisk]:
    """The disk, or one that fails in another way, in place of the real one, within the block."""
    disk = disk or FailingDisk(folder, at, code)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename", "mkdir", "unlink", "truncate"):
            patch.setattr(os, name, _counted(disk, name, getattr(os, name)))
        patch.setattr(io, "open", disk.open(io.open))
        patch.setattr(builtins, "open", disk.open(builtins.open))
        patch.setattr(pl.LazyFrame, "sink_parquet", _counted(disk, "sink_parquet", pl.LazyFrame.sink_parquet, argument=1))
        patch.setattr(os, "fsync", lambda descriptor: disk.step("fsync", _path_of(descriptor)))
        _current.append(disk)
        try:
            yield disk
        finally:
            _current.remove(disk)


def _counted(disk: FailingDisk, name: str, original: Any, argument: int = 0) -> Any:
    def operation(*arguments: Any, **options: Any) -> Any:
        disk.step(name, arguments[argument])
        return original(*arguments, **options)

    return operation


def _path_of(descriptor: int) -> str:
    link = Path(f"/proc/self/fd/{descriptor}")
    return str(link.readlink()) if link.exists() else ""
