"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    str,
    typer.Argument(help="A data set of the catalog, a file or folder of triples, or pykeen:NAME.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Mirror = Annotated[
    Path | None,
    typer.Option(help="A folder with the files to download, under their addresses.", envvar="HOPWALK_MIRROR", show_default=False),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, e.g. graph.fan_out=200; see `hopwalk settings`."),
]
Preset = Annotated[
    str | None,
    typer.Option(help="Settings to begin with: a preset, or a TOML file; see `hopwalk settings`.", show_default=False),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="auto, table, triples (head tail relation), openke, minerva, parquet or rdf.",
        rich_help_panel="Reading",
    ),
]
Separator = Annotated[str | None, typer.Option(help="What stands between columns: tab, comma, ';' …", rich_help_panel="Reading")]
Columns = Annotated[
    str | None,
    typer.Option(help="Where head, relation and tail stand: 1,3,2 or names in the header.", rich_help_panel="Reading"),
]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Is the first line a header?", rich_help_panel="Reading")
]
Quote = Annotated[str | None, typer.Option(help='May "…" enclose a field? auto, yes or no.', rich_help_panel="Reading")]
Labels = Annotated[Path | None, typer.Option(help="A table of readable names: label, tab, name.", rich_help_panel="Reading")]


_READING: dict[str, Any] = {
    "format": Format,
    "separator": Separator,
    "columns": Columns,
    "header": Header,
    "quote": Quote,
    "labels": Labels,
}


# Short forms of `--set`: the option, and the setting it stands for.
Scorer = Annotated[
    str | None,
    typer.Option(help="distmult, complex, conve, or pykeen:MODEL; complex if not said.", show_default=False),
]
Recipe = Annotated[str | None, typer.Option(help="How to train: modern or paper; modern if not said.", show_default=False)]
Epochs = Annotated[int | None, typer.Option(help="How often to go through all questions, at most.", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same result.", show_default=False)]
_SCORER: dict[str, Any] = {"scorer": Scorer, "recipe": Recipe, "epochs": Epochs, "seed": Seed}
_SETTINGS = {"scorer": "scorer.model", "recipe": "scorer.recipe", "epochs": "scorer.epochs", "seed": "scorer.seed"}


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options that make up its `settings`: how to read, `--preset` and `--set`."""
    return _with_options(command, {})


def takes_scorer_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options of `takes_settings` and those of a scorer."""
    return _with_options(command, _SCORER)


def _with_options(command: Callable[..., None], more: dict[str, Any]) -> Callable[..., None]:
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    added = {**more, "preset": Preset, "overrides": Overrides, **_READING}
    parameters = [parameter for parameter in own if parameter.name != "settings"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
        for name, annotation in added.items()
    ]

    def run(**given: Any) -> None:
        from hopwalk.api import settings_for
        from hopwalk.config import changed

        reading = {name: given.pop(name) for name in _READING}
        said = {_SETTINGS[name]: given.pop(name) for name in more}
        overrides = [f"{name}={json.dumps(value)}" for name, value in said.items() if value is not None]
        overrides += given.pop("overrides") or ()
        settings = settings_for(given["data"], preset=given.pop("preset"), overrides=overrides)
        command(**given, settings=changed(settings, _said(reading)))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _said(reading: dict[str, Any]) -> dict[str, Any]:
    """The reading options that were given, as settings."""
    return {
        f"read.{name}": {True: "yes", False: "no"}[value] if name == "header" else str(value)
        for name, value in reading.items()
        if value is not None
    }
