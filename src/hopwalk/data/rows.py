"""Rows of a text file. `rows_of` defines them in plain Python; polars reads files on which both agree.

polars is about fifteen times faster, but it drops a carriage return at the end of a field, accepts unmatched quotes and a
superfluous separator at the end of the file, and does not say which line is wrong. So it reads only files without these, which is
nearly all of them. Other files are read by `rows_of`, which loses nothing and reports the line of an error.
"""

from __future__ import annotations

import csv
import io
import itertools
import mmap
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hopwalk.data.source import Source
from hopwalk.errors import DataError
from hopwalk.utils.memory import require_memory
from hopwalk.utils.text import counted, shorten

SEPARATORS = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a bar", " ": "a space"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONE_RETURN = "\udc0d"  # stands for a carriage return within a line; no valid text contains it
CHUNK = 500_000  # rows held as Python strings at a time
MEMORY_PER_BYTE = 3  # of a text file that polars reads; measured in docs/benchmarks.md
LONGEST_LINE = 16 * 2**20  # bytes


@dataclass(frozen=True)
class Layout:
    """The layout of a text file: how lines are divided into columns, and which columns (from 0) are read."""

    separator: str
    is_quoted: bool
    num_columns: int = 0
    columns: tuple[int, ...] = ()
    has_header: bool = False
    skip_lines: int = 0


