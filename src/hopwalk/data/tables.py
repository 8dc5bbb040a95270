"""Tables of facts: detects the layout of a text file and the columns of head, relation and tail; reads Parquet too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data import parquet
from hopwalk.data.findings import Finding
from hopwalk.data.rows import SEPARATORS, Layout, read_columns, rows_of
from hopwalk.data.source import Source
from hopwalk.errors import DataError
from hopwalk.utils.text import counted, shorten

ROLES = ("head", "relation", "tail")
HEADER_NAMES = {  # whole words only: single letters and e1, e2 are common names of entities in small examples
    "head": {"head", "subject", "source", "from", "src", "lhs", "head_entity", "head_id"},
    "relation": {"relation", "predicate", "property", "edge", "type", "rel", "relation_id", "relationship"},
    "tail": {"tail", "object", "target", "to", "dst", "rhs", "tail_entity", "tail_id"},
}
FAMILIES = (  # names that belong together; the relation may have another name if only one column can be the relation
    ("head", "relation", "tail"),
    ("head_entity", "relation", "tail_entity"),
    ("head_id", "relation_id", "tail_id"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("from", "relation", "to"),
    ("src", "relation", "dst"),
    ("lhs", "rel", "rhs"),
)
SEPARATOR_NAMES = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
EXPECTED = "Expected a line per fact: head, relation, tail."
Fetch = Callable[[parquet.ChooseColumns], list[tuple[str, pl.DataFrame]]]  # tables with the chosen columns, by name
SET_COLUMNS = 'Set read.columns, e.g. "1,3,2".'


def read_triples(source: Source, settings: ReadSettings, *, tail_before_relation: bool) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a text file, and findings."""
    (line, first_row), layout = find_layout(source, settings)
    names_columns = _names_all_roles(first_row) or _names_columns(settings.columns, first_row)
    has_header = settings.header == "yes" or (settings.header == "auto" and names_columns)
    header = first_row if has_header else None
    places = _places(source, settings, header, len(first_row), line)
    if places is None and len(first_row) != 3:
        raise DataError(
            f"expected 3 columns (head, relation, tail), found {len(first_row)} separated by {_name(layout.separator)}",
            path=source.name,
            line=line,
            remedy='Set read.columns, e.g. "1,2,3", or read.separator, e.g. ";".',
        )
    default = (0, 2, 1) if tail_before_relation else (0, 1, 2)
    triples = read_columns(source, replace(layout, columns=places or default, has_header=has_header))
    triples.columns = list(ROLES)
    if triples.is_empty():
        raise DataError("the file has no facts", path=source.name, remedy=EXPECTED)
    if header is None:
        return triples, _doubtful_first_line(source, triples) if settings.header == "auto" else []
    findings = _chosen_columns(source, settings, header)
    if settings.header == "auto":
        note = f"{source.name}: the first line is read as a header ({shorten(layout.separator.join(first_row))})"
        remedy = 'Set read.header = "no" if it is a fact.'
        findings.insert(0, Finding("note", "header", note, count=1, remedy=remedy))
    return triples, findings


def _doubtful_first_line(source: Source, triples: pl.DataFrame) -> list[Finding]:
    """A warning if nothing in the first line occurs again: it may be a header with unknown names."""
    head, relation, tail = triples.row(0)
    ends = (triples.get_column("head"), triples.get_column("tail"))
    occurrences = [sum(int((column == label).sum()) for column in ends) for label in (head, tail)]
    if len(triples) < 3 or max(occurrences) > 1 or (triples.get_column("relation") == relation).sum() > 1:
        return []
    line = shorten(" ".join(triples.row(0)))
    message = f"{source.name}: the first line may be a header, as none of its labels occurs again ({line})"
    remedy = 'Set read.header = "yes" if it is a header, or "no" if it is a fact.'
    return [Finding("warning", "doubtful-first-line", message, 1, remedy=remedy)]


