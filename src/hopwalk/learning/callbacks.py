"""Callbacks of training: the interface, and TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hopwalk.errors import MissingPackageError


class Callback(Protocol):
    """Called during training; progress bars, logs and tests implement it."""

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """A batch is done; epoch and batch are counted from 1. `values` has its loss and other numbers to show."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """An epoch was evaluated; the record is the new line of the history."""


@dataclass(frozen=True)
class Forecast:
    """The memory of a batch, the queries computed at once, and the seconds of an epoch, all approximate."""

    memory_bytes: int
    queries_at_once: int
    seconds_of_epoch: float


@dataclass(frozen=True)
class TrainingPlan:
    """The training that is about to begin: its kind, its epochs at most, a forecast if there is one.

    The kind is "propagation", "scorer" or "walker". `unit` is what an epoch is called: propagation has parts of its queries.
    """

    kind: str
    epochs: int
    forecast: Forecast | None = None
    unit: str = "epoch"


MakeCallbacks = Callable[[TrainingPlan], Sequence[Callback]]


def no_callbacks(plan: TrainingPlan) -> Sequence[Callback]:
    """No callbacks for any training."""
    return ()


class TensorBoard:
    """A callback that writes the history to a folder that TensorBoard can show."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise MissingPackageError("tensorboard", "writing for TensorBoard") from None
        self._open: Callable[[], Any] = lambda: SummaryWriter(folder)
        self._writer: Any = None  # opened with the first value, as that creates the folder

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Do nothing: one point per evaluation is enough."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Write the values of an epoch."""
        self._writer = self._writer or self._open()
        for name, value in record.items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()
