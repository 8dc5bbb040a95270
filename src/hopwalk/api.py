"""The library's verbs: everything the command line does, from Python. `__all__` is the list of public names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from hopwalk.config.loading import DEFAULT, load_settings, suited_bounds, suited_settings
from hopwalk.config.settings import GraphSettings, Settings, changed
from hopwalk.data import catalog
from hopwalk.data.dataset import Dataset
from hopwalk.data.diagnostics import Report, diagnose
from hopwalk.data.exporting import export_predictions as export
from hopwalk.data.graph import Graph, build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.loading import load_dataset, prepare
from hopwalk.data.pykeen_bridge import from_pykeen, to_pykeen
from hopwalk.data.splitting import hold_out, split_dataset
from hopwalk.data.writing import write_folder
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.learning.callbacks import Callback, Forecast, MakeCallbacks, no_callbacks
from hopwalk.learning.run import Run
from hopwalk.utils.places import Place, open_place

if TYPE_CHECKING:
    from hopwalk.learning.evaluation import Evaluation
    from hopwalk.learning.fact_task import FactEvaluation
    from hopwalk.learning.ranking import Directions
    from hopwalk.learning.reliability import FactReliability
    from hopwalk.learning.scorer import Scorer
    from hopwalk.paper.running import Progress, Reproduced
    from hopwalk.reasoning.comparing import Comparison
    from hopwalk.reasoning.faithfulness import Faithfulness
    from hopwalk.reasoning.reasoner import Reasoner
    from hopwalk.tuning.study import OnTrial, Pruner, Tuned

__all__ = [
    "Dataset",
    "Graph",
    "HopwalkError",
    "KnownAnswers",
    "Settings",
    "accept",
    "check",
    "combine_scorers",
    "compare",
    "evaluate",
    "evaluate_facts",
    "export",
    "faithfulness",
    "forecast",
    "from_pykeen",
    "graph_of",
    "hold_out",
    "load",
    "load_dataset",
    "load_scorer",
    "load_settings",
    "open_place",
    "prepare",
    "reliability",
    "reproduce",
    "settings_for",
    "split_dataset",
    "to_pykeen",
    "train",
    "train_scorer",
    "tune",
    "write_folder",
]


HELD_OUT = 0.05  # share of a single file of your own


def settings_for(
    data: str | Path, *, preset: str | Path | None = None, overrides: Iterable[str] = (), dataset: Dataset | None = None
) -> Settings:
    """The settings for a data set: of the preset, or without one of its own preset if the catalog has it, else the defaults.

    For data of your own, give the `dataset` that was loaded from it: the settings then suit its size and density, and training
    holds out a twentieth of a single file (`split.hold_out`).
    """
    entry = catalog.find(data) if isinstance(data, str) else None
    suited = {}
    if dataset is not None and not preset and not entry:
        from hopwalk.propagation.suiting import suited_propagation

        degrees = dataset.degrees
        suited = suited_settings(np.minimum(degrees, GraphSettings().fan_out) + 1) | suited_bounds(degrees)  # a stay edge each
        suited |= suited_propagation(dataset)
        if not (len(dataset.valid) or len(dataset.test) or dataset.has_own_facts):
            suited |= {"split.hold_out": HELD_OUT}
    return load_settings(preset or (entry.name if entry else DEFAULT), overrides=overrides, suited=suited)


def graph_of(dataset: Dataset, settings: Settings | None = None) -> Graph:
    """The graph to walk.

    >>> graph_of(load_dataset("umls"))
    Graph(135 entities, 10,567 edges, at most 307 from one)
    """
    return build_graph(dataset.facts, len(dataset.entities), len(dataset.relations), (settings or Settings()).graph)


def check(dataset: Dataset, settings: Settings | None = None) -> Report:
    """The diagnostics of a data set."""
    return diagnose(dataset, settings)


def train_scorer(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    make_callbacks: MakeCallbacks = no_callbacks,
    tensorboard: bool = False,
    place: Place | None = None,
    processes: int | None = None,
) -> Run:
    """Train the scorer that the settings describe into a new run folder; Ctrl-C ends it early and leaves a usable run.

    With `resume`, continue the run in the folder; if there is none, begin it; if it is finished, do nothing.
    `make_callbacks(plan)` gives callbacks for the plan of the training; that of propagation has a forecast. Of data that is not
    split, `split.hold_out` is held out as dev. At a `place` of `open_place`, propagation is trained by so many `processes`, this
    one included: by default one for every CPU. If one of them is lost, training goes on from the last checkpoint.
    """
    from hopwalk.scorers.several import train_at

    settings = settings or Settings()
    return train_at(
        place,
        processes,
        Path(out),
        hold_out(dataset, settings.split.hold_out, seed=settings.split.seed),
        settings,
        resume=resume,
        callbacks=callbacks,
        make_callbacks=make_callbacks,
        tensorboard=tensorboard,
    )


def train(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    out: str | Path,
    reasoner: Literal["propagation", "walker"] = "propagation",
    scorer: str | Path | None = None,
    start: str | Path | None = None,
    resume: bool = False,
    make_callbacks: MakeCallbacks = no_callbacks,
    tensorboard: bool = False,
    place: Place | None = None,
    processes: int | None = None,
) -> Run:
    """Train a reasoner into a new run folder; Ctrl-C ends it early and leaves a usable run.

    That is propagation, or a walker: its scorer, which settings.scorer.model names, is trained first and rewards it. The other
    arguments are for walkers. With a `scorer`, a run folder, that one is copied instead of training another. With `start`, the
    run folder of a walker, training begins with its parameters and its scorer; with `walker.epochs` 0 only how it answers
    changes: fan-out, beam, hops. With `resume`, continue the run in the folder. `make_callbacks(plan)` gives the callbacks of
    each training. `place` and `processes` are for propagation, as for `train_scorer`.
    """
    settings = settings or Settings()
    if reasoner == "propagation":
        if scorer is not None or start is not None:
            raise SettingsError("a scorer to reward it and a run to start from are for walkers", remedy="Train a walker.")
        settings = changed(settings, {"scorer.model": "propagation"})
        return train_scorer(
            dataset,
            settings,
            out=out,
            resume=resume,
            make_callbacks=make_callbacks,
            tensorboard=tensorboard,
            place=place,
            processes=processes,
        )
    if (place is not None and not place.is_here) or processes is not None:
        raise SettingsError("only propagation is trained on several processes", remedy="Train a walker on one.")
    from hopwalk.walker.runs import train_into

    return train_into(
        Path(out),
        hold_out(dataset, settings.split.hold_out, seed=settings.split.seed),
        settings,
        scorer_run=Path(scorer) if scorer else None,
        start=Path(start) if start else None,
        resume=resume,
        make_callbacks=make_callbacks,
        tensorboard=tensorboard,
    )


def forecast(dataset: Dataset, settings: Settings | None = None) -> Forecast:
    """The approximate memory and time that the training of a walker takes on this machine."""
    from hopwalk.walker.forecast import forecast as forecast_training

    settings = settings or Settings()
    has_scorer = settings.walker.reward_shaping
    return forecast_training(graph_of(dataset, settings), len(dataset.train), settings, has_scorer=has_scorer)


def load(run: str | Path) -> Reasoner:
    """The reasoner of a run folder, to be asked: `hopwalk.load("runs/umls").ask("steroid", "interacts_with")`."""
    from hopwalk.reasoning.reasoner import Reasoner

    return Reasoner.load(run)


def combine_scorers(runs: Sequence[str | Path], *, out: str | Path) -> Run:
    """Combine scorers into an ensemble, in a new run folder that holds copies of them."""
    from hopwalk.scorers.runs import combine_into

    return combine_into(Path(out), runs)


def load_scorer(run: str | Path) -> Scorer:
    """The scorer of a run folder."""
    from hopwalk.scorers.runs import load_scorer as load_from

    return load_from(run)


def accept(run: str | Path) -> int:
    """Accept the files of a run as they are now, after an edit of one's own; returns their number.

    A run states the SHA-256 of each of its files in `digests.json`, and a file that was changed is refused.
    """
    return Run(Path(run)).accept()


def evaluate(
    run: str | Path,
    split: str = "test",
    *,
    complete_filter: bool = False,
    directions: Directions | None = None,
    untrained_control: bool = False,
    as_asked: bool = False,
    place: Place | None = None,
) -> dict[str, Evaluation]:
    """Rank the answers of a split, and write `evaluation-SPLIT.json` into the run's folder.

    The result has one entry, "policy" of a walker or "scorer"; `untrained_control` adds that of a walker with a random policy,
    as "untrained_policy", and `as_asked` the ranking by probability, as `ask` shows it. `complete_filter` filters test facts on
    dev too (the paper's appendix). Scorers are asked in both directions, walkers for tails,
    unless `directions` says so. At a `place` of `open_place`, queries are ranked there.
    """
    from hopwalk.reasoning.evaluating import evaluate_run

    return evaluate_run(
        run,
        split,
        complete_filter=complete_filter,
        directions=directions,
        untrained_control=untrained_control,
        as_asked=as_asked,
        place=place,
    )


def reliability(run: str | Path) -> FactReliability:
    """How true the probabilities of a run are on test; also written to `reliability-test.json`, a chart and the card."""
    from hopwalk.reasoning.evaluating import reliability_of_run

    return reliability_of_run(run)


def evaluate_facts(
    run: str | Path, split: str = "test", *, num_negatives: int = 10, seed: int = 0, negatives: str | Path | None = None
) -> FactEvaluation:
    """Rank the facts of a split among false ones, MAP by relation, as DeepPath, DIVA and PRA are compared.

    False facts are sampled: other tails of the relation in the graph. With `negatives`, a file of head, relation, tail and + or
    -, or the folder `tasks` of DeepPath's release, those are ranked instead. Writes `facts-SPLIT.json` into the run's folder.
    """
    from hopwalk.reasoning.evaluating import evaluate_facts_of_run

    return evaluate_facts_of_run(run, split, num_negatives=num_negatives, seed=seed, negatives=negatives)


def faithfulness(
    run: str | Path, split: str = "test", *, num_queries: int = 500, num_paths: int = 3, seed: int = 0
) -> Faithfulness:
    """How far right answers fall without the paths that are shown for them, against random facts in their place.

    Right answers are those that are ranked first in a sample of `num_queries` tail queries of the split, 0: all of them. Writes
    `faithfulness-SPLIT.json` and a chart, `faithfulness-SPLIT.svg`, into the run's folder.
    """
    from hopwalk.reasoning.evaluating import faithfulness_of_run

    return faithfulness_of_run(run, split, num_queries=num_queries, num_paths=num_paths, seed=seed)


def compare(first: str | Path, second: str | Path, split: str = "test", *, num_examples: int = 5) -> Comparison:
    """Two runs of the same data on the same queries: the difference and its significance, by relation, with examples."""
    from hopwalk.reasoning.comparing import compare as compare_runs

    return compare_runs(first, second, split, num_examples=num_examples)


def tune(
    dataset: Dataset,
    settings: Settings | None = None,
    *,
    study: str | Path,
    what: str = "propagation",
    space: str | Path = "modern",
    trials: int = 20,
    scorer: str | Path | None = None,
    pruner: Pruner = "median",
    fixed: Sequence[str] = (),
    on_trial: OnTrial | None = None,
    make_callbacks: MakeCallbacks = no_callbacks,
    place: Place | None = None,
) -> Tuned:
    """Search for better settings of propagation, of a "walker" or of the scorer whose model is `what`, by dev MRR.

    `study` is the SQLite file that keeps them; the same call continues it. `space` is "paper", "modern" or a TOML file; settings
    of it that are `fixed` stay. A walker's `scorer`, a run folder, is trained first if none is given. The best settings are
    written as a preset. At a `place` of `open_place`, trials are trained there, several at once.
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
        make_callbacks=make_callbacks,
        place=place,
    )


def reproduce(
    names: Sequence[str],
    *,
    out: str | Path,
    data_sets: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    train: bool = True,
    runs: Path | None = None,
    ledger: Path | None = None,
    most_epochs: int = 0,
    only: Sequence[str] = (),
    mirror: Path | None = None,
    progress: Progress | None = None,
    place: Place | None = None,
) -> Reproduced:
    """Reproduce tables and figures of the paper ("table2", …, or "all"): train what is missing, write the report to `out`.

    At a `place` of `open_place`, the missing runs are trained there, several at once.
    """
    from hopwalk.paper.running import reproduce as reproduce_paper

    return reproduce_paper(
        names,
        out=Path(out),
        data_sets=data_sets,
        seeds=seeds,
        quick=quick,
        train=train,
        runs=runs,
        ledger=ledger,
        most_epochs=most_epochs,
        only=only,
        mirror=mirror,
        progress=progress,
        place=place,
    )
