"""The memory that this process may still take, and the errors for when it is not enough."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hopwalk.errors import MemoryLimitError

REMEDY = (
    "Give the process more memory, or ask for less of it: fewer threads, a smaller walker.memory_mb, batch_size or dimension, "
    "propagation.senders and propagation.fan_out."
)
BYTES_OF_THREADS = 10**9  # of address space, which threads reserve and hardly use
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
KEPT_BYTES = 2**30  # largest allocation whose memory is kept
USUAL_BYTES = 2**25  # where glibc's own threshold ends up in a process with large arrays
FAILED_ALLOCATION = re.compile(
    r"can't allocate memory|not enough memory|out of memory|bad_alloc|cannot allocate|failed to map segment", re.IGNORECASE
)


def memory_error(error: BaseException) -> MemoryLimitError | None:
    """Our error for one that says that memory ran out, of Python, numpy, torch or the system; None for others.

    A library that cannot be loaded may say so only in the error that its own error came from.
    """
    is_known = isinstance(error, RuntimeError | OSError | ImportError) and FAILED_ALLOCATION.search(str(error))
    if not isinstance(error, MemoryError) and not is_known:
        before = error.__cause__ or error.__context__
        return memory_error(before) if before is not None and isinstance(error, OSError | ImportError) else None
    asked = re.search(r"allocate ([\d.,]+ ?[KMGT]?i?B|\d+ bytes)", str(error))
    return MemoryLimitError(f"memory ran out{f' (allocating {asked[1]})' if asked else ''}", remedy=REMEDY)


def available_bytes() -> int | None:
    """The memory that the process can still take under its own limit and that of the machine; None if the system does not say."""
    found = [free for free in (_below_limit(), _free_on_machine()) if free is not None]
    return min(found) if found else None


def _below_limit() -> int | None:
    """The address space below the limit (`ulimit -v`)."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):  # Windows, macOS
        return None
    return None if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def _free_on_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


_lock = threading.Lock()
_num_open = [0]  # blocks of `kept_memory`, in whichever thread


@contextmanager
def kept_memory() -> Iterator[None]:
    """Have glibc keep the memory of freed arrays for the next ones meanwhile, and return it at the end.

    It returns what arrays of megabytes leave to the system at once, and gets it back page by page: a fifth of a training step.
    """
    with _lock:
        _num_open[0] += 1
        _keep(KEPT_BYTES)
    try:
        yield
    finally:
        with _lock:
            _num_open[0] -= 1
            if not _num_open[0]:
                _keep(USUAL_BYTES)
                if libc := _glibc():
                    libc.malloc_trim(0)


def _keep(num_bytes: int) -> None:
    if libc := _glibc():
        libc.mallopt(MMAP_THRESHOLD, num_bytes)
        libc.mallopt(TRIM_THRESHOLD, num_bytes)


@cache
def _glibc() -> Any:
    """The C library, if it is glibc, else None."""
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt") else None
    except (OSError, TypeError):  # Windows
        return None


def require_room_for_threads(path: str = "") -> None:
    """Raise an error if a limit on the address space leaves no room for polars' threads: without it the process ends."""
    below = _below_limit()
    if below is not None and below < BYTES_OF_THREADS:
        raise MemoryLimitError("memory ran out: a limit on memory leaves no room for reading", path=path or None, remedy=REMEDY)


def prepare_for_threads() -> None:
    """Under a limit on the address space, raise an error if polars could not be loaded, and keep its allocator quiet.

    The allocator starts a thread of its own in the background; where it cannot, it says so millions of times.
    """
    if _below_limit() is not None:
        os.environ.setdefault("_RJEM_MALLOC_CONF", "background_thread:false")
        require_room_for_threads()


def require_memory(needed: int, purpose: str, *, path: str = "", remedy: str = "read a part of the facts") -> None:
    """Raise an error if so many bytes are not there. For libraries that end the process when an allocation fails."""
    free = available_bytes()
    if free is not None and needed > free:
        problem = f"{purpose} takes about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
        raise MemoryLimitError(problem, path=path or None, remedy=f"Give the process more memory, or {remedy}.")
