"""The library's front door: what the command line does, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hopwalk.config.settings import ReadSettings, Settings, load_settings, suited_settings
from hopwalk.data import catalog
from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.diagnostics import Report, examine
from hopwalk.data.download import MakeProgressBar
from hopwalk.data.graph import Graph, build_graph
from hopwalk.data.reading import is_there, read_path, split_files
from hopwalk.data.splitting import split_dataset
from hopwalk.errors import DataError, SavedFileError, SettingsError, UnknownNameError, did_you_mean
from hopwalk.learning.run import Run
from hopwalk.utils.arrays import ArrayFile

if TYPE_CHECKING:
    from hopwalk.learning.evaluation import Evaluation
    from hopwalk.learning.ranking import Directions
    from hopwalk.learning.training import Watcher
    from hopwalk.reasoning.comparing import By, Comparison
    from hopwalk.reasoning.reasoner import LoadedWalker
    from hopwalk.scorers.base import Scorer
    from hopwalk.tuning.study import OnTrial, Pruner, Tuned
    from hopwalk.walker.forecast import Forecast
    from hopwalk.walker.runs import MakeWatchers

__all__ = [
    "check",
    "combine_scorers",
    "compare",
    "evaluate",
    "evaluate_walker",
    "forecast",
    "graph_of",
    "load",
    "load_dataset",
    "load_scorer",
    "open_prepared",
    "prepare",
    "settings_for",
    "split_dataset",
    "train",
    "train_scorer",
    "tune",
]

PREPARED_DATASET = "dataset.safetensors"
PREPARED_GRAPH = "graph.safetensors"


def load_dataset(
    data: str | Path,
    settings: Settings | None = None,
    *,
    mirror: Path | None = None,
    make_progress_bar: MakeProgressBar | None = None,
) -> Dataset:
    """A data set by its name in the catalog, by `pykeen:NAME`, or from a file or folder of triples.

    A name of the catalog comes before a file of that name; write `./umls` for the file.

    >>> load_dataset("umls")
    Dataset('umls': 135 entities, 46 relations, 5,216 facts; 5,216 / 652 / 661 questions)
    """
    settings = settings or Settings()
    if isinstance(data, str) and data.startswith("pykeen:"):
        from hopwalk.data.pykeen_bridge import from_pykeen

        return from_pykeen(data.removeprefix("pykeen:"), fold_inverses=settings.read.fold_inverses)
    entry = catalog.find(data) if isinstance(data, str) else None
    if entry:
        _refuse_reading_options(settings, entry.name)
        return catalog.load(entry, mirror=mirror, make_progress_bar=make_progress_bar)
    path = Path(data)
    if isinstance(data, str) and not is_there(path) and len(path.parts) == 1:
        names = [*catalog.entries(), *(entry.name for entry in Path().iterdir())]
        remedy = did_you_mean(data, names) or f"Data sets: {', '.join(catalog.entries())}; or the path of your own file."
        raise UnknownNameError(f"there is neither a data set nor a file {data!r}", remedy=remedy)
    if is_there(path / PREPARED_DATASET):
        _refuse_reading_options(settings, str(path))
        if split_files(path):
            raise DataError("the folder holds a prepared data set and text files", path=path, remedy="Keep one of the two.")
        return Dataset.load(path / PREPARED_DATASET)
    labelled = read_path(path, settings.read)
    name = path.name if path.name not in ("", "..") else path.resolve().name
    name = name if path.is_dir() else Path(name.removesuffix(".gz")).stem
    return assemble(name, labelled, fold_inverses=settings.read.fold_inverses)


def _refuse_reading_options(settings: Settings, name: str) -> None:
    if settings.read != ReadSettings():
        said = [key for key, value in settings.read if value != getattr(ReadSettings(), key)]
        raise SettingsError(f"{name} is no file of yours: read.{said[0]} has no meaning for it", remedy="Leave it out.")


def settings_for(
    data: str | Path, *, preset: str | Path | None = None, overrides: Iterable[str] = (), dataset: Dataset | None = None
) -> Settings:
    """The settings of a preset; where none is named, of the data set's own if the catalog has it, else the defaults.

    For data of your own, give the `dataset` that was loaded from it: defaults are then suited to its size and density.
    """
    entry = catalog.find(data) if isinstance(data, str) else None
    suited = suited_settings(graph_of(dataset).degrees) if dataset is not None and not preset and not entry else {}
    return load_settings(preset or (entry.name if entry else "default"), overrides=overrides, suited=suited)


def graph_of(dataset: Dataset, settings: Settings | None = None) -> Graph:
    """The graph to walk.

    >>> graph_of(load_dataset("umls"))
    Graph(135 entities, 10,567 edges, at most 307 from one)
    """
    return build_graph(dataset.facts, len(dataset.entities), len(dataset.relations), (settings or Settings()).graph)


def check(dataset: Dataset, settings: Settings | None = None) -> Report:
    """The doctor's report on a data set."""
    return examine(dataset, settings)