def find_layout(source: Source, settings: ReadSettings) -> tuple[tuple[int, list[str]], Layout]:
    """The line and the fields of the first row of a text file, and its layout."""
    separator = SEPARATOR_NAMES.get(settings.separator, settings.separator)
    is_quoted = settings.quote == "yes" or (settings.quote == "auto" and source.suffix == ".csv")
    if any(char in separator for char in '"\n\r') or (is_quoted and len(separator) > 1):
        expected = "expected one character" if is_quoted else "quotes and line breaks cannot separate columns"
        problem = f"read.separator = {shorten(separator)!r} is not valid: {expected}"
        remedy = 'Give one character, e.g. ";", or set read.quote = "no" for a longer separator.'
        raise DataError(problem, path=source.name, remedy=remedy)
    layout = Layout(separator or _guess_separator(source, is_quoted), is_quoted)
    first = next(rows_of(source, layout), None)
    if first is None:
        raise DataError("the file is empty", path=source.name, remedy=EXPECTED)
    return first, replace(layout, num_columns=len(first[1]))


def read_parquet(source: Source, parts: Sequence[parquet.Part], settings: ReadSettings) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of Parquet files as strings, and findings; `source` is the file or the folder."""
    triples, columns, findings = read_columns_of(
        source, settings, lambda choose: parquet.read_columns(parts, choose, most_mb=settings.expanded_mb), what="file"
    )
    if columns:
        message = f"{source.name}: the columns {', '.join(columns)} are read as head, relation and tail"
        findings.append(Finding("warning", "guessed-columns", message, 1, remedy="Set read.columns if that is wrong."))
    return triples, findings


def read_result(source: Source, settings: ReadSettings, fetch: Fetch) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of the result of a query as strings, and findings."""
    triples, columns, findings = read_columns_of(source, settings, fetch, what="query")
    if columns:
        message = f"{source.name}: the columns {', '.join(columns)} of the query are read as head, relation and tail"
        findings.append(Finding("note", "query-columns", message, 1, remedy="Set read.columns if that is wrong."))
    return triples, findings


def read_columns_of(
    source: Source, settings: ReadSettings, fetch: Fetch, *, what: Literal["file", "query"]
) -> tuple[pl.DataFrame, list[str], list[Finding]]:
    """The columns `head`, `relation`, `tail` as strings; the columns by name if their order decided; findings."""
    names: list[str] = []
    chosen: list[int] = []

    def choose(found: list[str]) -> list[int]:
        names[:] = found
        places = _places(source, settings, names, len(names))
        if places is None and len(names) != 3:
            remedy = f'Set read.columns, e.g. "subject,predicate,object". Columns are: {", ".join(map(shorten, names))}.'
            remedy = remedy if len(names) > 3 else f"Expected three columns in the {what}: head, relation and tail."
            raise DataError(f"expected 3 columns (head, relation, tail), found {len(names)}", path=source.name, remedy=remedy)
        chosen[:] = places or (0, 1, 2)
        return list(dict.fromkeys(chosen))

    parts = [(name, _as_triples(name, table, chosen, what)) for name, table in fetch(choose)]
    triples = pl.concat([part for _, part in parts]) if parts else pl.DataFrame()
    if triples.is_empty():
        raise DataError(f"the {what} has no facts", path=source.name, remedy="Expected a row per fact: head, relation, tail.")
    if _places(source, settings, names, len(names)) is not None:
        return triples, [], _chosen_columns(source, settings, names)
    return triples, [shorten(names[place]) for place in chosen], []


