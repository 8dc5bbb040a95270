"""The machine behind a measurement: processor, memory, versions and source. Nothing that identifies its owner."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter

from hopwalk.paper.source import describe_source

PROJECT = Path(__file__).parent.parent
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")


@dataclass(frozen=True)
class Machine:
    """The machine, the libraries and the source behind a measurement.

    `first_touch_seconds_per_gb` is the cost of memory that no process has used of late: high on a virtual machine that gives free
    memory back to its host. `source_sha256` is the hash of the package's Python files: it identifies the code where the commit
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
    """The machine this runs on, now; measuring its matrix product takes a few seconds."""
    source = describe_source()
    return Machine(
        load_average=round(os.getloadavg()[0], 2),  # before the measurements below add to it
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        sgemm_gflops=round(_in_process_with_one_thread("sgemm"), 1),
        sgemm_threads=1,
        first_touch_seconds_per_gb=round(_in_process_with_one_thread("first-touch"), 2),
        system=f"{platform.system()} {platform.machine()}",
        **{field.name: source[field.name] for field in fields(Machine) if field.name in source},
    )


def sgemm_gflops(size: int = 2048, seconds: float = 1.0) -> float:
    """Billions of float32 operations a second of numpy's matrix product, the best of the repetitions."""
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
    """The seconds it takes to write 10⁹ bytes of new memory for the first time."""
    import numpy as np

    start = perf_counter()
    np.ones(10**9, dtype=np.uint8)
    return perf_counter() - start


def _in_process_with_one_thread(measurement: str) -> float:
    # The number of threads is fixed when numpy is imported, and memory is new only to a new process.
    command = [sys.executable, __file__, measurement]
    return float(subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    measurements = {"sgemm": sgemm_gflops, "first-touch": first_touch_seconds_per_gb}
    measure = measurements.get(sys.argv[-1])
    print(measure() if measure else json.dumps(asdict(describe_machine()), indent=2))
