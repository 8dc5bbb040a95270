"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hopwalk.config.settings import Settings
    from hopwalk.data.dataset import Dataset
    from hopwalk.utils.places import Place

Data = Annotated[
    str,
    typer.Argument(
        help="A data set of the catalog, a file or folder of triples, pykeen:NAME, or an address: postgresql://…, sqlite:///…, "
        "https://… of a SPARQL endpoint.",
        show_default=False,
    ),
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
Query = Annotated[
    str | None,
    typer.Option(
        help="Of a database or a SPARQL endpoint: the query for head, relation and tail.",
        rich_help_panel="Reading",
        show_default=False,
    ),
]
Labels = Annotated[Path | None, typer.Option(help="A table of readable names: label, tab, name.", rich_help_panel="Reading")]

Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Threads to compute with; all cores if not given.", show_default=False)
]
On = Annotated[
    str,
    typer.Option("--on", metavar="PLACE", help="Where to work: local, ray, or ray:HOST:PORT, the address of a Ray cluster."),
]

_READING: dict[str, Any] = {
    "format": Format,
    "separator": Separator,
    "columns": Columns,
    "header": Header,
    "quote": Quote,
    "labels": Labels,
    "query": Query,
}


Reasoner = Annotated[
    str | None,
    typer.Option(help="What answers: propagation, all walks at once; or walker, the paper's agent. [default: propagation]"),
]
# Short forms of `--set`.
Scorer = Annotated[
    str | None,
    typer.Option(
        help="Train only this scorer: propagation, neural-lp, drum, ntp, distmult, complex, conve, pykeen:MODEL or an own one.",
        show_default=False,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(help="The scorer that rewards the walker: a name as for --scorer, or a run folder.", show_default=False),
]
RewardShaping = Annotated[
    bool | None,
    typer.Option("--reward-shaping/--no-reward-shaping", help="Shape the reward by the scorer?", show_default=False),
]
ActionDropout = Annotated[
    float | None, typer.Option(help="Share of the actions masked when walks are sampled; 0: none.", show_default=False)
]
WalkerRecipe = Annotated[
    str | None,
    typer.Option(
        "--walker", help="Recipe for every setting of the walker you do not set: modern, paper or minerva.", show_default=False
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(help="Recipe for every setting of the scorer you do not set: modern or paper.", show_default=False),
]
Epochs = Annotated[int | None, typer.Option(help="Passes over all queries, at most.", show_default=False)]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same result.", show_default=False)]
_TRAINING: dict[str, Any] = {
    "reasoner": Reasoner,
    "scorer": Scorer,
    "walker": WalkerRecipe,
    "reward": Reward,
    "reward_shaping": RewardShaping,
    "action_dropout": ActionDropout,
    "recipe": Recipe,
    "epochs": Epochs,
    "seed": Seed,
}


def _as_settings(options: dict[str, Any], reasoner: str) -> dict[str, Any]:
    """The settings that the training options stand for, by dotted name; epochs are the scorer's if only it is trained."""
    is_ntp = str(options.get("scorer", "")).lower() == "ntp"
    names = {
        "reasoner": [],
        "scorer": ["scorer.model"],
        "walker": ["walker.recipe"],
        "reward": [] if "reward" in options and is_run_folder(options["reward"]) else ["scorer.model"],
        "reward_shaping": ["walker.reward_shaping"],
        "action_dropout": ["walker.action_dropout"],
        "recipe": ["scorer.recipe"],
        "epochs": ["walker.epochs" if reasoner == "walker" else "ntp.epochs" if is_ntp else "scorer.epochs"],
        "seed": ["scorer.seed", "walker.seed", "propagation.seed", "rules.seed", "ntp.seed"],
    }
    return {setting: value for name, value in options.items() for setting in names[name]}


OF_WALKER = ("walker", "reward", "reward_shaping", "action_dropout", "start")


def _reasoner(options: dict[str, Any]) -> str:
    """The kind to train: "propagation", "walker" (its options imply it), or with --scorer "scorer"."""
    from hopwalk.errors import SettingsError, did_you_mean
    from hopwalk.utils.text import fold_name

    named, of_walker = options.get("reasoner"), [name for name in OF_WALKER if name in options]
    if named not in (None, "propagation", "walker"):
        remedy = did_you_mean(str(named), ["propagation", "walker"]) or "Reasoners are propagation and walker."
        raise SettingsError(f"there is no reasoner {named!r}", remedy=remedy)
    if "scorer" in options and named is not None:
        raise SettingsError("--scorer trains only a scorer: --reasoner does not apply", remedy="Leave one of them out.")
    if ("scorer" in options or named == "propagation") and of_walker:
        option, chosen = f"--{of_walker[0].replace('_', '-')}", "--scorer" if "scorer" in options else "--reasoner propagation"
        raise SettingsError(f"{option} is for walkers, and {chosen} trains none", remedy="Leave one of them out.")
    chosen = "walker" if of_walker else named or "propagation"
    model = fold_name(str(options.get("scorer", chosen)))
    if "epochs" in options and model in ("propagation", "neurallp", "drum"):
        group = "propagation" if model == "propagation" else "rules"
        remedy = f"Set {group}.queries (--set {group}.queries=NUMBER)."
        raise SettingsError("--epochs does not apply: this model is trained for a number of queries", remedy=remedy)
    return "scorer" if "scorer" in options else chosen


@contextmanager
def place_of(on: str) -> Iterator[Place]:
    """The place that `--on` names; a line on standard error says what a cluster has."""
    from hopwalk.cli.console import print_text
    from hopwalk.utils.places import open_place

    with open_place(on) as place:
        if place.describe():
            print_text(place.describe(), to_stderr=True)
        yield place


def is_run_folder(text: str) -> bool:
    """Whether the text is the path of a run, rather than the name of a model."""
    return (Path(text) / "run.json").exists()


def takes_threads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option `--threads`.

    Threads that wait for each other sleep (a passive wait policy), so that a busy machine is not kept busier. Both are read when
    torch and polars are first imported, which is after this.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    added = inspect.Parameter("threads", inspect.Parameter.KEYWORD_ONLY, annotation=Threads, default=None)

    def run(threads: int | None = None, **given: Any) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = str(threads)
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(threads)
        command(**given)

    return _like(run, command, [*own, added])


def _like(run: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """The function with the name and documentation of a command, and these parameters."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options that make up its `settings`: how to read, `--preset` and `--set`."""
    return _with_options(command, {})


def takes_training_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on `data` the options of `takes_settings` and those of training.

    Its `settings` is a function: without an argument for reading the data, with the data set for settings that suit it. A
    command with a parameter `fixed` gets the names of the settings that were given.
    """
    return _with_options(command, _TRAINING, depends_on_data=True)


def _with_options(command: Callable[..., None], more: dict[str, Any], *, depends_on_data: bool = False) -> Callable[..., None]:
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    added = {**more, "preset": Preset, "overrides": Overrides, **_READING}
    parameters = [parameter for parameter in own if parameter.name not in ("settings", "fixed", *more)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
        for name, annotation in added.items()
    ]

    def run(**given: Any) -> None:
        from hopwalk.api import settings_for
        from hopwalk.config.settings import changed

        reading = {name: given.pop(name) for name in _READING}
        training = {name: value for name in more if (value := given.pop(name)) is not None}
        reasoner = _reasoner(training | ({"start": given["start"]} if given.get("start") else {}))
        overrides = [f"{name}={json.dumps(value)}" for name, value in _as_settings(training, reasoner).items()]
        overrides += given.pop("overrides") or ()
        preset = given.pop("preset")

        def settings(dataset: Dataset | None = None) -> Settings:
            made = settings_for(given["data"], preset=preset, overrides=overrides, dataset=dataset)
            return changed(made, _reading_settings(reading))

        kept: dict[str, Any] = {"scorer": training.get("scorer"), "reward": training.get("reward")} if more else {}
        if any(parameter.name == "reasoner" for parameter in own):
            kept["reasoner"] = reasoner
        if any(parameter.name == "fixed" for parameter in own):
            kept["fixed"] = [override.partition("=")[0].strip() for override in overrides]
        command(**given, **kept, settings=settings if depends_on_data else settings())

    return _like(run, command, parameters)


def _reading_settings(reading: dict[str, Any]) -> dict[str, Any]:
    """The reading options that were given, as settings."""
    return {
        f"read.{name}": {True: "yes", False: "no"}[value] if name == "header" else str(value)
        for name, value in reading.items()
        if value is not None
    }
