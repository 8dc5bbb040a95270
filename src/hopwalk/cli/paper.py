"""`hopwalk reproduce`: the paper's tables and figures, made again. `hopwalk record`: a run, noted in a ledger."""

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
from hopwalk.utils.text import duration

if TYPE_CHECKING:
    from hopwalk.learning.callbacks import Callback, TrainingPlan
    from hopwalk.paper.plan import Scope
    from hopwalk.paper.run_spec import RunSpec

NAMES = (
    "table1, table2, table3, table4, table5, figure-false-negatives, figure-convergence, appendix-seeds, appendix-dev-complete, "
    "appendix-dropout, or all"
)


def reproduce(
    what: Annotated[list[str], typer.Argument(metavar="TABLE|FIGURE|all", help=f"What to make: {NAMES}.", show_default=False)],
    data: Annotated[
        list[str] | None, typer.Option(help="Only this data set; can be given several times.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds, as 0,1,2; if not said, each table has its own.", show_default=False)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="UMLS, few epochs, small models: minutes, to see that it works.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where runs/, ledger/ and the report go.")] = Path("reproduction"),
    most_epochs: Annotated[
        int, typer.Option(min=0, help="At most so many epochs for each run, if its recipe has more; 0: as the recipe has it.")
    ] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this run, or these, as umls-*; can be given several times. `--plan` has the names.", show_default=False
        ),
    ] = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Train nothing: write the report from what the ledger has.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Show which runs are needed, and what is done; do nothing.")] = False,
    runs: Annotated[Path | None, typer.Option(help="Where runs are, if not in OUT/runs.", show_default=False)] = None,
    ledger: Annotated[Path | None, typer.Option(help="Where results are, if not in OUT/ledger.", show_default=False)] = None,
    mirror: options.Mirror = None,
) -> None:
    """Make the paper's tables and figures again, and put ours beside them in a report (Markdown and HTML).

    Runs what is missing, goes on with what was interrupted, and skips what is done. Ctrl-C ends it; the same command goes on.

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
    with TrainingProgress() as progress:
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
            progress=RunProgress(progress),
        )
    for path in found.report:
        print_text(f"{path}: written")
    left = f"; {found.num_missing} are missing, `--plan` lists them" if found.num_missing else ""
    print_text(f"{found.num_planned} runs are needed, {found.num_made} were made now{left}")
    if found.was_interrupted:
        print_text("Interrupted. Continue with the same command.")
        raise typer.Exit(INTERRUPTED)


def record(
    run: Annotated[
        Path, typer.Argument(help="A run folder, as `hopwalk train` or `hopwalk ensemble` writes it.", show_default=False)
    ],
    ledger: Annotated[Path, typer.Option(help="Where results are.")] = Path("reproduction/ledger"),
    name: Annotated[str, typer.Option(help="What it is called there; as its folder, if not said.", show_default=False)] = "",
    note: Annotated[str, typer.Option(help="What a reader should know of the circumstances.", show_default=False)] = "",
    untrained_control: Annotated[
        bool, typer.Option("--untrained-control", help="Evaluate a walker with a random policy too.")
    ] = False,
) -> None:
    """Rank a finished run on dev and test and note it in a ledger, where `hopwalk reproduce` finds it for its tables.

    The file says which command makes such a run, its settings, seed, commit, machine, time, memory, history and metrics.

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
        raise SettingsError(f"{text!r} is no list of seeds", remedy="For example: --seeds 0,1,2")
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
    print_text(f"{num_done} of {len(runs)} runs are done")


class RunProgress:
    """Prints which run is made, and about how long the rest will take."""

    def __init__(self, progress: TrainingProgress) -> None:
        self._progress, self._begun, self._done = progress, time.monotonic(), 0

    def on_run(self, number: int, total: int, spec: RunSpec) -> None:
        """A line for every run, and new bars."""
        self._progress.clear()
        spent = time.monotonic() - self._begun
        left = f", about {duration(spent / self._done * (total - self._done))} left" if self._done else ""
        print_text(f"run {number} of {total}: {spec.name}{left}", to_stderr=True)
        self._done = number

    def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """The progress of the training."""
        return self._progress.callbacks(plan)
