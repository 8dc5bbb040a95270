"""`hopwalk train`, `ensemble` and `accept`: from a data set to a run."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_text, printable
from hopwalk.cli.progress import TrainingProgress, download_bar, ranking_progress
from hopwalk.config.settings import Settings, changed
from hopwalk.utils.text import counted

if TYPE_CHECKING:
    from hopwalk.data.dataset import Dataset
    from hopwalk.learning.run import Run

SECONDS_TO_PLAN = 0.5  # of training batches that are timed
ADVISED_MINUTES = 10.0  # for a graph that would take hours
INTERRUPTED = 130  # exit code after Ctrl-C
PROPAGATION: Literal["propagation"] = "propagation"  # --reasoner
WALKER: Literal["walker"] = "walker"
RunFolder = Annotated[Path, typer.Argument(help="A run folder, as `hopwalk train` writes it.", show_default=False)]


@options.takes_training_settings
def train(
    data: options.Data,
    settings: Callable[..., Settings],
    fixed: Sequence[str],
    reasoner: str,
    scorer: str | None,
    reward: str | None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to write. [default: runs/DATA, runs/DATA-walker or runs/DATA-SCORER]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder, if there is one.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(help="A walker's run to start from; with --epochs 0 only how it answers changes: beam, hops, fan-out."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, max=100_000, help="Train propagation for about this long.", show_default=False),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            "--hold-out",
            min=0,
            max=0.5,
            help="Share of a single file to hold out as dev; 0: none. [default: 0.05]",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the history for TensorBoard.")] = False,
    on: options.On = "local",
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="With --on ray: processes that train propagation. [default: one for each CPU]"),
    ] = None,
    mirror: options.Mirror = None,
) -> None:
    """Train a reasoner: propagation, or with --reasoner walker the paper's agent; or with --scorer any other scorer.

    A walker is rewarded by propagation, which is trained first, unless --reward names another scorer. Options of the walker
    imply --reasoner walker. Ctrl-C ends training early; the run is usable, and `--resume` continues it.

    Of a single file, a twentieth of the facts is held out to measure and calibrate the reasoner; it is in its graph again when it
    answers. Propagation is trained for two minutes at most if the file has no more than 50,000 facts.

    Examples:

    - `hopwalk train umls`

    - `hopwalk train facts.csv`

    - `hopwalk train facts.csv --minutes 5 --hold-out 0`

    - `hopwalk train umls --reasoner walker`

    - `hopwalk train kinship --walker paper --reward conve --action-dropout 0.8 --out runs/kinship-conve`

    - `hopwalk train umls --scorer complex --recipe paper --seed 1`

    - `hopwalk train umls --start runs/umls-walker --epochs 0 --set walk.beam=256 --out runs/umls-wide`
    """
    from hopwalk import api
    from hopwalk.data import catalog
    from hopwalk.errors import SettingsError
    from hopwalk.learning.run import Run
    from hopwalk.scorers.models import is_propagation
    from hopwalk.utils.text import fold_name

    if _helps_another():
        return
    dataset = api.load_dataset(data, settings(), mirror=mirror, make_progress_bar=download_bar)
    chosen = settings(dataset)
    if hold_out is not None:
        chosen = changed(chosen, {"split.hold_out": hold_out})
    dataset = api.hold_out(dataset, chosen.split.hold_out, seed=chosen.split.seed)
    if reasoner == PROPAGATION:  # whatever scorer a preset of a walker has
        chosen = changed(chosen, {"scorer.model": PROPAGATION})
    ending = "" if scorer is None else f"-{fold_name(chosen.scorer.model).replace(':', '-')}"
    folder = out or Path("runs") / f"{dataset.name}{'-walker' if reasoner == WALKER else ending}"
    was_finished = resume and Run.is_finished_in(folder)
    if reasoner != WALKER:
        is_own = catalog.find(data) is None and "propagation.queries" not in fixed
        if minutes is not None or (is_own and is_propagation(chosen)):
            chosen = _within(dataset, chosen, minutes, folder, resume)
        with options.place_of(on) as place, TrainingProgress() as progress:
            run = api.train_scorer(
                dataset,
                chosen,
                out=folder,
                resume=resume,
                make_callbacks=progress.callbacks,
                tensorboard=tensorboard,
                place=place,
                processes=processes,
            )
    else:
        if on != "local" or processes is not None:
            raise SettingsError("--on and --processes are for propagation", remedy="Train a walker without them.")
        if minutes is not None:
            remedy = "Leave it out, or limit the walker with --epochs."
            raise SettingsError("--minutes is for propagation", remedy=remedy)
        if reward is not None and not chosen.walker.reward_shaping:
            remedy = "Leave it out, or use the scorer with --reward-shaping."
            raise SettingsError("--reward names a scorer, but the walker does not use one", remedy=remedy)
        if start is not None and reward is not None and not options.is_run_folder(reward):
            remedy = f"Train it first with --scorer {reward}, and give its folder; or leave --reward out."
            raise SettingsError("with --start, --reward must be the run folder of a scorer", remedy=remedy)
        scorer_run = reward if reward is not None and options.is_run_folder(reward) else None
        with TrainingProgress() as progress, nullcontext() if chosen.walker.epochs else ranking_progress():
            run = api.train(
                dataset,
                chosen,
                out=folder,
                reasoner=WALKER,
                scorer=scorer_run,
                start=start,
                resume=resume,
                make_callbacks=progress.callbacks,
                tensorboard=tensorboard,
            )
    _print_end(run, was_finished)
    if run.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _helps_another() -> bool:
    """If torchrun started this process as a helper of the one that writes the run folder: train with it, and return True."""
    if os.environ.get("RANK", "0") == "0" or "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    from hopwalk.learning.processes import gathered_by_torchrun
    from hopwalk.scorers.runs import train_beside

    with gathered_by_torchrun() as others:
        train_beside(others)
    return True


def _within(dataset: Dataset, settings: Settings, minutes: float | None, folder: Path, resume: bool) -> Settings:
    """The settings with as many training queries as fit the time, by default two minutes; those of the run, if it is resumed."""
    from hopwalk.errors import SettingsError
    from hopwalk.learning.run import Run
    from hopwalk.propagation.budget import DEFAULT_MINUTES, fit_budget, measure_cost, plan_training
    from hopwalk.scorers.models import is_propagation

    if not is_propagation(settings):
        raise SettingsError("--minutes is for propagation", remedy="Limit other scorers with --epochs.")
    if resume and (folder / "run.json").exists():
        queries = Run.open(folder).settings.propagation.queries
        return changed(settings, {"propagation.queries": queries})
    if minutes is not None:
        fitted = fit_budget(dataset, settings, minutes)
        print_text(f"{fitted.propagation.queries:,} training queries fit into {minutes:g} minutes.", to_stderr=True)
        return fitted
    cost = measure_cost(dataset, settings, seconds=SECONDS_TO_PLAN)
    plan, needed = plan_training(dataset, settings, cost), settings.propagation.queries
    minutes = max(math.ceil(round(plan.seconds / 60, 3)), 1)
    forecast = f"{needed:,} training queries would take about {minutes} minutes on this machine"
    if plan.is_long:
        few = cost.fitted(settings, ADVISED_MINUTES).propagation.queries
        remedy = f"Say how long: --minutes {ADVISED_MINUTES:g} for {few:,} of them, --minutes {minutes} for all."
        raise SettingsError(f"{len(dataset.facts):,} facts: {forecast}", remedy=remedy)
    if plan.is_shortened:
        fewer = f"{plan.settings.propagation.queries:,} training queries in {DEFAULT_MINUTES:g} minutes"
        print_text(f"{fewer}; {forecast} (--minutes {minutes}).", to_stderr=True)
    elif plan.seconds > 60 * DEFAULT_MINUTES:
        print_text(f"{len(dataset.facts):,} facts: {forecast}. --minutes sets another time.", to_stderr=True)
    return plan.settings


def _print_end(run: Run, was_finished: bool) -> None:
    about, end = run.about, "already finished" if was_finished else run.status
    last: dict[str, Any] = next(iter(run.history[-1:]), {})
    amount = f"{last['queries']:,.0f} queries" if "queries" in last else counted(about.get("epochs", 0), "epoch")
    best = next((record for record in run.history if record["epoch"] == about.get("best_epoch")), {})
    print_text(f"{run.path}: {end} after {amount}{_quality(best)}")
    from hopwalk.propagation.budget import outlook

    if not was_finished and (more_time := outlook(run)):
        print_text(more_time)
    if run.status == "interrupted":
        print_text("Continue with the same command and --resume.")
    if run.weights_path.exists():
        _print_next(run, with_rules=run.is_finished and not was_finished)


def _print_next(run: Run, *, with_rules: bool = False) -> None:
    """The strongest rules of a reasoner with paths, and the commands to go on with."""
    from hopwalk.api import load

    reasoner = load(run.path)
    rules = reasoner.strongest_rules() if with_rules else []
    if rules:
        print_text("Its strongest rules:")
    for used in rules:
        print_text(printable(f"  {used.rule}: {used.evidence}"))
    example = (rules[0].examples[0].head, rules[0].rule.head) if rules and rules[0].examples else reasoner.example()
    if len(reasoner.dataset.test):
        print_text(f"Evaluate it on test: hopwalk evaluate {run.path}")
    print_text(printable(f"Ask it: hopwalk ask {shlex.join([str(run.path), *example])}"))
    print_text(f"Show it on a page: hopwalk serve {run.path}")


def _quality(record: Mapping[str, Any]) -> str:
    """The quality on dev in words; empty if there is no record of it."""
    if record.get("valid_hits@1") is None:
        return ""
    first, mrr = round(10 * record["valid_hits@1"]), 100 * record["valid_mrr"]
    return f"; in 10 questions with a known answer, the right one is first in {first} (dev MRR {mrr:.2f})"


def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders of scorers.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The run folder to write.", show_default=False)],
) -> None:
    """Combine scorers into an ensemble: its score is the mean of their log-odds, of two with weights chosen on dev.

    The new run holds copies of them. Propagation with an embedding model: the second ranks answers that no path reaches.

    Examples:

    - `hopwalk ensemble runs/umls runs/umls-complex --out runs/umls-both`
    """
    from hopwalk.api import combine_scorers

    run = combine_scorers(runs, out=out)
    print_text(f"{run.path}: an ensemble of {len(runs)}")
    _print_next(run)


def accept(run: RunFolder) -> None:
    """Accept the files of a run as they are now, after an edit of your own: state their digests again.

    A run states the SHA-256 of each of its files, and files that were changed are refused. Runs of older versions, which state
    none, get them.

    Examples:

    - `hopwalk accept runs/umls`
    """
    from hopwalk import api

    num_files = api.accept(run)
    print_text(f"{printable(str(run))}: {counted(num_files, 'file')} accepted.")
