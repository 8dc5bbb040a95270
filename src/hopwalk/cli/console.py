"""Output of the command line. Labels of the data are printed as they are: never as markup, never as control codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from hopwalk.errors import HopwalkError, WorkError
from hopwalk.utils.text import json_text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from hopwalk.data.findings import Finding


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
    print_text(json_text(value, indent=2))


def print_json_line(value: Any) -> None:
    """JSON on one line, for streams of it."""
    print_text(json_text(value))


# The library names settings and actions; the command line adds the options that stand for them.
_OPTIONS = {
    r'\bread\.header = "yes"': r"\g<0> (--header)",
    r'\bread\.header = "no"': r"\g<0> (--no-header)",
    r"\bread\.(columns|separator|quote|format|labels|query)\b": r"read.\1 (--\1)",
    r"\b[Rr]esume (it|its training)\b": r"\g<0> (--resume)",
    r"\bappend to it or replace it\b": r"\g<0> (--append, --replace)",
    r"\bexport it then\b": r"\g<0> (hopwalk export)",
    r"\bchoose another folder\b": r"\g<0> (--out)",
    r"\ba mirror folder\b": r"\g<0> (--mirror)",
    r"\bto start from\b": r"\g<0> (--start)",
    r"\banother file for the study\b": r"\g<0> (--study)",
    r"\bthe plan\b": r"\g<0> (--plan)",
    r"\baccept it\b": r"\g<0> (hopwalk accept RUN)",
}


def with_options(text: str) -> str:
    """The text of a library error, with the command-line options that do what it advises.

    >>> with_options("Resume it, or choose another folder.")
    'Resume it (--resume), or choose another folder (--out).'
    """
    for pattern, replacement in _OPTIONS.items():
        text = re.sub(pattern, replacement, text, flags=re.IGNORECASE)
    return text


def print_finding(finding: Finding) -> None:
    """A finding in one line on standard error."""
    print_text(printable(f"{finding.level}: {finding.message}"), to_stderr=True)


def note_missing_digests(*runs: Path) -> None:
    """A note on standard error for each run folder, of an older version, that does not state the digests of its files."""
    from hopwalk.learning.run import Run

    for run in runs:
        if (run / "run.json").exists() and not Run(run).states_digests:
            message = f"note: {run} has no digests, so changes of its files go unnoticed; `hopwalk accept` adds them"
            print_text(printable(message), to_stderr=True)


def print_error(error: HopwalkError) -> None:
    """What went wrong, where, and what to do."""
    from rich.text import Text

    where = f"{error.where}: " if error.where else ""
    console(to_stderr=True).print(Text.assemble(("error: ", "bold red"), printable(f"{where}{error.problem}")))
    if error.remedy:
        console(to_stderr=True).print(printable(f"  {with_options(error.remedy)}"))
    if isinstance(error, WorkError):
        print_text(printable(error.traceback), to_stderr=True)


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
