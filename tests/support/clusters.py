"""A Ray cluster of two nodes on this machine, and pieces of work for it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hopwalk.errors import DataError
from hopwalk.utils.places import Report
from hopwalk.utils.ray_place import LOOPBACK_ONLY

os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    LOOPBACK_ONLY: "0",
}  # read by its import

MEMORY = 80 * 2**20  # of the object store of a node


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes with one CPU each, on the loopback address alone, without a dashboard."""
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY, "node_ip_address": "127.0.0.1"}
    cluster: Any = Cluster(initialize_head=True, head_node_args=options)
    add_node(cluster)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any) -> Any:
    """Another node with one CPU."""
    return cluster.add_node(num_cpus=1, object_store_memory=MEMORY, node_ip_address="127.0.0.1")


class Killer:
    """Kills the second node of a cluster, once."""

    def __init__(self, cluster: Any) -> None:
        self._cluster, self.was_used = cluster, False

    def __call__(self) -> None:
        """Kill it as a power failure would."""
        if not self.was_used:
            self.was_used = True
            (node,) = self._cluster.worker_nodes
            self._cluster.remove_node(node, allow_graceful=False)


def make_squares() -> Callable[[int, Report], int]:
    """Work on numbers: squares, slowly; 13 and 14 fail, and 99 never ends by itself."""

    def square(number: int, report: Report) -> int:
        if number == 13:
            raise DataError("no thirteens", path="numbers.txt", line=13, remedy="Take another.")
        if number == 14:
            raise ZeroDivisionError("fourteen")
        deadline = time.monotonic() + (60 if number == 99 else 0.1)
        while time.monotonic() < deadline:
            if report(number):
                return -number
            time.sleep(0.02)
        return number * number

    return square


def make_nothing() -> Any:
    """Work that cannot be loaded."""
    raise DataError("there is nothing to load")


def note(folder: Path) -> Callable[[], Callable[[int, Report], int]]:
    """Work that leaves a file when it begins, and takes its time."""

    def make() -> Callable[[int, Report], int]:
        def work(number: int, report: Report) -> int:
            (folder / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
            time.sleep(0.6)
            return number

        return work

    return make
