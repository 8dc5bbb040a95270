"""What a number was measured on: processor, memory, versions and source. Nothing that tells whose machine it is."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

LIBRARIES = ("numpy", "polars", "scipy", "safetensors")
PROJECT = Path(__file__).parent.parent
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")


@dataclass(frozen=True)
class Machine:
    """The machine, the libraries and the source behind a measurement.

    `first_touch_seconds_per_gb` is what memory costs that no process has used of late: much on a virtual machine that gives free
    memory back to its host. `source_sha256` is the hash of the package's Python files: it says which code ran where the commit
    alone does not (`has_uncommitted_source`).
    """

    date: str
    cpu: str
    cores: int
    memory_bytes: int
    sgemm_gflops: float
    sgemm_threads: int
    first_touch_seconds_per_gb: float
    load_average: float
    system: str
    python: str
    libraries: dict[str, str]
    commit: str
    has_uncommitted_source: bool
    source_sha256: str


def describe_machine() -> Machine:
    """The machine this runs on, now; takes a few seconds to measure its matrix product."""
    return Machine(
        date=datetime.now(UTC).date().isoformat(),
        load_average=round(os.getloadavg()[0], 2),  # before the measurement below adds to it
        cpu=cpu_model(),
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        sgemm_gflops=round(_in_process_with_one_thread("sgemm"), 1),
        sgemm_threads=1,
        first_touch_seconds_per_gb=round(_in_process_with_one_thread("first-touch"), 2),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        libraries={name: version(name) for name in LIBRARIES},
        commit=_git("rev-parse", "HEAD"),
        has_uncommitted_source=bool(_git("status", "--porcelain", "--", "src")),
        source_sha256=source_sha256(),
    )


def describe_source() -> dict[str, object]:
    """The short form of `describe_machine`, without measurements."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "has_uncommitted_source": bool(_git("status", "--porcelain", "--", "src")),
        "source_sha256": source_sha256(),
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in (*LIBRARIES, "torch")},
    }


def cpu_model() -> str:
    """The name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def source_sha256() -> str:
    """A hash of the names and contents of the package's Python files."""
    digest = hashlib.sha256()
    package = PROJECT / "src" / "hopwalk"
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def sgemm_gflops(size: int = 2048, seconds: float = 1.0) -> float:
    """How many billion float32 operations a second numpy's matrix product does, best of the repetitions."""
    import numpy as np

    random = np.random.default_rng(0)
    left, right = (random.random((size, size), dtype=np.float32) for _ in range(2))
    fastest = float("inf")
    end = perf_counter() + seconds
    while perf_counter() < end:
        start = perf_counter()
        left @ right
        fastest = min(fastest, perf_counter() - start)
    return 2 * size**3 / fastest / 1e9


def first_touch_seconds_per_gb() -> float:
    """How long it takes to write 10⁹ bytes of new memory for the first time."""
    import numpy as np

    start = perf_counter()
    np.ones(10**9, dtype=np.uint8)
    return perf_counter() - start


def _in_process_with_one_thread(measurement: str) -> float:
    # The number of threads is fixed when numpy is imported, and memory is new only to a new process.
    command = [sys.executable, __file__, measurement]
    return float(subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, check=True).stdout)


def _git(*arguments: str) -> str:
    try:
        answered = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answered.stdout.strip()


if __name__ == "__main__":
    measurements = {"sgemm": sgemm_gflops, "first-touch": first_touch_seconds_per_gb}
    measure = measurements.get(sys.argv[-1])
    print(measure() if measure else json.dumps(asdict(describe_machine()), indent=2))