def prepare(dataset: Dataset, folder: str | Path, settings: Settings | None = None) -> Graph:
    """Save the data set and its graph to a folder that opens at once, memory-mapped; the graph."""
    settings = settings or Settings()
    beside = split_files(Path(folder))
    if beside:
        raise DataError(
            f"the folder holds {beside[0].name}: text and prepared files in one folder would be mixed up", path=folder
        )
    graph = graph_of(dataset, settings)
    about = {"dataset_checksum": dataset.save(Path(folder) / PREPARED_DATASET), **settings.graph.model_dump()}
    graph = replace(graph, about=about)
    graph.save(Path(folder) / PREPARED_GRAPH)
    return graph


def open_prepared(folder: str | Path) -> tuple[Dataset, Graph]:
    """The data set and the graph that `prepare` saved."""
    file, graph = ArrayFile(Path(folder) / PREPARED_DATASET, kind="dataset"), Graph.load(Path(folder) / PREPARED_GRAPH)
    if graph.about.get("dataset_checksum") != file.checksum:
        raise SavedFileError("the data set and the graph of this folder do not belong together", path=folder)
    return Dataset.from_file(file), graph


def train_scorer(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    watcher: Watcher | None = None,
    tensorboard: bool = False,
) -> Run:
    """Train the scorer that the settings describe into a new run folder; Ctrl-C ends it early and leaves a usable run.

    With `resume`, go on with the run that is in the folder; if there is none, begin it; if it is finished, do nothing.
    A `watcher` is told of every batch and evaluation; `tensorboard` writes the history for TensorBoard too.
    """
    from hopwalk.scorers.runs import train_into

    watchers = [watcher] if watcher else []
    return train_into(Path(out), dataset, settings or Settings(), resume=resume, watchers=watchers, tensorboard=tensorboard)


def train(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    out: str | Path,
    scorer: str | Path | None = None,
    start: str | Path | None = None,
    resume: bool = False,
    make_watchers: MakeWatchers | None = None,
    tensorboard: bool = False,
) -> Run:
    """Train a scorer and then a walker that it rewards into a new run folder; Ctrl-C ends it early and leaves a usable run.

    With a `scorer`, the folder of a run, that one is copied instead of training another. With `start`, that of a walker,
    training begins with its parameters and its scorer; with `walker.epochs` 0, only how it answers changes: its scorer,
    fan-out, beam, hops. With `resume`, go on with the run in the folder. `make_watchers("scorer" or "walker", epochs)` gives
    those who are told of every batch and evaluation.
    """
    from hopwalk.walker.runs import train_into

    return train_into(
        Path(out),
        dataset,
        settings or Settings(),
        scorer_run=Path(scorer) if scorer else None,
        start=Path(start) if start else None,
        resume=resume,
        make_watchers=make_watchers or (lambda *_: ()),
        tensorboard=tensorboard,
    )


def forecast(dataset: Dataset, settings: Settings | None = None) -> Forecast:
    """About how much memory and time the training of a walker takes on this machine."""
    from hopwalk.walker.forecast import forecast as make
    from hopwalk.walker.runs import needs_scorer

    settings = settings or Settings()
    return make(graph_of(dataset, settings), len(dataset.train), settings, has_scorer=needs_scorer(settings))


