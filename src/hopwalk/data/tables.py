"""Tables of facts: finds out how a text file is laid out and which columns hold head, relation and tail; reads Parquet too."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data.findings import Finding
from hopwalk.data.rows import SEPARATORS, Layout, read_columns, rows_of
from hopwalk.data.source import Source
from hopwalk.errors import DataError
from hopwalk.utils.text import counted, shorten

ROLES = ("head", "relation", "tail")
HEADER_NAMES = {  # whole words only: single letters and e1, e2 are what people call entities in small examples
    "head": {"head", "subject", "source", "from", "src", "lhs", "head_entity", "head_id"},
    "relation": {"relation", "predicate", "property", "edge", "type", "rel", "relation_id", "relationship"},
    "tail": {"tail", "object", "target", "to", "dst", "rhs", "tail_entity", "tail_id"},
}
SEPARATOR_NAMES = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
EXPECTED = "Expected a line per fact: head, relation, tail."


def read_triples(source: Source, settings: ReadSettings, *, tail_before_relation: bool) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a text file, and what there is to say about it."""
    (line, first_row), layout = find_layout(source, settings)
    names_columns = roles_in_header(first_row) is not None or _names_columns(settings.columns, first_row)
    has_header = settings.header == "yes" or (settings.header == "auto" and names_columns)
    wanted = _places(source, settings, first_row if has_header else None, len(first_row))
    if wanted is None and len(first_row) != 3:
        raise DataError(
            f"expected 3 columns (head, relation, tail), found {len(first_row)} separated by {_name(layout.separator)}",
            path=source.name,
            line=line,
            remedy="Say which ones to use, e.g. --columns 1,2,3, or what separates them, e.g. --separator ';'.",
        )
    usual = (0, 2, 1) if tail_before_relation else (0, 1, 2)
    triples = read_columns(source, replace(layout, wanted=wanted or usual, has_header=has_header))
    triples.columns = list(ROLES)
    if triples.is_empty():
        raise DataError("the file holds no facts", path=source.name, remedy=EXPECTED)
    if not has_header:
        return triples, _doubtful_first_line(source, triples) if settings.header == "auto" else []
    if settings.header == "yes":
        return triples, []
    note = f"{source.name}: the first line is read as a header ({shorten(layout.separator.join(first_row))})"
    return triples, [Finding("note", "header", note, count=1, remedy="Say --no-header if it is a fact.")]


def _doubtful_first_line(source: Source, triples: pl.DataFrame) -> list[Finding]:
    """A warning if nothing in the first line occurs again: it may be a header we do not know."""
    head, relation, tail = triples.row(0)
    ends = (triples.get_column("head"), triples.get_column("tail"))
    occurrences = [sum(int((column == label).sum()) for column in ends) for label in (head, tail)]
    if len(triples) < 3 or max(occurrences) > 1 or (triples.get_column("relation") == relation).sum() > 1:
        return []
    line = shorten(" ".join(triples.row(0)))
    message = f"{source.name}: the first line may be a header, as nothing of it occurs again ({line})"
    return [Finding("warning", "doubtful-first-line", message, 1, remedy="Say --header if it is one, or --no-header if not.")]


def find_layout(source: Source, settings: ReadSettings) -> tuple[tuple[int, list[str]], Layout]:
    """The line and the fields of the first row of a text file, and how its lines divide."""
    said = SEPARATOR_NAMES.get(settings.separator, settings.separator)
    is_quoted = settings.quote == "yes" or (settings.quote == "auto" and source.suffix == ".csv")
    if any(char in said for char in '"\n\r') or (is_quoted and len(said) > 1):
        problem = f"{shorten(said)!r} cannot separate columns"
        raise DataError(problem, path=source.name, remedy="Give one character, or say --quote no and give any text.")
    layout = Layout(said or _guess_separator(source, is_quoted), is_quoted)
    first = next(rows_of(source, layout), None)
    if first is None:
        raise DataError("the file is empty", path=source.name, remedy=EXPECTED)
    return first, replace(layout, num_columns=len(first[1]))


