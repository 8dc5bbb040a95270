"""Training of propagation on several processes of a Ray cluster: this one, and an actor for each of the others.

They are plain actors: Ray Train would bring its own loop, checkpoints, storage and dependencies (pandas, pyarrow), and hopwalk
has a loop and run folders that resume to the same bits. What remains of it here is to start processes and to watch them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import ClusterError, ProcessLostError, SettingsError
from hopwalk.learning.processes import (
    SECONDS_TO_MEET,
    Gather,
    Processes,
    alone,
    free_port,
    gathered_by_torchrun,
    meeting,
    started_by_torchrun,
)
from hopwalk.learning.run import Run
from hopwalk.scorers.runs import train_beside, train_into
from hopwalk.utils.places import Here, Place
from hopwalk.utils.ray_place import MOST_ATTEMPTS, RayPlace


class _Helper:
    """An actor that trains beside process 0."""

    def start(self) -> None:
        """Nothing: it has started."""

    def train(self, address: str, rank: int, count: int) -> None:
        """Meet the others, and train as process 0 does."""
        with suppress(ClusterError), meeting(address, rank, count) as processes:  # process 0 tells the user
            train_beside(processes)


def gatherer(place: Place, count: int | None = None) -> Gather:
    """What gathers so many processes at a place, this one included; by default one for every CPU of it."""
    if started_by_torchrun():
        return gathered_by_torchrun
    if not isinstance(place, RayPlace):
        if (count or 1) > 1:
            remedy = "Work on Ray, or start hopwalk with torchrun."
            raise SettingsError("training on several processes needs a cluster", remedy=remedy)
        return alone
    wanted = count or max(place.num_slots, 1)
    if wanted - 1 > place.num_slots:
        problem = f"{wanted} processes need {wanted - 1} CPUs beside this process, and the cluster has {place.num_slots}"
        raise ClusterError(problem, remedy="Take fewer processes, or add nodes.")
    return alone if wanted == 1 else lambda: _gathered(place, wanted)


@contextmanager
def _gathered(place: RayPlace, count: int) -> Iterator[Processes]:
    ray: Any = place.ray
    host = ray.util.get_node_ip_address()
    address = f"{host}:{free_port(host)}"
    helpers = [ray.remote(_Helper).options(num_cpus=1).remote() for _ in range(count - 1)]
    try:
        try:
            ray.get([helper.start.remote() for helper in helpers], timeout=SECONDS_TO_MEET)
        except ray.exceptions.RayError as error:
            problem = str(error).strip().splitlines()[-1] or type(error).__name__
            remedy = "Every node needs this Python with hopwalk and Ray in the same versions, and a free CPU."
            raise ClusterError(f"no process starts on the cluster ({problem})", remedy=remedy) from None
        for rank, helper in enumerate(helpers, start=1):
            helper.train.remote(address, rank, count)
        with meeting(address, 0, count) as processes:
            yield processes
    finally:
        for helper in helpers:
            with suppress(Exception):  # it may be gone with its node
                ray.kill(helper)


def train_at(
    place: Place | None, count: int | None, path: Path, dataset: Dataset, settings: Settings, *, resume: bool, **options: Any
) -> Run:
    """Train into a run folder with the processes of a place; if one is lost, again from the last checkpoint."""
    attempts = 0
    while True:
        try:
            gather = gatherer(place or Here(), count)
            return train_into(path, dataset, settings, resume=resume or attempts > 0, gather=gather, **options)[0]
        except ProcessLostError:
            attempts += 1
            if attempts == MOST_ATTEMPTS:
                raise
