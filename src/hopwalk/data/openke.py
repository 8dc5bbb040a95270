"""OpenKE folders: `entity2id.txt`, `relation2id.txt` and triples of ids in `train2id.txt`, … (head, tail, relation).

Every file begins with a line that counts the ones after it.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hopwalk.data.findings import Finding
from hopwalk.data.source import Source
from hopwalk.data.tables import ROLES, Layout, read_columns
from hopwalk.errors import DataError

SPLIT_FILES = {"train": "train2id.txt", "valid": "valid2id.txt", "test": "test2id.txt"}


def read_folder(folder: Path) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """The splits of an OpenKE folder as columns of labels."""
    entities = read_id_table(Source.of(folder / "entity2id.txt"))
    relations = read_id_table(Source.of(folder / "relation2id.txt"))
    splits, findings = {}, []
    for split, name in SPLIT_FILES.items():
        if (folder / name).exists():
            splits[split], found = read_id_triples(Source.of(folder / name), entities, relations)
            findings += found
    return splits, findings


def read_id_table(source: Source) -> pl.DataFrame:
    """The columns `id` and `label` of an `entity2id.txt` or `relation2id.txt`."""
    table, _ = _counted_table(source, num_columns=2)
    ids = _whole_numbers(source, table.to_series(1), column=2)
    table = pl.DataFrame({"id": ids, "label": table.to_series(0)})
    for column in ("id", "label"):
        repeated = table.filter(pl.col(column).is_duplicated())
        if not repeated.is_empty():
            raise DataError(f"the {column} {repeated[column][0]!r} stands there twice", path=source.name)
    return table


def read_id_triples(source: Source, entities: pl.DataFrame, relations: pl.DataFrame) -> tuple[pl.DataFrame, list[Finding]]:
    """The columns `head`, `relation`, `tail` of a `train2id.txt`, as labels."""
    table, findings = _counted_table(source, num_columns=3)
    columns = {}
    for place, role, known in ((0, "head", entities), (1, "tail", entities), (2, "relation", relations)):
        ids = _whole_numbers(source, table.to_series(place), column=place + 1)
        labels = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left").get_column("label")
        if labels.null_count():
            row = labels.is_null().arg_true()[0]
            raise DataError(
                f"the {role} id {ids[row]} is not in the table of {len(known):,} ids ({labels.null_count():,} such facts)",
                path=source.name,
                line=row + 2,
                remedy="Check that the folder's files belong together, and that the order is head, tail, relation.",
            )
        columns[role] = labels
    return pl.DataFrame(columns).select(ROLES), findings


def _counted_table(source: Source, num_columns: int) -> tuple[pl.DataFrame, list[Finding]]:
    lines = source.lines()
    count, first = next(lines, b"").strip(), next(lines, b"")
    if not count.isdigit():
        remedy = "OpenKE files begin with the number of lines that follow."
        raise DataError("the first line is not a count", path=source.name, line=1, remedy=remedy)
    separator = "\t" if b"\t" in first else " "
    layout = Layout(separator, False, num_columns, wanted=tuple(range(num_columns)), skip_lines=1)
    if not first:
        raise DataError("the file holds nothing but its count", path=source.name)
    table = read_columns(source, layout)
    findings = []
    if len(table) != int(count):
        message = f"{source.name}: the first line promises {int(count):,} lines, there are {len(table):,}"
        remedy = "The file may be cut off; all lines that are there are used."
        findings.append(Finding("warning", "count-mismatch", message, abs(len(table) - int(count)), remedy=remedy))
    return table, findings


def _whole_numbers(source: Source, texts: pl.Series, column: int) -> pl.Series:
    numbers = texts.cast(pl.Int64, strict=False)
    if numbers.null_count():
        row = numbers.is_null().arg_true()[0]
        raise DataError(f"column {column} should be a whole number, found {texts[row]!r}", path=source.name, line=row + 2)
    return numbers
