"""Tables of text and Parquet files, read with polars into string columns. Strings stay strings, and nothing is lost silently.

polars reads fast but says little about what is wrong where, so on trouble the file is read again, slowly, to find the line.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import polars as pl

from hopwalk.config import ReadSettings
from hopwalk.data.findings import Finding, shorten
from hopwalk.data.source import Source
from hopwalk.errors import DataError

SEPARATORS = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a bar", " ": "a space"}
ROLES = ("head", "relation", "tail")
HEADER_NAMES = {  # whole words only: single letters and e1, e2 are what people call entities in small examples
    "head": {"head", "subject", "source", "from", "lhs", "head_entity", "head_id"},
    "relation": {"relation", "predicate", "property", "edge", "relation_id", "relationship"},
    "tail": {"tail", "object", "target", "to", "rhs", "tail_entity", "tail_id"},
}


@dataclass(frozen=True)
class Layout:
    """How the lines of a text file divide into columns, and which of the columns (counted from 0) are wanted."""

    separator: str
    is_quoted: bool
    num_columns: int
    wanted: tuple[int, ...] = ()
    has_header: bool = False
    skip_lines: int = 0


def read_triples(source: Source, settings: ReadSettings, *, tail_before_relation: bool) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a text file, and what there is to say about it."""
    first_row, layout = find_layout(source, settings)
    if settings.header != "auto":
        has_header = settings.header == "yes"
    elif settings.columns:
        has_header = _names_columns(settings.columns, first_row)
    else:
        has_header = roles_in_header(first_row) is not None
    order = (0, 2, 1) if tail_before_relation else (0, 1, 2)
    wanted = _places(source, settings, first_row if has_header else None, layout, order)
    triples = read_columns(source, replace(layout, wanted=wanted, has_header=has_header))
    triples.columns = list(ROLES)
    notes = []
    if has_header and settings.header == "auto":
        line = shorten(layout.separator.join(first_row))
        note = f"{source.name}: the first line is read as a header ({line})"
        notes.append(Finding("note", "header", note, count=1, remedy="Say --no-header if it is a fact."))
    if triples.is_empty():
        raise DataError("the file holds no facts", path=source.name, remedy="Expected a line per fact: head, relation, tail.")
    return triples, notes


def find_layout(source: Source, settings: ReadSettings) -> tuple[list[str], Layout]:
    """The first row of a text file, and how its lines divide."""
    beginning = source.beginning().removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    lines = [line.removesuffix("\r") for line in beginning.split("\n")]
    num_blank = next((number for number, line in enumerate(lines) if line), None)
    if num_blank is None:
        raise DataError("the file is empty", path=source.name, remedy="Expected a line per fact: head, relation, tail.")
    lines = lines[num_blank:]
    is_quoted = settings.quote == "yes" or (settings.quote == "auto" and source.suffix == ".csv")
    whole_lines = lines[:-1] or lines  # the last one may be cut off
    separator = _unescape(settings.separator) or _guess_separator(whole_lines, source.suffix, is_quoted)
    if len(separator.encode()) != 1 or separator in '"\n\r':
        raise DataError(f"{separator!r} cannot separate columns", path=source.name, remedy="Give one ASCII character.")
    first_row = next(_sample_rows(lines, separator, is_quoted))
    return first_row, Layout(separator, is_quoted, len(first_row), skip_lines=num_blank)


