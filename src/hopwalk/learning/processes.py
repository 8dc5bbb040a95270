"""Processes that train one model together, each on its part of every batch; they add up gradients over gloo.

Process 0 has the run folder. It sends the folder's files to the others when training begins, so they need no data of their own.
All make the same steps with the same sums, and so have the same parameters.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from hopwalk.errors import ClusterError, ProcessLostError, SettingsError
from hopwalk.utils.packing import Packed

SECONDS_TO_MEET = 120.0  # for all processes to be there
SECONDS_TO_ANSWER = 1800.0  # that a process may be busy while others wait for it, as at the end of an evaluation
LOST = "Resume its training, with as many processes as there are now."


class Processes:
    """This process, number `rank` of `count`. Alone, it shares with nobody."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    def share_of(self, number: int) -> slice:
        """The part of so many things that is this process's: parts differ by one at most.

        >>> [Processes(rank, 3).share_of(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        """
        return slice(number * self.rank // self.count, number * (self.rank + 1) // self.count)

    def require_parts(self, batch_size: int) -> None:
        """An error if there are more processes than queries in a batch."""
        if self.count > batch_size:
            problem = f"a batch of {batch_size} queries cannot be shared by {self.count} processes"
            raise SettingsError(problem, remedy="Take fewer processes, or set a larger propagation.batch_size.")

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes; one message for all of them."""
        if self.count == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _lost_if_it_fails():
            dist.all_reduce(flat)
        self._put(flat, tensors)

    def adopt(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by that of process 0."""
        if self.count == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _lost_if_it_fails():
            dist.broadcast(flat, src=0)
        self._put(flat, tensors)

    def send(self, files: Packed | None) -> Packed | None:
        """The files that process 0 gives; None if there is nothing to do."""
        if self.count == 1:
            return files
        sent = [files]
        with _lost_if_it_fails():
            dist.broadcast_object_list(sent, src=0)
        return sent[0]

    @staticmethod
    @torch.no_grad()
    def _put(flat: Tensor, tensors: Sequence[Tensor]) -> None:
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))


ALONE = Processes()
Gather = Callable[[], AbstractContextManager[Processes]]


@contextmanager
def _lost_if_it_fails() -> Iterator[None]:
    """Gloo has one kind of error, for a process that ended, a broken connection, and a wait that was too long."""
    try:
        yield
    except RuntimeError as error:
        problem = str(error).strip().splitlines()[0]
        raise ProcessLostError(f"a process of the training was lost ({problem})", remedy=LOST) from None


@contextmanager
def alone() -> Iterator[Processes]:
    """This process alone."""
    yield ALONE


@contextmanager
def meeting(address: str, rank: int, count: int) -> Iterator[Processes]:
    """The processes that meet at HOST:PORT, which process 0 opens."""
    if address.startswith("127."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback_interface())
    try:
        store_seconds = timedelta(seconds=SECONDS_TO_MEET)
        host, _, port = address.rpartition(":")
        store = dist.TCPStore(  # type: ignore[attr-defined]
            host, int(port), count, is_master=rank == 0, timeout=store_seconds, wait_for_workers=False
        )
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=SECONDS_TO_ANSWER))
    except (RuntimeError, ValueError) as error:
        problem = str(error).strip().splitlines()[0]
        remedy = "See whether the nodes reach each other."
        raise ClusterError(f"the processes do not meet at {address} ({problem})", remedy=remedy) from None
    try:
        yield Processes(rank, count)
    finally:
        with suppress(Exception):  # the others may be gone
            dist.destroy_process_group()


def started_by_torchrun(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether torchrun started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in environment and int(environment.get("WORLD_SIZE", "1")) > 1


@contextmanager
def gathered_by_torchrun() -> Iterator[Processes]:
    """The processes that torchrun started."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if os.environ.get("MASTER_ADDR", "").startswith(("127.", "localhost")):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback_interface())
    dist.init_process_group("gloo", timeout=timedelta(seconds=SECONDS_TO_ANSWER))
    try:
        yield Processes(rank, count)
    finally:
        with suppress(Exception):
            dist.destroy_process_group()


def _loopback_interface() -> str:
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    return next((name for name in names if name.startswith("lo")), "lo")


def free_port(host: str) -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
