"""What the command line prints. Labels of the data are shown as they are: never as markup, never as control codes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from hopwalk.errors import HopwalkError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from hopwalk.data.download import ProgressBar
    from hopwalk.data.findings import Finding


SECONDS_BEFORE_A_BAR = 1.0


@cache
def console(*, to_stderr: bool = False) -> Console:
    """The terminal."""
    from rich.console import Console

    return Console(stderr=to_stderr, markup=False, highlight=False, soft_wrap=True)


def print_text(text: str, *, to_stderr: bool = False) -> None:
    """Plain text."""
    print(text, file=sys.stderr if to_stderr else sys.stdout)


def print_json(value: Any) -> None:
    """JSON for machines."""
    print_text(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """JSON on one line, for streams of it."""
    print_text(json.dumps(value, ensure_ascii=False))


def print_finding(finding: Finding) -> None:
    """What is worth knowing about a file, in one line beside the output."""
    print_text(printable(f"{finding.level}: {finding.message}"), to_stderr=True)


def print_error(error: HopwalkError) -> None:
    """What went wrong, where, and what to do."""
    from rich.text import Text

    where = f"{error.where}: " if error.where else ""
    console(to_stderr=True).print(Text.assemble(("error: ", "bold red"), printable(f"{where}{error.problem}")))
    if error.remedy:
        console(to_stderr=True).print(printable(f"  {error.remedy}"))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
    """A readable table; numbers stand to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    if title:
        console().print(Text(printable(title), style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[number], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value), style=_STYLES.get(str(value), "")) for value in row))
    console().print(table, soft_wrap=False)


_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def printable(text: str) -> str:
    """The text with characters that could steer a terminal made visible."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


class CountBar:
    """A bar with the time left; not before there is something to show for a second, for an error or the end may come first."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn(compact=True), TextColumn("left")
        self._bar = Progress(*columns, console=console(to_stderr=True))
        self._task = self._bar.add_task("…", total=None)
        self._begun, self._done = time.monotonic(), 0

    def __enter__(self) -> CountBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def show(self, done: int, total: int, text: str) -> None:
        """So much is done; less than before, if something else is counted now."""
        if done < self._done:
            self._bar.reset(self._task)
        self._done = done
        self._bar.update(self._task, completed=done, total=total, description=text)
        if time.monotonic() - self._begun > SECONDS_BEFORE_A_BAR:
            self._bar.start()


@contextmanager
def ranking_bar() -> Iterator[None]:
    """A bar for whatever is ranked within the block."""
    from hopwalk.learning.ranking import watched

    with CountBar() as bar, watched(lambda done, total: bar.show(done, total, f"{done:,} of {total:,} questions ranked")):
        yield


class DownloadBar:
    """A progress bar with the time left, in the form pooch asks for."""

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
        """How many bytes will come."""
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.update(self._task, total=value or None)
        self._progress.start()

    def update(self, n: int) -> None:
        """`n` more bytes have come."""
        self._progress.update(self._task, advance=n)

    def reset(self) -> None:
        """Go back to the beginning."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """The download is over."""
        self._progress.stop()


def download_bar(name: str) -> ProgressBar:
    """A progress bar for the download of a file."""
    return DownloadBar(name)
