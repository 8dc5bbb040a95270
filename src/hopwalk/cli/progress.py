"""Progress of long work on standard error: bars with the time left in a terminal, a line per epoch or step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hopwalk.cli.console import console, print_text
from hopwalk.utils.text import duration

if TYPE_CHECKING:
    from rich.progress import Progress

    from hopwalk.data.download import ProgressBar
    from hopwalk.learning.callbacks import Callback, TrainingPlan

SECONDS_BEFORE_A_BAR = 1.0
SECONDS_BETWEEN_LINES = 10.0
FIXED_WIDTH = 46  # columns of a training bar without its values


def _is_terminal() -> bool:
    return console(to_stderr=True).is_terminal


class TrainingProgress:
    """The progress of several trainings, one after the other: a bar for each in a terminal, a line per evaluation elsewhere."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        # Dev MRR and the time left come first: they must be seen at 80 columns.
        self._bars = Progress(
            TextColumn("{task.description} {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=8),
            TextColumn("dev {task.fields[mrr]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[values]}"),
            console=console(to_stderr=True),
        )

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def clear(self) -> None:
        """Remove all bars, before something unrelated to them begins."""
        for task in self._bars.task_ids:
            self._bars.remove_task(task)

    def callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """A callback that shows the progress of a training."""
        if plan.forecast is not None and plan.epochs:
            print_text(_forecast_text(plan), to_stderr=True)
        return [TrainingBar(self._bars, plan) if _is_terminal() else TrainingLines(plan)]


def _forecast_text(plan: TrainingPlan) -> str:
    assert plan.forecast is not None
    memory, seconds = plan.forecast.memory_bytes, plan.forecast.seconds_of_epoch
    epochs = f"each of at most {plan.epochs} {plan.unit}s" if plan.epochs > 1 else f"one {plan.unit}"
    name = plan.kind.capitalize() if plan.unit == "part" else f"The {plan.kind}"
    return f"{name} needs about {memory / 2**20:,.0f} MB, and {duration(seconds)} for {epochs}, evaluation on dev aside."


def _shown_values(values: Mapping[str, float]) -> list[str]:
    names = [name for name in ("reward", "entropy", "hits") if name in values] or ["loss"]
    return [f"{name} {values[name]:.3g}" for name in names]


class TrainingBar:
    """The bar of a training in a terminal."""

    def __init__(self, bars: Progress, plan: TrainingPlan) -> None:
        self._bars, self._epochs = bars, plan.epochs
        self._task = bars.add_task(plan.kind, total=None, epoch=0, epochs=plan.epochs, values="", mrr="…", visible=False)
        self._best: float | None = None
        self._last_shown = 0.0

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Advance the bar."""
        now = time.monotonic()
        if now - self._last_shown < 0.1:
            return
        self._last_shown = now
        self._bars.start()  # not before there is something to show: an error may come first
        done, total = (epoch - 1) * num_batches + batch, self._epochs * num_batches
        room, parts = console(to_stderr=True).width - FIXED_WIDTH, _shown_values(values)
        while parts and len(" ".join(parts)) > room:
            parts.pop()
        self._bars.update(self._task, completed=done, total=total, epoch=epoch, values=" ".join(parts), visible=True)

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Show the dev MRR, and the best so far."""
        if "valid_mrr" in record:
            self._best = max(record["valid_mrr"], self._best or 0.0)
            self._bars.update(self._task, mrr=f"{100 * record['valid_mrr']:.1f} best {100 * self._best:.1f}")


class TrainingLines:
    """A line per evaluation, for logs and pipes."""

    def __init__(self, plan: TrainingPlan) -> None:
        self._plan, self._begun, self._first_epoch = plan, time.monotonic(), 0

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Remember where this session began."""
        self._first_epoch = self._first_epoch or epoch

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Print the epoch, its values, the dev MRR and the time left."""
        epoch, epochs = record["epoch"], self._plan.epochs
        parts = _shown_values(record) if "loss" in record else []
        if "valid_mrr" in record:
            parts.append(f"dev MRR {100 * record['valid_mrr']:.2f}")
        done = epoch - self._first_epoch + 1
        if self._first_epoch and epoch < epochs:
            parts.append(f"at most {duration((time.monotonic() - self._begun) / done * (epochs - epoch))} left")
        print_text(f"{self._plan.kind} {self._plan.unit} {epoch}/{epochs}: {', '.join(parts)}", to_stderr=True)


class CountBar:
    """A count with the time left, shown once the work has taken a second: a bar in a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn(compact=True), TextColumn("left")
        self._bar = Progress(*columns, console=console(to_stderr=True))
        self._task = self._bar.add_task("…", total=None)
        self._begun = self._last_line = self._last_shown = time.monotonic()
        self._done = 0

    def __enter__(self) -> CountBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, done: int, total: int, text: str) -> None:
        """So much is done; less than before if something else is counted now."""
        now = time.monotonic()
        if done < self._done:
            self._bar.reset(self._task)
            self._begun = self._last_shown  # the end of what was counted before; the first of the new is not done in no time
        self._done, self._last_shown = done, now
        self._bar.update(self._task, completed=done, total=total, description=text)
        if _is_terminal():
            if now - self._begun > SECONDS_BEFORE_A_BAR:
                self._bar.start()
        elif now - self._last_line > SECONDS_BETWEEN_LINES and 0 < done < total:
            self._last_line = now
            print_text(f"{text}, {duration((now - self._begun) / done * (total - done))} left", to_stderr=True)


@contextmanager
def ranking_progress() -> Iterator[None]:
    """The progress of whatever is ranked within the block."""
    from hopwalk.learning.ranking import report_progress

    with CountBar() as bar, report_progress(lambda done, total: bar.show(done, total, f"{done:,} of {total:,} queries ranked")):
        yield


class DownloadBar:
    """A progress bar with the time left, with the interface that pooch expects."""

    def __init__(self, name: str) -> None:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console(to_stderr=True),
        )
        self._task = self._progress.add_task(name, total=None)
        self._total = 0

    @property
    def total(self) -> int:
        """The size of the download in bytes."""
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.update(self._task, total=value or None)
        self._progress.start()

    def update(self, n: int) -> None:
        """`n` more bytes have arrived."""
        self._progress.update(self._task, advance=n)

    def reset(self) -> None:
        """Start again."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """The download is over."""
        self._progress.stop()


def download_bar(name: str) -> ProgressBar:
    """A progress bar for the download of a file."""
    return DownloadBar(name)