def load(run: str | Path) -> LoadedWalker:
    """The walker of a run folder, to be asked: `hopwalk.load("runs/umls").ask("steroid", "interacts_with")`."""
    from hopwalk.reasoning.reasoner import LoadedWalker

    return LoadedWalker.of(run)


def combine_scorers(runs: Sequence[str | Path], *, out: str | Path) -> Run:
    """Make an ensemble of several runs, in a new run folder that holds copies of them."""
    from hopwalk.scorers.runs import combine_into

    return combine_into(Path(out), runs)


def load_scorer(run: str | Path) -> Scorer:
    """The scorer of a run folder, ready to score."""
    from hopwalk.scorers.runs import load_scorer as load

    return load(run)


def evaluate(run: str | Path, split: str = "test", *, complete_filter: bool = False) -> Evaluation:
    """Rank the answers of a split, and write `evaluation-SPLIT.json` into the run folder.

    A scorer's run is ranked by its scores, a walker's by its paths; `evaluate_walker` has its other rankings.
    """
    from hopwalk.learning.evaluation import evaluate_split

    folder = Run.open(run)
    if folder.about["kind"] == "walker":
        return evaluate_walker(run, split, complete_filter=complete_filter)["paths"]
    if split == "valid" and folder.settings.scorer.learn_valid:
        raise DataError("the scorer has learnt the dev facts, so it cannot be asked for them", remedy="Evaluate it on test.")
    evaluation = evaluate_split(load_scorer(run).numpy_scores, folder.dataset, split, complete_filter=complete_filter)
    folder.write_json(_evaluation_file(split, complete_filter), evaluation.to_dict())
    return evaluation


def evaluate_walker(
    run: str | Path, split: str = "test", *, complete_filter: bool = False, directions: Directions = "tails"
) -> dict[str, Evaluation]:
    """Rank the answers of a split by a walker's paths, by their probability alone, by its scorer alone, and by the blend of both.

    All of them are written to `evaluation-SPLIT.json` in the run folder. Head questions are asked with `directions="both"`.
    """
    from hopwalk.walker.runs import evaluate_walker as evaluate_trained
    from hopwalk.walker.runs import load_walker

    trained = load_walker(run)
    found = evaluate_trained(trained, split, complete_filter=complete_filter, directions=directions)
    content = {name: evaluation.to_dict() for name, evaluation in found.items()}
    trained.run.write_json(_evaluation_file(split, complete_filter), content | {"blend_weight": trained.blend_weight})
    return found


def compare(
    first: str | Path, second: str | Path, split: str = "test", *, by: Sequence[By] = ("paths",), num_examples: int = 5
) -> Comparison:
    """Two runs of the same data on the same questions: the difference and how sure it is, relations and examples that changed.

    `by` says how walkers rank: one of "paths", "probability", "scorer" and "blend" for both runs, or one for each.
    """
    from hopwalk.reasoning.comparing import compare as compare_runs

    return compare_runs(first, second, split, by=by, num_examples=num_examples)


def tune(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    study: str | Path,
    what: str = "walker",
    space: str | Path = "modern",
    trials: int = 20,
    scorer: str | Path | None = None,
    pruner: Pruner = "median",
    fixed: Sequence[str] = (),
    on_trial: OnTrial | None = None,
    make_watchers: MakeWatchers | None = None,
) -> Tuned:
    """Search for better settings of a walker, or of the scorer whose model is `what`, by dev MRR, until there are so many trials.

    `study` is the SQLite file that keeps them; the same call goes on with it. `space` is "paper", "modern" or a TOML file;
    settings of it that are `fixed` stay. A walker's `scorer`, the folder of a run, is trained first if none is given. The best
    settings are written as a preset.
    """
    from hopwalk.tuning.study import tune_into

    return tune_into(
        Path(study),
        dataset,
        settings or Settings(),
        what=what,
        space=space,
        trials=trials,
        scorer_run=Path(scorer) if scorer else None,
        pruner=pruner,
        fixed=fixed,
        on_trial=on_trial or (lambda *_: None),
        make_watchers=make_watchers or (lambda *_: ()),
    )


def _evaluation_file(split: str, complete_filter: bool) -> str:
    return f"evaluation-{split}{'-complete' if complete_filter and split == 'valid' else ''}.json"