def rows_of(source: Source, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The line number where each row begins, and its fields; blank lines are skipped."""
    lines = _decoded_lines(source, layout.skip_lines)
    if layout.is_quoted:
        rows = _quoted_rows(source, lines, layout)
    else:
        bare = ((number, line.removesuffix("\n").removesuffix("\r")) for number, line in lines)
        rows = ((number, line.split(layout.separator)) for number, line in bare if line)
    return itertools.islice(rows, int(layout.has_header), None)


def read_columns(source: Source, layout: Layout) -> pl.DataFrame:
    """The columns of the layout as strings, none of them empty, named 0, 1, …; a `DataError` has the line of a wrong row."""
    table = _read_with_polars(source, layout) if _is_plain(source, layout) else None
    return _read_row_by_row(source, layout) if table is None else table


def line_of_row(source: Source, layout: Layout, row: int) -> int:
    """The line where a row (counted from 0) of `read_columns` begins."""
    return next(itertools.islice(rows_of(source, layout), row, None))[0]


def _decoded_lines(source: Source, skip_lines: int) -> Iterator[tuple[int, str]]:
    """The number and text of each line, with its line end but without a byte-order mark."""
    with source.open() as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise _long_line(source, number)
            if number <= skip_lines:
                continue
            try:
                yield number, (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"the bytes {error.object[error.start : error.end]!r} are not UTF-8 text",
                    path=source.name,
                    line=number,
                    remedy="Save the file as UTF-8.",
                ) from None


def _quoted_rows(source: Source, lines: Iterable[tuple[int, str]], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Rows of CSV with quotes. A carriage return within a line is part of its field, as in files without quotes."""
    limit = csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader(
        (_hide_lone_returns(line) if "\r" in line else line for _, line in lines), delimiter=layout.separator, strict=True
    )
    begins = layout.skip_lines + 1
    try:
        for row in reader:
            if row:
                yield begins, [field.replace(LONE_RETURN, "\r") for field in row] if LONE_RETURN in "".join(row) else row
            begins = layout.skip_lines + reader.line_num + 1
    except csv.Error as error:
        remedy = 'Double a quote inside a quoted field (""), or set read.quote = "no" if quotes are part of the labels.'
        raise DataError(f"the quotes do not match ({error})", path=source.name, line=begins, remedy=remedy) from None
    finally:
        csv.field_size_limit(limit)


def _hide_lone_returns(line: str) -> str:
    text = line.removesuffix("\n").removesuffix("\r")
    return text.replace("\r", LONE_RETURN) + line[len(text) :]


def _is_plain(source: Source, layout: Layout) -> bool:
    """Whether polars and `rows_of` are sure to read the file alike."""
    with source.open() as file:
        for _ in range(layout.skip_lines):
            file.readline(LONGEST_LINE)
        if layout.skip_lines and file.read(3) == BYTE_ORDER_MARK:
            return False
    if len(layout.separator.encode()) != 1:
        return False
    if source.path is None:
        _refuse_long_lines(source, source.content)
        return _has_only_plain_bytes(source.content, layout)
    if not source.path.stat().st_size:
        return False
    with source.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _refuse_long_lines(source, content)
        return _has_only_plain_bytes(content, layout)


def _refuse_long_lines(source: Source, content: bytes | mmap.mmap) -> None:
    """Raise an error if a line is too long. Only the last line of each stretch of the longest length is looked at."""
    start, size = 0, len(content)
    while size - start > LONGEST_LINE:
        end = content.rfind(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            before = sum(
                content[place : min(place + LONGEST_LINE, start)].count(b"\n") for place in range(0, start, LONGEST_LINE)
            )
            raise _long_line(source, before + 1)
        start = end + 1


def _long_line(source: Source, number: int) -> DataError:
    problem = f"the line is longer than {LONGEST_LINE // 2**20} MB, the most that a line may have"
    return DataError(problem, path=source.name, line=number, remedy="Check that the file is text with a fact on each line.")


def _has_only_plain_bytes(content: bytes | mmap.mmap, layout: Layout) -> bool:
    """Whether every carriage return is part of a line end, and no quotes matter."""
    if layout.is_quoted and content.find(b'"') >= 0:
        return False
    return content.find(b"\r") < 0 or re.search(rb"\r(?!\n|\Z)", content) is None


def _read_with_polars(source: Source, layout: Layout) -> pl.DataFrame | None:
    """The columns of the layout, or None if polars rejects the file or a field is missing."""
    size = len(source.content) if source.path is None else source.path.stat().st_size
    require_memory(MEMORY_PER_BYTE * size, "reading the facts", path=source.name)  # polars ends the process when it gets none
    try:
        table = pl.read_csv(
            _with_last_line_end(source),
            separator=layout.separator,
            quote_char=None,
            has_header=False,
            skip_lines=layout.skip_lines,
            infer_schema=False,
            schema={str(number): pl.String for number in range(layout.num_columns)},
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    # A null is an empty or missing field, also in columns that are not read: `rows_of` finds which.
    if any(column.null_count() for column in table):
        return None
    columns = table.select(pl.col(str(number)).alias(str(place)) for place, number in enumerate(layout.columns))
    return columns.slice(int(layout.has_header))


def _with_last_line_end(source: Source) -> Path | bytes:
    """The input for polars, with a line end at the end: without, it would accept a superfluous separator there."""
    with source.open() as file:
        file.seek(-1, io.SEEK_END)
        has_line_end = file.read() == b"\n"
    data = source.data()
    if has_line_end:
        return data
    return (data if isinstance(data, bytes) else data.read_bytes()) + b"\n"


def _read_row_by_row(source: Source, layout: Layout) -> pl.DataFrame:
    names = [str(place) for place in range(len(layout.columns))]
    chunks = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    rows = rows_of(source, layout)
    while True:
        columns: list[list[str]] = [[] for _ in layout.columns]
        for _, row in itertools.islice(rows, CHUNK):
            if len(row) != layout.num_columns:
                raise _first_problem(source, layout)
            for column, place in zip(columns, layout.columns, strict=True):
                column.append(row[place])
        if any("" in column for column in columns):
            raise _first_problem(source, layout)
        chunks.append(pl.DataFrame([pl.Series(name, column, pl.String) for name, column in zip(names, columns, strict=True)]))
        if len(columns[0]) < CHUNK:
            return pl.concat(chunks)


def _first_problem(source: Source, layout: Layout) -> DataError:
    """The error for the first wrong row, with the number of others."""
    wrong = (
        (line, row)
        for line, row in rows_of(source, layout)
        if len(row) != layout.num_columns or not all(row[place] for place in layout.columns)
    )
    problem = _problem(source, layout, *next(wrong))
    num_more = sum(1 for _ in wrong)
    if num_more:
        problem.problem += f" (and {counted(num_more, 'more such line')})"
    return problem


def _problem(source: Source, layout: Layout, line: int, row: list[str]) -> DataError:
    text = shorten(repr(layout.separator.join(row)))
    if len(row) != layout.num_columns:
        problem = f"expected {layout.num_columns} columns, found {len(row)}: {text}"
    else:
        empty = next(place for place in layout.columns if not row[place])
        problem = f"column {empty + 1} is empty: {text}"
    separator = SEPARATORS.get(layout.separator, repr(layout.separator))
    remedy = f"Columns are separated by {separator} here. Correct the line, or set read.separator if that is wrong."
    return DataError(problem, path=source.name, line=line, remedy=remedy)