def read_parquet(source: Source, settings: ReadSettings) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a Parquet file as strings, and what there is to say about it."""
    try:
        names = list(pl.read_parquet_schema(source.path or io.BytesIO(source.content)))
        places = _places(source, settings, names, len(names))
        if places is None and len(names) != 3:
            listed = ", ".join(map(shorten, names))
            remedy = f"Say which ones to use with --columns. There are: {listed}."
            raise DataError(f"expected 3 columns (head, relation, tail), found {len(names)}", path=source.name, remedy=remedy)
        columns = [names[place] for place in places or (0, 1, 2)]
        table = pl.read_parquet(source.data(), columns=list(dict.fromkeys(columns)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"this is not a whole Parquet file ({str(error).splitlines()[0]})", path=source.name) from None
    if table.is_empty():
        raise DataError("the file holds no facts", path=source.name)
    for name, dtype in table.schema.items():
        if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum)):
            raise DataError(f"column {name!r} holds {dtype}, not text", path=source.name, remedy="Say --columns.")
    triples = table.select(pl.col(name).cast(pl.String).alias(role) for role, name in zip(ROLES, columns, strict=True))
    for role in ROLES:
        empty = triples.select(pl.arg_where(pl.col(role).is_null() | (pl.col(role) == ""))).to_series()
        if len(empty):
            rows = counted(len(empty), "such row")
            raise DataError(f"row {empty[0] + 1} has no {role} ({rows})", path=source.name)
    if places is not None:
        return triples, []
    message = f"{source.name}: the columns {', '.join(columns)} are taken for head, relation and tail"
    return triples, [Finding("warning", "guessed-columns", message, 1, remedy="Say --columns if that is wrong.")]


def roles_in_header(names: list[str]) -> tuple[int, ...] | None:
    """Where head, relation and tail stand, if the names say so without doubt."""
    folded = [name.strip().lower() for name in names]
    places = [[place for place, name in enumerate(folded) if name in HEADER_NAMES[role]] for role in ROLES]
    return tuple(place for (place,) in places) if all(len(found) == 1 for found in places) else None


def _places(source: Source, settings: ReadSettings, header: list[str] | None, num_columns: int) -> tuple[int, ...] | None:
    """In which columns head, relation and tail stand, counted from 0, if the settings or the header say so."""
    if not settings.columns:
        return roles_in_header(header) if header else None
    wanted = [name.strip() for name in settings.columns.split(",")]
    if len(wanted) != 3:
        remedy = "For example: --columns 1,3,2"
        raise DataError(f"{shorten(settings.columns)!r} does not name three columns", path=source.name, remedy=remedy)
    return tuple(_place(source, name, header, num_columns) for name in wanted)


def _place(source: Source, name: str, header: list[str] | None, num_columns: int) -> int:
    if header and name in header:
        return header.index(name)
    if name.isdecimal() and len(name) < 10 and 1 <= int(name) <= num_columns:
        return int(name) - 1
    known = f"Columns are: {', '.join(map(shorten, header))}." if header else f"There are {num_columns} columns."
    raise DataError(f"there is no column {shorten(name)!r}", path=source.name, remedy=known)


def _names_columns(columns: str, first_row: list[str]) -> bool:
    wanted = [name.strip() for name in columns.split(",")]
    return any(name in first_row and not name.isdecimal() for name in wanted if name)


def _guess_separator(source: Source, is_quoted: bool) -> str:
    """The usual separator of such files if it gives three columns or more, else the one that suits the first rows best."""
    usual = "," if source.suffix == ".csv" else "\t"

    def fit(separator: str) -> tuple[bool, bool, bool]:
        try:
            rows = itertools.islice(rows_of(source, Layout(separator, is_quoted)), 50)
            counts = [len(row) for _, row in rows] or [0]
        except DataError:  # quotes that do not match with this separator, or bytes that are not text with any
            return (False, False, False)
        return (counts[0] >= 3 and separator == usual, {*counts} == {3}, min(counts) >= 3)

    # The first of the best: the usual one where none fits.
    return max([usual, *(separator for separator in SEPARATORS if separator != usual)], key=fit)


def _name(separator: str) -> str:
    return SEPARATORS.get(separator, repr(separator))
