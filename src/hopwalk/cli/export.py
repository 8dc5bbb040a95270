"""`hopwalk export`: predictions of `complete`, written where they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hopwalk.cli.console import print_text, printable
from hopwalk.errors import SettingsError
from hopwalk.utils.text import counted


def export(
    predictions: Annotated[
        Path, typer.Argument(help="A .parquet or .tsv file that `hopwalk complete` wrote.", show_default=False)
    ],
    to: Annotated[
        str,
        typer.Option(
            help="Where to write: postgresql://…, sqlite:///…, a .db, .parquet, .csv, .tsv or .nt file; a folder for neo4j.",
            show_default=False,
        ),
    ],
    table: Annotated[str, typer.Option(help="The table of a database; with PostgreSQL also SCHEMA.TABLE.")] = "predictions",
    append: Annotated[bool, typer.Option("--append", help="Add to the table, if there is one.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the table, if there is one.")] = False,
    format_: Annotated[
        str, typer.Option("--format", help="auto: by the name; neo4j: nodes.csv and relationships.csv for Neo4j's importer.")
    ] = "auto",
) -> None:
    """Write predictions where they are used: a table of a database, N-Triples, Parquet, CSV, or files for Neo4j's importer.

    All columns go along. All of it is written or nothing. Passwords are best given by PGPASSWORD or ~/.pgpass.

    Examples:

    - `hopwalk export predictions.parquet --to postgresql://ada@db.example.org/graph --table predictions`

    - `hopwalk export predictions.tsv --to predictions.nt`

    - `hopwalk export predictions.parquet --to for-neo4j --format neo4j`
    """
    from hopwalk.data.addresses import Address, is_address
    from hopwalk.data.exporting import FORMATS, export_predictions

    if append and replace:
        raise SettingsError("--append and --replace exclude each other", remedy="Give one of them.")
    if format_ not in FORMATS:
        raise SettingsError(f"there is no format {format_!r}", remedy=f"Formats are {' and '.join(FORMATS)}.")
    kind: Literal["auto", "neo4j"] = "neo4j" if format_ == "neo4j" else "auto"
    if_exists: Literal["append", "replace", "error"] = "append" if append else "replace" if replace else "error"
    count = export_predictions(predictions, to, table=table, if_exists=if_exists, format=kind)
    shown = Address.of(to).shown if is_address(to) else to
    print_text(printable(f"{shown}: {counted(count, 'prediction')} written"))
