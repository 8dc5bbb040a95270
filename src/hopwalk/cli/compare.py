"""`hopwalk compare`: the difference between two runs, its significance, and its origin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_json, print_table, print_text, printable
from hopwalk.cli.progress import ranking_progress

if TYPE_CHECKING:
    from hopwalk.reasoning.comparing import Comparison, Example

Folder = Annotated[Path, typer.Argument(help="A run folder, as `hopwalk train` writes it.", show_default=False)]


def compare(
    first: Folder,
    second: Folder,
    split: Annotated[str, typer.Option(help="test or valid.")] = "test",
    examples: Annotated[int, typer.Option(min=0, help="Number of won and lost queries to show.")] = 5,
    as_json: options.Json = False,
) -> None:
    """Compare two runs on the same queries: the difference, its significance, and the relations and queries behind it.

    Intervals and p-values are those of a paired bootstrap over the queries. Queries are won if the second run ranks their answer
    higher, and each run shows its best path to it.

    Examples:

    - `hopwalk compare runs/umls-complex runs/umls-conve`

    - `hopwalk compare runs/old runs/new --split valid --json`
    """
    from hopwalk.api import compare as compare_runs

    with ranking_progress():
        found = compare_runs(first, second, split, num_examples=examples)
    print_json(found.to_dict()) if as_json else _print(found)


def _print(found: Comparison) -> None:
    from hopwalk.reasoning.comparing import p_text

    for place, run in zip(("first ", "second"), found.runs, strict=True):
        print_text(printable(f"{place}: {run}"))
    rows = [
        (name, *(100 * value for value in (d.first, d.second, d.value, *d.interval)), p_text(d.p_value).removeprefix("= "))
        for name, d in ((name.replace("mrr", "MRR"), d) for name, d in found.differences.items())
    ]
    title = f"{found.dataset}: {found.split}, {found.num_queries:,} tail queries"
    print_table(["", "first", "second", "difference", "95 % from", "to", "p"], rows, title=title)
    print_text(found.verdict)
    even = found.num_queries - found.num_won - found.num_lost
    print_text(f"The second run ranks {found.num_won:,} answers higher, {found.num_lost:,} lower, {even:,} the same.")
    changed = [change for change in found.relations if change.share][:10]
    if changed:
        shown = [(c.relation, c.num_queries, *(100 * value for value in (c.first, c.second, c.share))) for c in changed]
        print_table(["relation", "queries", "first MRR", "second MRR", "share of the difference"], shown)
    _print_examples("Won", found.won)
    _print_examples("Lost", found.lost)


def _print_examples(title: str, examples: tuple[Example, ...]) -> None:
    for number, example in enumerate(examples):
        if not number:
            print_text(f"{title}:")
        ranks = " → ".join("unreached" if rank is None else f"{rank:g}" for rank in (example.first_rank, example.second_rank))
        print_text(printable(f"  {example.head} —{example.relation}→ {example.tail}: rank {ranks}"))
        for place, path in (("first", example.first_path), ("second", example.second_path)):
            if path is not None:
                print_text(printable(f"    {place:<6} {path}"))
