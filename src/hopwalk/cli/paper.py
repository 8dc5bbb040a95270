"""`hopwalk reproduce`: the paper's tables and figures, reproduced. `hopwalk record`: a run, added to a ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_text
from hopwalk.cli.progress import TrainingProgress, ranking_progress
from hopwalk.cli.train import INTERRUPTED
from hopwalk.utils.text import counted, duration

if TYPE_CHECKING:
    from hopwalk.learning.callbacks import Callback, TrainingPlan
    from hopwalk.paper.plan import Scope
    from hopwalk.paper.run_spec import RunSpec

NAMES = (
    "table1, table2, table3, table4, table5, figure-false-negatives, figure-convergence, appendix-seeds, appendix-dev-complete, "
    "appendix-dropout, or all"
)


def reproduce(
    what: Annotated[
        list[str], typer.Argument(metavar="TABLE|FIGURE|all", help=f"Tables and figures: {NAMES}.", show_default=False)
    ],
    data: Annotated[
        list[str] | None, typer.Option(help="Only this data set; can be given several times.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, such as 0,1,2. Default: those of each table.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="UMLS, few epochs, small models: a test that takes minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for runs/, ledger/ and the report.")] = Path("reproduction"),
    most_epochs: Annotated[int, typer.Option(min=0, help="Maximum number of epochs of each run; 0: those of its recipe.")] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this run, or a pattern such as umls-*; can be given several times. See --plan for names.",
            show_default=False,
        ),
    ] = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Train nothing: write the report from the results in the ledger.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="List the runs needed and their state, and stop.")] = False,
    runs: Annotated[Path | None, typer.Option(help="Folder of runs. Default: OUT/runs.", show_default=False)] = None,
    ledger: Annotated[Path | None, typer.Option(help="Folder of results. Default: OUT/ledger.", show_default=False)] = None,
    on: options.On = "local",
    mirror: options.Mirror = None,
) -> None:
    """Reproduce the paper's tables and figures, in a report with our numbers beside the paper's (Markdown and HTML).

    Missing runs are trained, interrupted ones continued, finished ones reused. Ctrl-C stops; the same command continues.

    - `table1` data sets; `table2` all models on test; `table3` ablation on dev; `table4` to-many, to-one; `table5` seen, unseen

    - `figure-false-negatives` over the first 20 epochs; `figure-convergence` dev MRR and distinct paths per epoch

    - `appendix-seeds` mean and deviation; `appendix-dev-complete` with the complete graph; `appendix-dropout` rates of dropout

    Examples:

    - `hopwalk reproduce all --quick`

    - `hopwalk reproduce table2 --data umls --data kinship --seeds 0,1,2`

    - `hopwalk reproduce all --plan`

    - `hopwalk reproduce table3 --only kinship-paper-conve-no-ad-0`

    - `hopwalk reproduce all --no-train --ledger results --out report`
    """
    from hopwalk.api import reproduce as reproduce_paper
    from hopwalk.paper.running import scope_of

    chosen = _seeds(seeds)
    if plan:
        scope = scope_of(data or (), chosen, quick=quick, most_epochs=most_epochs)
        _print_plan(what, scope, only or (), ledger or out / "ledger")
        return
    with options.place_of(on) as place, TrainingProgress() as progress:
        found = reproduce_paper(
            what,
            out=out,
            data_sets=data or (),
            seeds=chosen,
            quick=quick,
            train=not no_train,
            runs=runs,
            ledger=ledger,
            most_epochs=most_epochs,
            only=only or (),
            mirror=mirror,
            progress=RunProgress(progress, are_several=not place.is_here),
            place=place,
        )
    for path in found.report:
        print_text(f"{path}: written")
    missing = f"; {found.num_missing} are missing (see --plan)" if found.num_missing else ""
    print_text(f"{counted(found.num_planned, 'run')} needed, {found.num_made} trained now{missing}")
    if found.was_interrupted:
        print_text("Interrupted. Continue with the same command.")
        raise typer.Exit(INTERRUPTED)


def record(
    run: Annotated[
        Path, typer.Argument(help="A run folder, as `hopwalk train` or `hopwalk ensemble` writes it.", show_default=False)
    ],
    ledger: Annotated[Path, typer.Option(help="Folder of results.")] = Path("reproduction/ledger"),
    name: Annotated[str, typer.Option(help="Name of the result. Default: that of the run folder.", show_default=False)] = "",
    note: Annotated[str, typer.Option(help="A note on the circumstances, for readers.", show_default=False)] = "",
    untrained_control: Annotated[
        bool, typer.Option("--untrained-control", help="Also evaluate a walker with a random policy.")
    ] = False,
) -> None:
    """Evaluate a finished run on dev and test and add it to a ledger, for the tables of `hopwalk reproduce`.

    The file holds the command that makes such a run, its settings, seed, commit, machine, time, memory, history and metrics.

    Examples:

    - `hopwalk record runs/umls`

    - `hopwalk record runs/umls-wide --ledger results --name umls-complex-modern-wide-0 --note "beside another training"`
    """
    from hopwalk.paper.ledger import Ledger
    from hopwalk.paper.recording import record as record_run

    with ranking_progress():
        written = record_run(run, Ledger(ledger), name=name, note=note, untrained_control=untrained_control)
    print_text(f"{written}: written")


def _seeds(text: str | None) -> list[int] | None:
    from hopwalk.errors import SettingsError

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise SettingsError(f"{text!r} is not a list of seeds", remedy="For example: --seeds 0,1,2")
    return [int(part) for part in parts]


def _print_plan(what: list[str], scope: Scope, only: Sequence[str], ledger: Path) -> None:
    from hopwalk.paper.ledger import DONE, Ledger
    from hopwalk.paper.plan import planned, targets_of
    from hopwalk.paper.running import only_named

    known, runs = Ledger(ledger), only_named(planned(targets_of(what), scope), only)
    num_done = 0
    for spec in runs:
        state, found = known.state(spec)
        num_done += state == DONE
        took = f" ({duration(found.seconds)})" if found else ""
        print_text(f"{state:<10} {spec.name}{took}\n           {spec.command}")
    print_text(f"{num_done} of {counted(len(runs), 'run')} done")


class RunProgress:
    """Progress of several runs: which one is trained, and the approximate time left, unless several are trained at once."""

    def __init__(self, progress: TrainingProgress, *, are_several: bool = False) -> None:
        self._progress, self._begun, self._done, self._are_several = progress, time.monotonic(), 0, are_several

    def on_run(self, number: int, total: int, spec: RunSpec) -> None:
        """Print a line for the run, and start new bars."""
        if self._are_several:
            print_text(f"run {number} of {total}: {spec.name}", to_stderr=True)
            return
        self._progress.clear()
        elapsed = time.monotonic() - self._begun
        left = f", about {duration(elapsed / self._done * (total - self._done))} left" if self._done else ""
        print_text(f"run {number} of {total}: {spec.name}{left}", to_stderr=True)
        self._done = number

    def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """The callbacks that show a training."""
        return self._progress.callbacks(plan)