def _as_triples(name: str, table: pl.DataFrame, chosen: Sequence[int], what: str) -> pl.DataFrame:
    """A table of the distinct places as head, relation and tail; an error if it has other types, or empty fields."""
    for column, dtype in table.schema.items():
        if not (dtype.is_integer() or dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
            problem = f"column {shorten(column)!r} is not valid: it contains {dtype}, not text"
            raise DataError(problem, path=name, remedy="Set read.columns to choose other columns.")
    places = list(dict.fromkeys(chosen))
    triples = table.select(
        pl.nth(places.index(place)).cast(pl.String).alias(role) for role, place in zip(ROLES, chosen, strict=True)
    )
    for role in ROLES:
        empty = triples.select(pl.arg_where(pl.col(role).is_null() | (pl.col(role) == ""))).to_series()
        if len(empty):
            rows = counted(len(empty), "such row")
            remedy = "Remove rows with empty fields." if what == "file" else "Leave such rows out of the query."
            raise DataError(f"row {empty[0] + 1} has no {role} ({rows})", path=name, remedy=remedy)
    return triples


def roles_in_header(names: list[str]) -> tuple[int, ...] | None:
    """The places of head, relation and tail, or None if the names are unknown or ambiguous.

    If several columns can have a role, the one complete family of names decides:

    >>> roles_in_header(["Subject", "Predicate", "Object", "source", "confidence"])
    (0, 1, 2)
    """
    candidates = _candidates(names)
    if all(len(places) == 1 for places in candidates.values()):
        return tuple(place for (place,) in candidates.values())
    families = _complete_families(names)
    return families[0] if len(families) == 1 else None


def _candidates(names: list[str]) -> dict[str, list[int]]:
    """The places of the columns that can have each role, by role."""
    folded = [_folded(name) for name in names]
    return {role: [place for place, name in enumerate(folded) if name in HEADER_NAMES[role]] for role in ROLES}


def _names_all_roles(names: list[str]) -> bool:
    """Whether there is a column for each role, even if it is ambiguous which."""
    return all(_candidates(names).values())


def _complete_families(names: list[str]) -> list[tuple[int, int, int]]:
    """The places of head, relation and tail of each family that has a column for every role."""
    folded, candidates = [_folded(name) for name in names], _candidates(names)["relation"]
    found = []
    for head, relation, tail in FAMILIES:
        relations = [place for place in candidates if folded[place] == relation] or candidates
        if folded.count(head) == folded.count(tail) == len(relations) == 1:
            found.append((folded.index(head), relations[0], folded.index(tail)))
    return found


def _folded(name: str) -> str:
    return name.strip().lower()


def _chosen_columns(source: Source, settings: ReadSettings, header: list[str]) -> list[Finding]:
    """A note if other columns of the header could have been head, relation or tail too."""
    places = None if settings.columns else roles_in_header(header)
    others = [place for found in _candidates(header).values() for place in found if place not in (places or ())]
    if places is None or not others:
        return []
    message = f"{source.name}: head, relation and tail are the columns {_listed(header, places)}, not {_listed(header, others)}"
    return [Finding("note", "chosen-columns", message, len(others), remedy="Set read.columns to choose other columns.")]


def _ambiguous_header(source: Source, names: list[str], line: int | None) -> DataError:
    """The error for a header in which several columns can have one role, and no single family of names decides."""
    families = _complete_families(names)
    if families:
        problem = f"the header is ambiguous: facts may be in {' or in '.join(_listed(names, family) for family in families)}"
    else:
        competing = [
            f"{_listed(names, places, ' or ')} may be the {role}"
            for role, places in _candidates(names).items()
            if len(places) > 1
        ]
        problem = f"the header is ambiguous: {', and '.join(competing)}"
    example = families[0] if families else [places[0] for places in _candidates(names).values()]
    remedy = (
        f'Set read.columns to the columns of head, relation and tail, e.g. "{",".join(str(place + 1) for place in example)}".'
    )
    return DataError(problem, path=source.name, line=line, remedy=remedy)


def _listed(names: list[str], places: Iterable[int], separator: str = ", ") -> str:
    """The names of columns; with their number where a name is not unique."""
    return separator.join(
        shorten(names[place]) + (f" (column {place + 1})" if names.count(names[place]) > 1 else "") for place in places
    )


def _places(
    source: Source, settings: ReadSettings, header: list[str] | None, num_columns: int, line: int | None = None
) -> tuple[int, ...] | None:
    """The places of head, relation and tail by the settings or the header, or None if these do not determine them."""
    if not settings.columns:
        places = roles_in_header(header) if header else None
        if header and places is None and _names_all_roles(header):
            raise _ambiguous_header(source, header, line)
        return places
    columns = [name.strip() for name in settings.columns.split(",")]
    if len(columns) != 3:
        problem = f"read.columns = {shorten(settings.columns)!r} is not valid: expected three columns"
        raise DataError(problem, path=source.name, remedy=SET_COLUMNS)
    return tuple(_place(source, name, header, num_columns) for name in columns)


def _place(source: Source, name: str, header: list[str] | None, num_columns: int) -> int:
    if header and name in header:
        return header.index(name)
    if name.isdecimal() and len(name) < 10 and 1 <= int(name) <= num_columns:
        return int(name) - 1
    known = f"Columns are: {', '.join(map(shorten, header))}." if header else f"There are {num_columns} columns."
    raise DataError(f"there is no column {shorten(name)!r}", path=source.name, remedy=known)


def _names_columns(columns: str, first_row: list[str]) -> bool:
    """Whether the setting names columns by texts that are in the first row."""
    names = [name.strip() for name in columns.split(",")]
    return any(name in first_row and not name.isdecimal() for name in names if name)


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
