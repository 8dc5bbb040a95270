"""What benchmarks have in common: their command lines, their result files, and their tables in the docs."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hopwalk.utils.files import write_text


def load_results(path: Path) -> dict[str, Any]:
    """The content of a result file, empty if there is none; keys of older files get the names of today."""
    if not path.exists():
        return {}
    renamed = {"choices_per_walk": "actions_per_walk", "candidates": "num_sampled_tails"}

    def with_names_of_today(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {renamed.get(name, name.replace("questions", "queries")): value for name, value in pairs}

    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=with_names_of_today)
    return content


def markdown_table(rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """A Markdown table whose first row is its head; all columns but the first few stand to the right."""
    rule = ["---"] * text_columns + ["---:"] * (len(rows[0]) - text_columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [rows[0], rule, *rows[1:]])


def fill_in(page: str, name: str, table: str) -> str:
    """The text of a page with the table between `<!-- NAME -->` and `<!-- end -->`."""
    start, end = f"<!-- {name} -->", "<!-- end -->"
    return re.sub(rf"{re.escape(start)}.*?{end}", lambda _: f"{start}\n{table}\n{end}", page, flags=re.DOTALL)


def write_results(path: Path, found: Mapping[str, Any]) -> None:
    """Write a result file."""
    write_text(path, json.dumps(found, indent=1) + "\n")


def parser_of(description: str | None, page: Path | None = None) -> ArgumentParser:
    """A command line with the benchmark's own text as its help; with a page of the docs, also with `--tables`."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    if page is not None:
        parser.add_argument("--tables", action="store_true", help=f"measure nothing; fill in the tables of docs/{page.name}")
    return parser


def fill_page(page: Path, with_tables: Callable[[str], str]) -> None:
    """Write a page of the docs with its tables as they are in the results."""
    write_text(page, with_tables(page.read_text(encoding="utf-8")))
