"""`hopwalk data`: list, show, check, fetch, split and prepare data sets."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_finding, print_json, print_table, print_text, with_options
from hopwalk.cli.progress import download_bar
from hopwalk.config.settings import Settings
from hopwalk.errors import HopwalkError

if TYPE_CHECKING:
    from hopwalk.data.dataset import Dataset
    from hopwalk.data.findings import Finding

app = typer.Typer(no_args_is_help=True, help="List, show, check, fetch, split and prepare data sets.")


@app.command("list")
def list_(as_json: options.Json = False) -> None:
    """List the data sets of the catalog."""
    from hopwalk.data import catalog

    entries = catalog.entries().values()
    if as_json:
        print_json([_entry_dict(entry) for entry in entries])
        return
    rows = [(entry.name, entry.entities, entry.relations, entry.facts, _location(entry), entry.topic) for entry in entries]
    print_table(["name", "entities", "relations", "facts", "where", "about"], rows)
    print_text("Details: `hopwalk data show NAME`. Your own files work wherever a name does.")


@app.command()
@options.takes_settings
def show(
    data: options.Data,
    settings: Settings,
    as_json: options.Json = False,
    mirror: options.Mirror = None,
) -> None:
    """Show a data set: entities, relations, facts, splits, degrees; source, citation and licence.

    Examples:

    - `hopwalk data show umls`

    - `hopwalk data show facts.csv --columns subject,predicate,object`
    """
    from hopwalk.data import catalog
    from hopwalk.data.statistics import statistics

    dataset = _load(data, settings, mirror)
    numbers = statistics(dataset)
    entry = catalog.find(data)
    if as_json:
        print_json(numbers.to_dict() | ({"catalog": _entry_dict(entry)} if entry else {}))
        return
    print_table(["", "number"], _statistics_rows(numbers.to_dict()), title=entry.title if entry else dataset.name)
    for about in (
        (entry.about, f"Source: {entry.source}", f"Cite: {entry.citation}", f"Licence: {entry.licence}") if entry else ()
    ):
        print_text(about)
    _print_findings(dataset, data)


@app.command()
@options.takes_settings
def check(
    data: options.Data,
    settings: Settings,
    as_json: options.Json = False,
    mirror: options.Mirror = None,
) -> None:
    """Diagnose a data set: errors, warnings, and notes on what to know before training.

    The exit code is 1 for errors, and 0 for warnings and notes.

    Examples:

    - `hopwalk data check facts.csv`

    - `hopwalk data check wn18rr --set graph.fan_out=100 --json`
    """
    from hopwalk.api import check as diagnose
    from hopwalk.utils.text import counted

    try:
        dataset = _load(data, settings, mirror)
    except HopwalkError as error:
        if not as_json:
            raise
        problem = {"level": "error", "code": "unreadable", "message": error.problem, "remedy": error.remedy}
        print_json({"statistics": None, "findings": [problem | {"path": error.path, "line": error.line}]})
        raise typer.Exit(1) from None
    report = diagnose(dataset, settings)
    if as_json:
        print_json(report.to_dict())
        return
    numbers = report.statistics
    title = f"{dataset.name}: {numbers.num_entities:,} entities, {numbers.num_relations:,} relations, {numbers.num_facts:,} facts"
    if report.findings:
        print_table(["level", "finding", "details"], map(_finding_row, report.findings), title=title)
    levels = [finding.level for finding in report.findings]
    counts = (counted(levels.count(level), level) for level in ("warning", "note"))
    print_text(f"{', '.join(counts)}. The graph can be walked.")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names of the catalog, or `all`.", show_default=False)],
    mirror: options.Mirror = None,
) -> None:
    """Download data sets of the catalog into the cache, and verify them.

    Examples:

    - `hopwalk data fetch fb15k-237 wn18rr`

    - `hopwalk data fetch all --mirror /media/stick/datasets`
    """
    from hopwalk.data import catalog

    entries = list(catalog.entries().values()) if names == ["all"] else [catalog.get(name) for name in names]
    for entry in entries:
        paths = catalog.fetch(entry, mirror=mirror, make_progress_bar=download_bar)
        print_text(f"{entry.name}: {'bundled with hopwalk' if entry.bundled else f'ready ({len(paths)} files in the cache)'}")


@app.command()
@options.takes_settings
def split(
    data: options.Data,
    settings: Settings,
    out: Annotated[Path, typer.Option(help="The folder to write train, valid and test to.", show_default=False)],
    valid: Annotated[float | None, typer.Option(help="Share of the facts for valid.")] = None,
    test: Annotated[float | None, typer.Option(help="Share of the facts for test.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same split.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files already.")] = False,
) -> None:
    """Split a file of triples so that every entity and relation of valid and test is also in train.

    Examples:

    - `hopwalk data split facts.csv --out mygraph`

    - `hopwalk data split facts.csv --out mygraph --valid 0.05 --test 0.05 --seed 7`
    """
    from hopwalk.api import split_dataset
    from hopwalk.config.settings import changed
    from hopwalk.data.writing import write_folder

    options_given = {"split.valid": valid, "split.test": test, "split.seed": seed}
    settings = changed(settings, {name: value for name, value in options_given.items() if value is not None})
    _refuse_full_folder(out, force=force)
    if Path(data).resolve().is_relative_to(out.resolve()):
        raise HopwalkError("the data to split is in the folder to write to", path=out, remedy="Choose another folder.")
    dataset = split_dataset(_load(data, settings, None), settings.split)
    paths = write_folder(dataset, out)
    rows = [(name, len(triples)) for name, triples in dataset.splits.items()]
    print_table(["split", "facts"], rows, title=f"{out} ({', '.join(path.name for path in paths)})")
    _print_findings(dataset, data)


@app.command()
@options.takes_settings
def prepare(
    data: options.Data,
    settings: Settings,
    out: Annotated[Path, typer.Option(help="The folder to write to.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has files already.")] = False,
    mirror: options.Mirror = None,
) -> None:
    """Save a data set in a form that loads fast; give the folder to `hopwalk train` instead of the text files.

    Examples:

    - `hopwalk data prepare facts.csv --out prepared/facts`

    - `hopwalk train prepared/facts`
    """
    from hopwalk.api import prepare as prepare_dataset

    _refuse_full_folder(out, force=force)
    dataset = _load(data, settings, mirror)
    prepare_dataset(dataset, out)
    print_text(f"{dataset!r}\nsaved in {out}")
    _print_findings(dataset, data)


def _load(data: str, settings: Settings, mirror: Path | None) -> Dataset:
    from hopwalk.api import load_dataset

    return load_dataset(data, settings, mirror=mirror, make_progress_bar=download_bar)


def _refuse_full_folder(folder: Path, *, force: bool) -> None:
    if folder.is_file():
        raise HopwalkError("this is a file, not a folder", path=folder, remedy="Choose a folder to write into.")
    if not force and folder.exists() and any(folder.iterdir()):
        raise HopwalkError("the folder is not empty", path=folder, remedy="Choose another one, or add --force to write into it.")


def _entry_dict(entry: Any) -> dict[str, Any]:
    fields = ("name", "title", "aliases", "about", "entities", "relations", "facts", "source", "citation", "licence")
    return {name: getattr(entry, name) for name in fields} | {"is_here": entry.is_here, "bytes": entry.num_bytes}


def _location(entry: Any) -> str:
    if entry.bundled:
        return "bundled"
    return "in the cache" if entry.is_here else f"download ({entry.num_bytes / 1e6:.1f} MB)"


def _statistics_rows(numbers: dict[str, Any]) -> list[tuple[str, int | float]]:
    rows: list[tuple[str, int | float]] = [
        ("entities", numbers["num_entities"]),
        ("  with a fact in the graph", numbers["num_entities_in_graph"]),
        ("relations", numbers["num_relations"]),
        ("  with queries", numbers["num_query_relations"]),
        ("facts in the graph", numbers["num_facts"]),
        ("facts of all splits", numbers["num_facts_in_all"]),
        ("training queries", numbers["num_train"]),
        ("valid queries", numbers["num_valid"]),
        ("test queries", numbers["num_test"]),
    ]
    for name, meaning in (("out_degree", "out-degree"), ("degree", "degree, both directions")):
        degrees = numbers[name]
        rows += [
            (f"{meaning}: mean", degrees["mean"]),
            ("  median", degrees["median"]),
            ("  largest", degrees["largest"]),
        ]
    return rows


def _finding_row(finding: Finding) -> tuple[str, str, str]:
    from hopwalk.utils.text import shorten

    parts = [finding.message]
    if finding.examples:
        parts.append("e.g. " + "; ".join(shorten(example, 90) for example in finding.examples))
    if finding.remedy:
        parts.append(with_options(finding.remedy))
    return finding.level, finding.code, "\n".join(parts)


def _print_findings(dataset: Dataset, data: str) -> None:
    """Report every change, omission and guess of the reader."""
    from hopwalk.data.addresses import Address, is_address

    for finding in dataset.findings:
        print_finding(finding)
    if dataset.findings:
        shown = Address.of(data).shown if is_address(data) else data  # without credentials
        print_text(f"Details: `hopwalk data check {shlex.quote(shown)}`.", to_stderr=True)
