"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hopwalk.config.settings import Settings
    from hopwalk.data.dataset import Dataset

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


# Short forms of `--set`.
Scorer = Annotated[
    str | None,
    typer.Option(help="Train nothing but this scorer: distmult, complex, conve, or pykeen:MODEL.", show_default=False),
]
Reward = Annotated[
    str | None,
    typer.Option(help="The scorer that rewards the walker: a name as for --scorer, or a run folder.", show_default=False),
]
RewardShaping = Annotated[
    bool | None,
    typer.Option("--reward-shaping/--no-reward-shaping", help="Reward walks by the scorer's opinion?", show_default=False),
]
ActionDropout = Annotated[
    float | None, typer.Option(help="Share of the edges left out when walks are sampled; 0: none.", show_default=False)
]
Guidance = Annotated[
    float | None,
    typer.Option(help="First weight of the scorer's opinion in the walk; 0: the paper's policy.", show_default=False),
]
WalkerRecipe = Annotated[
    str | None, typer.Option("--walker", help="How to walk: modern, paper or minerva; modern if not said.", show_default=False)
]
Recipe = Annotated[str | None, typer.Option(help="How to train: modern or paper; modern if not said.", show_default=False)]
Epochs = Annotated[int | None, typer.Option(help="How often to go through all questions, at most.", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same result.", show_default=False)]
_TRAINING: dict[str, Any] = {
    "scorer": Scorer,
    "walker": WalkerRecipe,
    "reward": Reward,
    "reward_shaping": RewardShaping,
    "action_dropout": ActionDropout,
    "guidance": Guidance,
    "recipe": Recipe,
    "epochs": Epochs,
    "seed": Seed,
}


def _as_settings(said: dict[str, Any]) -> dict[str, Any]:
    """The settings that the training options stand for, by dotted name; epochs are the scorer's if only it is trained."""
    is_scorer = "scorer" in said
    names = {
        "scorer": ["scorer.model"],
        "walker": ["walker.recipe"],
        "reward": [] if "reward" in said and is_run_folder(said["reward"]) else ["scorer.model"],
        "reward_shaping": ["walker.reward_shaping"],
        "action_dropout": ["walker.action_dropout"],
        "guidance": ["walker.guidance"],
        "recipe": ["scorer.recipe"],
        "epochs": ["scorer.epochs" if is_scorer else "walker.epochs"],
        "seed": ["scorer.seed", "walker.seed"],
    }
    return {setting: value for name, value in said.items() for setting in names[name]}


def _refuse_contradictions(said: dict[str, Any]) -> None:
    """An error if something is said of the walker where only a scorer is trained."""
    from hopwalk.errors import SettingsError

    of_walker = [name for name in ("walker", "reward", "reward_shaping", "action_dropout", "guidance") if name in said]
    if "scorer" in said and of_walker:
        option = f"--{of_walker[0].replace('_', '-')}"
        raise SettingsError(f"--scorer trains nothing but a scorer: {option} has no meaning with it", remedy="Leave one out.")


def is_run_folder(text: str) -> bool:
    """Whether that is the path of a run, rather than the name of a model."""
    return (Path(text) / "run.json").exists()


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options that make up its `settings`: how to read, `--preset` and `--set`."""
    return _with_options(command, {})


def takes_training_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options of `takes_settings` and those of training.

    A command that has a parameter `said` is told the names of the settings that were given.
    Its `settings` is a function: of nothing, for reading the data; of the data set, for what suits it.
    """
    return _with_options(command, _TRAINING, depends_on_data=True)


def _with_options(command: Callable[..., None], more: dict[str, Any], *, depends_on_data: bool = False) -> Callable[..., None]:
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    added = {**more, "preset": Preset, "overrides": Overrides, **_READING}
    parameters = [parameter for parameter in own if parameter.name not in ("settings", "said", *more)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
        for name, annotation in added.items()
    ]

    def run(**given: Any) -> None:
        from hopwalk.api import settings_for
        from hopwalk.config.settings import changed

        reading = {name: given.pop(name) for name in _READING}
        said = {name: value for name in more if (value := given.pop(name)) is not None}
        _refuse_contradictions(said)
        overrides = [f"{name}={json.dumps(value)}" for name, value in _as_settings(said).items()]
        overrides += given.pop("overrides") or ()
        preset = given.pop("preset")

        def settings(dataset: Dataset | None = None) -> Settings:
            made = settings_for(given["data"], preset=preset, overrides=overrides, dataset=dataset)
            return changed(made, _said(reading))

        kept: dict[str, Any] = {"scorer": said.get("scorer"), "reward": said.get("reward")} if more else {}
        if any(parameter.name == "said" for parameter in own):
            kept["said"] = [override.partition("=")[0].strip() for override in overrides]
        command(**given, **kept, settings=settings if depends_on_data else settings())

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
