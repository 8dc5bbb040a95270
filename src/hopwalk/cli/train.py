"""`hopwalk train`, `evaluate` and `ensemble`: from a data set to a run, and from a run to numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwalk.cli import options
from hopwalk.cli.console import console, download_bar, print_json, print_table, print_text
from hopwalk.config import Settings

if TYPE_CHECKING:
    from hopwalk.evaluation import Evaluation
    from hopwalk.ranking import Metrics
    from hopwalk.run import Run

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as `hopwalk train` writes it.", show_default=False)]


@options.takes_scorer_settings
def train(
    data: options.Data,
    settings: Settings,
    out: Annotated[Path | None, typer.Option(help="The run folder to write; runs/DATA-SCORER if not said.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write the history for TensorBoard too.")] = False,
    mirror: options.Mirror = None,
) -> None:
    """Train a scorer f(head, relation, ·): DistMult, ComplEx, ConvE, or one of PyKEEN's models.

    Ctrl-C ends training early; the run is usable, and `--resume` goes on with it.

    Examples:

    - `hopwalk train umls --scorer complex`

    - `hopwalk train kinship --scorer conve --recipe paper --seed 1 --out runs/kinship-conve-1`

    - `hopwalk train facts.csv --scorer pykeen:RotatE --set scorer.dimension=100`
    """
    from hopwalk.api import load_dataset, train_scorer
    from hopwalk.config import fold_name
    from hopwalk.run import Run

    dataset = load_dataset(data, settings, mirror=mirror, make_progress_bar=download_bar)
    folder = out or Path("runs") / f"{dataset.name}-{fold_name(settings.scorer.model).replace(':', '-')}"
    is_finished = resume and (folder / "run.json").exists() and Run.open(folder).about.get("status") == "finished"
    with TrainingBar(settings.scorer.epochs) as bar:
        run = train_scorer(dataset, settings, out=folder, resume=resume, watcher=bar, tensorboard=tensorboard)
    _print_end(run, is_finished)


def _print_end(run: Run, was_finished: bool) -> None:
    about = run.about
    mrr, end = about.get("valid_mrr"), "was finished already" if was_finished else about.get("status")
    reached = f"; dev MRR {100 * mrr:.2f} in epoch {about.get('best_epoch')}" if mrr is not None else ""
    print_text(f"{run.path}: {end} after {about.get('epochs')} epochs{reached}")
    if about.get("status") == "interrupted":
        print_text("Go on with the same command and --resume.")
    print_text(f"`hopwalk evaluate {run.path}` ranks the test answers.")


class TrainingBar:
    """A progress bar with loss, dev MRR and time left."""

    def __init__(self, num_epochs: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.records: list[Mapping[str, Any]] = []
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("dev MRR {task.fields[mrr]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console(to_stderr=True),
        )
        self._num_epochs = num_epochs
        self._task = self._bar.add_task("training", total=None, epoch=0, epochs=num_epochs, loss="…", mrr="…")
        self._last_shown = 0.0

    def __enter__(self) -> TrainingBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def on_batch(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Move the bar on."""
        now = time.monotonic()
        if now - self._last_shown < 0.1:
            return
        self._last_shown = now
        self._bar.start()  # not before there is something to show: an error may come first
        done = (epoch - 1) * num_batches + batch
        total = self._num_epochs * num_batches
        self._bar.update(self._task, completed=done, total=total, epoch=epoch, loss=f"{loss:.4f}")

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Show the dev MRR; the best so far stands beside it."""
        self.records.append(record)
        if "valid_mrr" in record:
            best = max(found["valid_mrr"] for found in self.records)
            self._bar.update(self._task, mrr=f"{100 * record['valid_mrr']:.2f}, best {100 * best:.2f}")


def ensemble(
    runs: Annotated[list[Path], typer.Argument(help="Two run folders or more.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The run folder to write.", show_default=False)],
) -> None:
    """Make several scorers one: its score is the mean of their log-odds. The new run holds copies of them.

    Examples:

    - `hopwalk ensemble runs/umls-complex runs/umls-conve --out runs/umls-both`
    """
    from hopwalk.api import combine_scorers

    run = combine_scorers(runs, out=out)
    print_text(f"{run.path}: an ensemble of {len(runs)}\n`hopwalk evaluate {run.path}` ranks the test answers.")


def evaluate(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="test or valid.")] = "test",
    complete: Annotated[
        bool, typer.Option("--complete", help="On valid: leave test facts out of the ranking too, as in the paper's appendix.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Rank the answers of a split: MRR and hits for tails and both directions, by kind of question, with confidence intervals.

    The numbers are also written to evaluation-SPLIT.json in the run folder.

    Examples:

    - `hopwalk evaluate runs/umls-complex`

    - `hopwalk evaluate runs/umls-complex --split valid --complete --json`
    """
    from hopwalk import api
    from hopwalk.errors import SettingsError

    if split not in ("valid", "test"):
        raise SettingsError(f"there is no split {split!r} to rank", remedy="Splits are valid and test.")
    evaluation = api.evaluate(run, split, complete_filter=complete)
    if as_json:
        print_json(evaluation.to_dict())
        return
    _print_evaluation(evaluation)


def _print_evaluation(evaluation: Evaluation) -> None:
    named = {"tails (the paper's)": evaluation.tails, "heads": evaluation.heads, "both": evaluation.both}
    named |= {f"tails, {name}": found for name, found in evaluation.strata.items()}
    rows = [(name, *_percentages(found)) for name, found in named.items() if found.num_questions]
    print_table(
        ["questions for", "number", "MRR", "hits@1", "hits@3", "hits@10"], rows, title=f"{evaluation.dataset}: {evaluation.split}"
    )
    low, high = (100 * bound for bound in evaluation.mrr_interval)
    print_text(f"95 % interval of the MRR of tails: {low:.2f} to {high:.2f}. MAP {100 * evaluation.mean_average_precision:.2f}.")
    left_out = "all known facts" if evaluation.is_filter_complete else "all known facts but those of test"
    print_text(f"Other answers are left out of the ranking if they are {left_out.replace('all ', '')}; ties count half.")


def _percentages(found: Metrics) -> tuple[Any, ...]:
    return found.num_questions, *(100 * value for value in (found.mrr, found.hits_at_1, found.hits_at_3, found.hits_at_10))
