"""The course of training for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hopwalk.errors import MissingExtraError


class TensorBoard:
    """A watcher that writes what goes into the history to a folder that TensorBoard can show."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "--tensorboard") from None
        self._open: Callable[[], Any] = lambda: SummaryWriter(folder)
        self._writer: Any = None  # opened when there is something to write: it makes the folder

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Nothing: one point per evaluation is enough."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of an epoch."""
        self._writer = self._writer or self._open()
        for name, value in record.items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()
