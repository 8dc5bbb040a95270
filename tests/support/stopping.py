"""Watchers that remember a training or end it, and all that it gave, to be compared."""

from collections.abc import Mapping
from typing import Any

from hopwalk.learning.callbacks import Callback, MakeCallbacks
from hopwalk.learning.run import Run


class Recorder:
    """A callback that remembers."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.records: list[Mapping[str, Any]] = []

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        assert batch <= num_batches
        self.batches.append((epoch, batch))

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)


class Stopped(Exception):  # noqa: N818
    """As if the power had gone."""


class StopAt(Recorder):
    """A callback that ends training at a batch of an epoch, or at its evaluation (batch 0)."""

    def __init__(self, epoch: int, batch: int, error: type[BaseException] = Stopped) -> None:
        super().__init__()
        self._place, self._error = (epoch, batch), error

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        super().on_batch(epoch, batch, num_batches, values)
        if (epoch, batch) == self._place:
            raise self._error

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        super().on_evaluation(record)
        if (record["epoch"], 0) == self._place:
            raise self._error


def watching(kind: str, *callbacks: Callback) -> MakeCallbacks:
    """The callbacks of the training of the scorer, or of that of the walker."""
    return lambda plan: callbacks if plan.kind == kind else ()


def result_of(run: Run) -> tuple[bytes, list[dict[str, Any]], dict[str, Any]]:
    """All that training gives, but for the time and memory it took."""
    history = [{name: value for name, value in record.items() if "seconds" not in name} for record in run.history]
    about = {name: value for name, value in run.about.items() if name not in ("seconds", "peak_memory_bytes")}
    return run.weights_path.read_bytes(), history, about


def results_of(run: Run) -> list[Any]:
    """All that training gives: of the walker, and of its scorer if it has one."""
    folder = run.path / "scorer"
    return [result_of(run), *([result_of(Run.open(folder))] if folder.exists() else [])]
