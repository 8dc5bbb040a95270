"""Predictions written where they are used: a table of a database, Parquet, CSV, N-Triples, or files for Neo4j's importer.

The table may have any columns beside head, relation and tail; they go along where the format has a place for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data import parquet, sql
from hopwalk.data.addresses import SQLITE_SUFFIXES, Address, is_address
from hopwalk.data.source import Source
from hopwalk.data.sql import IfExists
from hopwalk.errors import DataError, SettingsError
from hopwalk.utils.files import atomic_path, require_regular
from hopwalk.utils.text import shorten

ROLES = ("head", "relation", "tail")
Format = Literal["auto", "neo4j"]
FORMATS: tuple[str, ...] = get_args(Format)
PLACES = "Names of files end in .tsv, .csv, .parquet, .nt, .db or .sqlite; addresses begin with postgresql:// or sqlite://."
NEO4J_TYPES = ((pl.Float64, "float"), (pl.Float32, "float"), (pl.Boolean, "boolean"))
NODES, RELATIONSHIPS = "nodes.csv", "relationships.csv"
ROWS_AT_ONCE = 100_000
IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
URN = "urn:hopwalk:"


def export_predictions(
    predictions: str | Path | pl.DataFrame,
    to: str | Path,
    *,
    table: str = "predictions",
    if_exists: IfExists = "error",
    format: Format = "auto",
) -> int:
    """Write predictions of `complete`, a .parquet or .tsv file or a frame, to a file or a database; returns their number.

    `to` is a file (.tsv, .csv, .parquet, .nt), a `table` of PostgreSQL (`postgresql://…`) or SQLite (`sqlite:///…`, .db), which
    is new unless `if_exists` is "append" or "replace"; or, with the format "neo4j", a folder for the files of Neo4j's importer.
    All of it is written or nothing.
    """
    if format not in FORMATS:
        raise SettingsError(f"there is no format {shorten(str(format))!r}", remedy=f"Formats are {' and '.join(FORMATS)}.")
    if if_exists not in sql.MODES:
        raise SettingsError(f"if_exists = {if_exists!r} is not valid", remedy=f"It is one of {', '.join(sql.MODES)}.")
    write = _writer(to, format, table, if_exists)
    frame = predictions if isinstance(predictions, pl.DataFrame) else read_predictions(Path(predictions))
    _require_facts(frame, "the table" if isinstance(predictions, pl.DataFrame) else str(predictions))
    write(frame)
    return len(frame)


def read_predictions(path: Path) -> pl.DataFrame:
    """The table of a .parquet or .tsv file that `complete` wrote, with all its columns."""
    if path.suffix == ".parquet":
        if not path.is_file():
            raise DataError("there is no such file", path=path, remedy="Give a file that `hopwalk complete` wrote.")
        parts = [parquet.Part(Source.of(path))]
        names: list[str] = []

        def choose_all(found: list[str]) -> range:
            names[:] = found
            return range(len(found))

        return parquet.read_columns(parts, choose_all, most_mb=ReadSettings().expanded_mb)[0][1]
    if path.suffix != ".tsv":
        raise DataError("this is not a table of predictions", path=path, remedy="Give a .parquet or .tsv file of `complete`.")
    try:
        require_regular(path)
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
        return frame.with_columns(_numbers(frame))
    except OSError as error:
        remedy = "Give a file that `hopwalk complete` wrote."
        raise DataError(f"the file cannot be read ({error.strerror or 'not found'})", path=path, remedy=remedy) from None
    except pl.exceptions.PolarsError as error:
        problem = f"the table is not valid ({shorten(str(error).splitlines()[0], 200)})"
        raise DataError(problem, path=path, remedy="Write it again with `hopwalk complete`.") from None


def _numbers(frame: pl.DataFrame) -> Iterator[pl.Expr]:
    """The columns beside the fact that have numbers only, as numbers."""
    for name in frame.columns:
        if name in (*ROLES, "path", "rule"):
            continue
        values = frame.get_column(name).drop_nulls()
        for dtype in (pl.Int64, pl.Float64):
            if len(values) and not values.cast(dtype, strict=False).has_nulls():
                yield pl.col(name).cast(dtype)
                break


def _require_facts(frame: pl.DataFrame, name: str) -> None:
    missing = [role for role in ROLES if role not in frame.columns]
    if missing:
        found = ", ".join(map(shorten, frame.columns[:10]))
        raise DataError(f"there is no column {missing[0]}", path=name, remedy=f"Expected head, relation, tail; found: {found}.")
    for role in ROLES:
        if frame.schema[role] != pl.String or frame.get_column(role).has_nulls():
            raise DataError(f"the column {role} has values that are not text", path=name, remedy="Cast or remove these rows.")


def _writer(to: str | Path, format_: Format, table: str, if_exists: IfExists) -> Callable[[pl.DataFrame], None]:
    """The function that writes a frame to the target; an error, before anything is read, if there is none."""
    if is_address(str(to)) or (Path(to).suffix in SQLITE_SUFFIXES and format_ == "auto"):
        address = Address.of(to) if isinstance(to, str) and is_address(to) else Address.of_file(Path(to))
        if address.kind == "sparql" or format_ != "auto":
            raise SettingsError(f"predictions cannot be written to {address.shown}", remedy=PLACES)
        return lambda frame: _ignore(sql.write_table(address, frame, table, if_exists=if_exists))
    path = Path(to)
    if if_exists != "error":
        raise SettingsError("only tables of a database are appended to or replaced", remedy="Choose a new file.")
    if format_ == "neo4j":
        for name in (NODES, RELATIONSHIPS):
            _refuse_existing(path / name)
        return lambda frame: write_neo4j(frame, path)
    writers = {".parquet": _write_parquet, ".csv": _write_csv, ".tsv": _write_tsv, ".nt": write_n_triples}
    write = writers.get(path.suffix)
    if write is None:
        raise SettingsError(f"the format of {shorten(path.name)} is not known", remedy=PLACES)
    _refuse_existing(path)
    return lambda frame: write(frame, path)


def _ignore(_: object) -> None: ...


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise DataError("there is already a file of that name", path=path, remedy="Choose another name, or remove it.")


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    with atomic_path(path) as made:
        frame.write_parquet(made)


def _write_csv(frame: pl.DataFrame, path: Path) -> None:
    with atomic_path(path) as made:
        frame.write_csv(made)


def _write_tsv(frame: pl.DataFrame, path: Path) -> None:
    texts = [pl.col(name).str.replace_all(r"[\t\r\n]", " ") for name, dtype in frame.schema.items() if dtype == pl.String]
    with atomic_path(path) as made:
        frame.with_columns(texts).write_csv(made, separator="\t", quote_style="never")


def write_n_triples(frame: pl.DataFrame, path: Path) -> None:
    """Write the facts as N-Triples, with the other columns of each as a comment."""
    with atomic_path(path) as made, made.open("w", encoding="utf-8", newline="\n") as file:
        for part in frame.iter_slices(ROWS_AT_ONCE):
            file.writelines(n_triple(row) for row in part.iter_rows(named=True))


def n_triple(row: Mapping[str, object]) -> str:
    r"""A line of N-Triples: labels that are IRIs as they are, others as urn:hopwalk:LABEL; other columns as a comment.

    >>> n_triple({"head": "http://a", "relation": "likes a lot", "tail": "b", "probability": 0.5, "path": "a → b"})
    '<http://a> <urn:hopwalk:likes%20a%20lot> <urn:hopwalk:b> . # 0.5 a → b\n'
    """
    terms = (_iri(str(row[role])) for role in ROLES)
    others = " ".join(str(value) for name, value in row.items() if name not in ROLES and value is not None)
    comment = f" # {' '.join(others.split())}" if others else ""
    return f"{' '.join(f'<{term}>' for term in terms)} .{comment}\n"


def _iri(label: str) -> str:
    return label if "://" in label and IRI.fullmatch(label) else f"{URN}{quote(label, safe='')}"


def write_neo4j(frame: pl.DataFrame, folder: Path) -> None:
    """Write nodes.csv and relationships.csv with the headers of `neo4j-admin database import`."""
    ends = pl.concat([frame.get_column(role).alias("id:ID") for role in ("head", "tail")]).unique().sort()
    nodes = ends.to_frame().with_columns(pl.lit("Entity").alias(":LABEL"))
    others = {name: _neo4j_column(name, dtype) for name, dtype in frame.schema.items() if name not in ROLES}
    relationships = frame.select(
        pl.col("head").alias(":START_ID"),
        pl.col("tail").alias(":END_ID"),
        pl.col("relation").alias(":TYPE"),
        *(pl.col(name).alias(column) for name, column in others.items()),
    )
    for name, table in ((NODES, nodes), (RELATIONSHIPS, relationships)):
        with atomic_path(folder / name) as made:
            table.write_csv(made)


def _neo4j_column(name: str, dtype: pl.DataType) -> str:
    """The name of a column with Neo4j's type; a colon in the name would begin one."""
    types: Iterable[tuple[object, str]] = NEO4J_TYPES
    kind = "long" if dtype.is_integer() else next((text for known, text in types if dtype == known), "string")
    return f"{name.replace(':', '_')}:{kind}"