def read_columns(source: Source, layout: Layout) -> pl.DataFrame:
    """The wanted columns of a text file as strings, none of them empty; blank lines are passed over."""
    try:
        table = pl.read_csv(
            source.data(),
            separator=layout.separator,
            quote_char='"' if layout.is_quoted else None,
            has_header=False,
            skip_lines=layout.skip_lines,
            infer_schema=False,
            schema={str(number): pl.String for number in range(layout.num_columns)},
            columns=sorted({*layout.wanted}),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        explain(source, layout, str(error).splitlines()[0])
    table = table.select(pl.col(str(number)).alias(str(place)) for place, number in enumerate(layout.wanted))
    table = table.slice(int(layout.has_header))
    # An empty field is null, but "" in quotes is an empty string. Counting nulls is free, so look closer only where it is needed.
    if layout.is_quoted or any(column.null_count() for column in table):
        num_empty = table.select(pl.any_horizontal(pl.all().is_null() | (pl.all() == "")).sum()).item()
        num_blank = sum(not row for _, row in rows_of(source, layout)) if num_empty else 0
        if num_blank != num_empty:
            explain(source, layout, "some labels are empty")
        table = table.drop_nulls()
    return table


def rows_of(source: Source, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each row, by Python's own means: slow, and only for finding what is wrong. Blank: []."""

    def decoded() -> Iterator[str]:
        for number, line in enumerate(source.lines(), 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"the bytes {error.object[error.start : error.end]!r} are not UTF-8 text",
                    path=source.name,
                    line=number,
                    remedy="Save the file as UTF-8.",
                ) from None
            if number > layout.skip_lines:
                yield text + "\n" if layout.is_quoted else text

    before = layout.skip_lines
    if layout.is_quoted:
        rows = _quoted_rows(source, decoded(), layout)
    else:
        rows = ((number, line.split(layout.separator) if line else []) for number, line in enumerate(decoded(), 1))
    yield from ((before + number, row) for number, row in itertools.islice(rows, int(layout.has_header), None))


def _quoted_rows(source: Source, lines: Iterator[str], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(2**31 - 1)
    reader = csv.reader(lines, delimiter=layout.separator, strict=True)
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise DataError(
            f"the quotes do not match ({error})",
            path=source.name,
            line=layout.skip_lines + reader.line_num,
            remedy='Double a quote inside a quoted field (""), or say --quote no if quotes are part of the labels.',
        ) from None
    finally:
        csv.field_size_limit(limit)


def explain(source: Source, layout: Layout, complaint: str) -> NoReturn:
    """Raise the error that says which line is wrong, and how many more are."""
    wrong: list[tuple[int, str]] = []
    for number, row in rows_of(source, layout):
        text = shorten(repr(layout.separator.join(row)))
        if row and len(row) != layout.num_columns:
            wrong.append((number, f"expected {layout.num_columns} columns as in the first line, found {len(row)}: {text}"))
        elif row and not all(row[place] for place in layout.wanted):
            empty = next(place for place in layout.wanted if not row[place])
            wrong.append((number, f"column {empty + 1} is empty: {text}"))
    if not wrong:
        raise DataError(f"the file cannot be read as a table ({complaint})", path=source.name)
    line, problem = wrong[0]
    more = f" (and {len(wrong) - 1:,} more such lines)" if len(wrong) > 1 else ""
    separator = SEPARATORS.get(layout.separator, repr(layout.separator))
    remedy = f"Columns are separated by {separator} here; mend the line, or say --separator if that is wrong."
    raise DataError(problem + more, path=source.name, line=line, remedy=remedy)


def read_parquet(source: Source, settings: ReadSettings) -> pl.DataFrame:
    """The columns `head`, `relation`, `tail` of a Parquet file as strings."""
    try:
        names = list(pl.read_parquet_schema(source.data() if source.path else io.BytesIO(source.content)))
        layout = Layout(",", False, len(names))
        places = _places(source, settings, names, layout, (0, 1, 2))
        table = pl.read_parquet(source.data(), columns=list(dict.fromkeys(names[place] for place in places)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"this is not a whole Parquet file ({str(error).splitlines()[0]})", path=source.name) from None
    if table.is_empty():
        raise DataError("the file holds no facts", path=source.name)
    for name, dtype in table.schema.items():
        if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum)):
            raise DataError(f"column {name!r} holds {dtype}, not text", path=source.name, remedy="Say --columns.")
    triples = table.select(pl.col(names[place]).cast(pl.String).alias(role) for role, place in zip(ROLES, places, strict=True))
    for role in ROLES:
        empty = triples.select(pl.arg_where(pl.col(role).is_null() | (pl.col(role) == ""))).to_series()
        if len(empty):
            raise DataError(f"row {empty[0] + 1} has no {role} ({len(empty):,} such rows)", path=source.name)
    return triples


def _places(
    source: Source, settings: ReadSettings, header: list[str] | None, layout: Layout, order: tuple[int, int, int]
) -> tuple[int, ...]:
    """In which columns head, relation and tail stand, counted from 0."""
    if settings.columns:
        wanted = [name.strip() for name in settings.columns.split(",")]
        if len(wanted) != 3:
            raise DataError(f"--columns {settings.columns!r} does not name three columns", remedy="For example: --columns 1,3,2")
        return tuple(_place(source, name, header, layout) for name in wanted)
    named = header and roles_in_header(header)
    if named:
        return named
    if layout.num_columns != 3:
        separators = SEPARATORS.get(layout.separator, repr(layout.separator))
        raise DataError(
            f"expected 3 columns (head, relation, tail), found {layout.num_columns} separated by {separators}",
            path=source.name,
            line=1,
            remedy="Say which ones to use, e.g. --columns 1,2,3, or what separates them, e.g. --separator ';'.",
        )
    return order


def _place(source: Source, name: str, header: list[str] | None, layout: Layout) -> int:
    if header and name in header:
        return header.index(name)
    if name.isdecimal() and 1 <= int(name) <= layout.num_columns:
        return int(name) - 1
    known = f"Columns are: {', '.join(map(shorten, header))}." if header else f"There are {layout.num_columns} columns."
    raise DataError(f"there is no column {name!r}", path=source.name, remedy=known)


def roles_in_header(names: list[str]) -> tuple[int, ...] | None:
    """Where head, relation and tail stand, if the names say so without doubt."""
    folded = [name.strip().lower() for name in names]
    places = [[place for place, name in enumerate(folded) if name in HEADER_NAMES[role]] for role in ROLES]
    return tuple(place for (place,) in places) if all(len(found) == 1 for found in places) else None


def _names_columns(columns: str, first_row: list[str]) -> bool:
    wanted = [name.strip() for name in columns.split(",")]
    return all(name in first_row for name in wanted) and not all(name.isdecimal() for name in wanted)


def _guess_separator(lines: list[str], suffix: str, is_quoted: bool) -> str:
    """The usual separator of such files if it gives three columns or more, else the one that suits the first rows best."""
    usual = "," if suffix == ".csv" else "\t"
    order = [usual, *(separator for separator in SEPARATORS if separator != usual)]

    def fit(separator: str) -> tuple[bool, bool, bool]:
        counts = [len(row) for row in itertools.islice(_sample_rows(lines, separator, is_quoted), 50)]
        return (counts[0] >= 3 and separator == usual, {*counts} == {3}, min(counts) >= 3)

    return max(order, key=fit)  # the first of the best: the usual one where none fits


def _sample_rows(lines: list[str], separator: str, is_quoted: bool) -> Iterator[list[str]]:
    rows = csv.reader(lines, delimiter=separator) if is_quoted else (line.split(separator) for line in lines if line)
    return (row for row in rows if row)


def _unescape(separator: str) -> str:
    return {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}.get(separator, separator)
