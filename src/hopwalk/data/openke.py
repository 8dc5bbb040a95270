"""Reader of OpenKE folders: `entity2id.txt`, `relation2id.txt`, and triples of ids (head, tail, relation) in `train2id.txt`, ….

The first line of every file is the number of lines after it.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hopwalk.data.findings import Finding
from hopwalk.data.rows import Layout, line_of_row, read_columns
from hopwalk.data.source import Source
from hopwalk.data.tables import ROLES
from hopwalk.errors import DataError
from hopwalk.utils.text import counted, shorten

SPLIT_FILES = {"train": "train2id.txt", "valid": "valid2id.txt", "test": "test2id.txt"}


def read_folder(folder: Path) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """The splits of an OpenKE folder as columns of labels, and findings."""
    entities, findings = read_id_table(Source.of(folder / "entity2id.txt"))
    relations, more = read_id_table(Source.of(folder / "relation2id.txt"))
    findings += more
    splits = {}
    for split, name in SPLIT_FILES.items():
        if (folder / name).exists():
            triples, more = read_id_triples(Source.of(folder / name), entities, relations)
            findings += more
            if len(triples):
                splits[split] = triples
    return splits, findings


def read_id_table(source: Source) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `id` and `label` of an `entity2id.txt` or `relation2id.txt`, and findings."""
    table, layout, findings = _counted_table(source, num_columns=2)
    table = pl.DataFrame({"id": _whole_numbers(source, layout, table, 1), "label": table.to_series(0)})
    for column in ("id", "label"):
        repeated = table.filter(pl.col(column).is_duplicated())
        if not repeated.is_empty():
            raise DataError(
                f"the {column} {repeated[column][0]!r} is not unique", path=source.name, remedy="Keep one line of it."
            )
    return table, findings


def read_id_triples(source: Source, entities: pl.DataFrame, relations: pl.DataFrame) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a `train2id.txt` as labels, and findings."""
    table, layout, findings = _counted_table(source, num_columns=3)
    columns = {}
    for place, role, known in ((0, "head", entities), (1, "tail", entities), (2, "relation", relations)):
        ids = _whole_numbers(source, layout, table, place)
        labels = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left").get_column("label")
        if labels.null_count():
            row = labels.is_null().arg_true()[0]
            count = counted(labels.null_count(), "such fact")
            raise DataError(
                f"the {role} id {ids[row]} is not in the table of {len(known):,} ids ({count})",
                path=source.name,
                line=line_of_row(source, layout, row),
                remedy="Check that the files belong together, and that the order of the columns is head, tail, relation.",
            )
        columns[role] = labels
    return pl.DataFrame(columns).select(ROLES), findings


def _counted_table(source: Source, num_columns: int) -> tuple[pl.DataFrame, Layout, list[Finding]]:
    with source.open() as file:
        count, first = file.readline(100).strip(), file.readline(1000)
    if not count.isdigit() or len(count) > 18:
        remedy = "The first line of an OpenKE file is the number of lines after it."
        raise DataError("the first line is not a number of lines", path=source.name, line=1, remedy=remedy)
    separator = "\t" if b"\t" in first else " "
    layout = Layout(separator, False, num_columns, columns=tuple(range(num_columns)), skip_lines=1)
    table = read_columns(source, layout)
    findings = []
    if len(table) != int(count):
        message = f"{source.name}: the first line says {int(count):,} lines, but there are {len(table):,}"
        remedy = "The file may be truncated. All its lines are used."
        findings.append(Finding("warning", "count-mismatch", message, abs(len(table) - int(count)), remedy=remedy))
    return table, layout, findings


def _whole_numbers(source: Source, layout: Layout, table: pl.DataFrame, place: int) -> pl.Series:
    texts = table.to_series(place)
    numbers = texts.cast(pl.Int64, strict=False)
    if numbers.null_count():
        row = numbers.is_null().arg_true()[0]
        problem = f"column {place + 1} is not valid: expected a whole number, found {shorten(texts[row])!r}"
        remedy = "Ids in OpenKE files are whole numbers."
        raise DataError(problem, path=source.name, line=line_of_row(source, layout, row), remedy=remedy)
    return numbers
