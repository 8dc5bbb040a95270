"""Files on disk: written whole or not at all, read within limits, locked against other processes.

Whatever the disk refuses becomes a `StorageError` that names the file and how much is to be written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hopwalk.errors import FileLimitError, LockedError, StorageError

MOST_TEXT_BYTES = 64 * 2**20  # of a file that is read as one text: settings, run.json, results
CHUNK = 2**20
LARGEST_INTEGER = 2**64
MOST_LEVELS = 50  # of nested JSON and TOML
TOO_DEEP = "it is nested too deeply"
KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


@contextmanager
def storing(path: Path, num_bytes: int = 0) -> Iterator[None]:
    """Turn what the disk refuses within the block into a `StorageError`; `num_bytes` is the size of what is written."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, num_bytes) from None


def storage_error(error: OSError, path: Path, num_bytes: int = 0) -> StorageError:
    """The error for a file that cannot be written, with the folder and what to do there."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = f"at least {_megabytes(num_bytes)}" if num_bytes else "some space"
        remedy = f"Free {needed} in {path.parent}, then run the same command again; nothing that was written before is lost."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = f"Make {path.parent} writable, or choose another folder."
    else:
        remedy = f"Check the disk of {path.parent}, then run the same command again."
    return StorageError(f"the file cannot be written ({reason})", path=path, remedy=remedy)


def _megabytes(num_bytes: int) -> str:
    return f"{max(num_bytes / 1e6, 0.1):,.1f} MB"


@contextmanager
def prepared(path: Path, chunks: Iterable[bytes | memoryview], num_bytes: int = 0) -> Iterator[str]:
    """Write a file beside `path`, which takes its place when the block ends without an error; gives its SHA-256."""
    with storing(path, num_bytes):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    digest = hashlib.sha256()
    try:
        with storing(path, num_bytes), temporary.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
            file.flush()
            os.fsync(file.fileno())
        yield digest.hexdigest()
        with storing(path):
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, chunks: Iterable[bytes | memoryview], num_bytes: int = 0) -> str:
    """Write a file, whole or not at all; its SHA-256."""
    with prepared(path, chunks, num_bytes) as digest:
        return digest


def write_text(path: Path, text: str) -> str:
    """Write a text file in UTF-8, whole or not at all; its SHA-256."""
    content = text.encode()
    return write_bytes(path, [content], len(content))


def append_bytes(path: Path, content: bytes) -> None:
    """Add to the end of a file; where the disk refuses it, the file is as it was."""
    with storing(path, len(content)), path.open("ab") as file:
        size = file.tell()
        try:
            file.write(content)
            file.flush()
        except OSError:
            with suppress(OSError):
                os.truncate(path, size)
            raise


def append_text(path: Path, text: str) -> None:
    """Add text in UTF-8 to the end of a file; where the disk refuses it, the file is as it was."""
    append_bytes(path, text.encode())


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, for others to write; it takes the place of `path` when the block ends without an error."""
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
        try:
            yield temporary
            replace_synced(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def replace_synced(written: Path, path: Path) -> None:
    """Give a file that was written the place of `path`, once its content is on the disk."""
    with storing(path):
        with written.open("rb") as file:
            os.fsync(file.fileno())
        written.replace(path)
        sync_folder(path.parent)


def copy_file(source: str | Path, target: str | Path) -> str:
    """Copy a file, whole or not at all; the target."""
    with Path(source).open("rb") as file:
        write_bytes(Path(target), iter(lambda: file.read(CHUNK), b""), os.fstat(file.fileno()).st_size)
    return str(target)


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    with storing(path):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: without that, a power failure may undo a rename."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot
            raise
    finally:
        os.close(descriptor)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    require_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_regular(path: Path) -> None:
    """Raise an error if the path is a pipe, a device or a socket, of which reading may never end; other errors of the system."""
    kind = KINDS.get(stat.S_IFMT(path.stat().st_mode))
    if kind:
        raise FileLimitError(f"this is {kind}, not a file", path=path, remedy="Give the path of a file.")


def read_bytes(path: Path, most: int = MOST_TEXT_BYTES) -> bytes:
    """The content of a file; an error if it is larger than `most` bytes, or not a regular file."""
    require_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        problem = f"the file is larger than {_megabytes(most)}, the most that is read here"
        raise FileLimitError(problem, path=path, remedy="Give another file.")
    return content


def read_text(path: Path, most: int = MOST_TEXT_BYTES) -> str:
    """The text of a file in UTF-8, within `most` bytes."""
    return read_bytes(path, most).decode()


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; a `ValueError` if it is not valid, nested too deeply, or has an infinite or huge number."""
    try:
        return _shallow(json.loads(text, parse_constant=_not_finite, parse_float=_finite, parse_int=_bounded))
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text; a `ValueError` as for `parse_json`."""
    try:
        values = tomllib.loads(text)
        _shallow(values)
        return values
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _shallow(value: Any) -> Any:
    """The value; a `ValueError` if it is nested more deeply than any file of ours."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner for one in level if isinstance(one, dict | list) for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return value
    raise ValueError(TOO_DEEP)


def _not_finite(text: str) -> Any:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _not_finite(text[:20])


def _bounded(text: str) -> int:
    value = int(text) if len(text) <= 21 else LARGEST_INTEGER
    if abs(value) >= LARGEST_INTEGER:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return value


@contextmanager
def locked(path: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder or file; a `LockedError` if another process holds it. The system frees it when a process ends.

    The lock is advisory, and there is none where the system has none for folders: on Windows, and on some network file systems.
    """
    with storing(path):
        if not path.exists():
            path.mkdir(parents=True, exist_ok=True)
        require_regular(path)  # opening a pipe would wait for somebody who writes to it
        descriptor = _lock(path, time.monotonic() + wait_seconds)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(path: Path, deadline: float) -> int | None:
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(path, os.O_RDONLY)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                remedy = "Wait until it has ended, or choose another place."
                raise LockedError("another process is writing here", path=path, remedy=remedy) from None
            time.sleep(0.05)
        except OSError:
            os.close(descriptor)
            return None
