"""Metrics of the server in the text format of Prometheus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """Counts of values up to each bound, with their sum and number.

    >>> histogram = Histogram([1, 2])
    >>> for value in (0.5, 1.5, 3): histogram.add(value)
    >>> print(*histogram.lines("size"), sep="; ")
    size_bucket{le="1"} 1; size_bucket{le="2"} 2; size_bucket{le="+Inf"} 3; size_sum 5; size_count 3
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        place = next((place for place, bound in enumerate(self._bounds) if value <= bound), len(self._bounds))
        self._counts[place] += 1
        self._sum += value

    def lines(self, name: str, label: str = "") -> Iterator[str]:
        """The lines of the text format; `label` is like `operation="ask"`."""
        total, prefix = 0, f"{label}," if label else ""
        for bound, count in zip([*(f"{bound:g}" for bound in self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{prefix}le="{bound}"}} {total}'
        labels = f"{{{label}}}" if label else ""
        yield f"{name}_sum{labels} {self._sum:g}"
        yield f"{name}_count{labels} {total}"


class Metrics:
    """Counts of requests and batches. Both the event loop and the engine's thread write to it."""

    def __init__(self, version: str) -> None:
        self._version, self._lock = version, Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batch_sizes, self._batch_seconds = Histogram(SIZES), Histogram(SECONDS)
        self.waiting: Callable[[], int] = lambda: 0

    def request(self, operation: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[operation, status] += 1
            self._seconds.setdefault(operation, Histogram(SECONDS)).add(seconds)

    def batch(self, size: int, seconds: float) -> None:
        """Count a batch of the engine."""
        with self._lock:
            self._batch_sizes.add(size)
            self._batch_seconds.add(seconds)

    def text(self) -> str:
        """All metrics as text."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield from _about("hopwalk_info", "gauge", "The version of hopwalk.")
        yield f'hopwalk_info{{version="{self._version}"}} 1'
        yield from _about("hopwalk_requests_total", "counter", "Requests answered.")
        for (operation, status), count in sorted(self._requests.items()):
            yield f'hopwalk_requests_total{{operation="{operation}",status="{status}"}} {count}'
        yield from _about("hopwalk_request_seconds", "histogram", "Seconds from a request to its whole response.")
        for operation, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("hopwalk_request_seconds", f'operation="{operation}"')
        yield from _about("hopwalk_batch_size", "histogram", "Queries answered in one batch.")
        yield from self._batch_sizes.lines("hopwalk_batch_size")
        yield from _about("hopwalk_batch_seconds", "histogram", "Seconds of the engine for a batch.")
        yield from self._batch_seconds.lines("hopwalk_batch_seconds")
        yield from _about("hopwalk_waiting", "gauge", "Queries waiting for the engine.")
        yield f"hopwalk_waiting {self.waiting()}"
        memory = resident_bytes()
        if memory is not None:
            yield from _about("process_resident_memory_bytes", "gauge", "Resident memory in bytes.")
            yield f"process_resident_memory_bytes {memory}"


def _about(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def resident_bytes() -> int | None:
    """The resident memory of this process; None where the system does not report it."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
