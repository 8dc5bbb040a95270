"""The course of training for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._writer: Any = SummaryWriter(folder)

    def on_batch(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Nothing: one point per evaluation is enough."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of an epoch."""
        for name, value in record.items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()
