"""`hopwalk train`, `evaluate` and `ensemble`: from a data set to a run, and from a run to numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwalk.cli import options
from hopwalk.cli.console import console, download_bar, print_json, print_table, print_text, ranking_bar
from hopwalk.config.settings import Settings
from hopwalk.paper.published import TABLE_2
from hopwalk.utils.durations import duration

if TYPE_CHECKING:
    from rich.progress import Progress

    from hopwalk.data.dataset import Dataset
    from hopwalk.learning.evaluation import Evaluation
    from hopwalk.learning.ranking import Metrics
    from hopwalk.learning.run import Run

RunFolder = Annotated[Path, typer.Argument(help="A run folder, as `hopwalk train` writes it.", show_default=False)]


@options.takes_training_settings
def train(
    data: options.Data,
    settings: Callable[..., Settings],
    scorer: str | None,
    reward: str | None,
    out: Annotated[Path | None, typer.Option(help="The run folder to write; runs/DATA or runs/DATA-SCORER if not said.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")] = False,
    start: Annotated[
        Path | None,
        typer.Option(help="A walker's run to begin with; with --epochs 0, only how it answers changes: scorer, beam, hops."),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write the history for TensorBoard too.")] = False,
    mirror: options.Mirror = None,
) -> None:
    """Train a scorer and then the walker that it rewards; with --scorer, train nothing but a scorer.

    Ctrl-C ends training early; the run is usable, and `--resume` goes on with it.

    Examples:

    - `hopwalk train umls`

    - `hopwalk train kinship --reward conve --action-dropout 0.8 --out runs/kinship-conve`

    - `hopwalk train facts.csv --no-reward-shaping --guidance 0`

    - `hopwalk train umls --scorer complex --recipe paper --seed 1`

    - `hopwalk train umls --start runs/umls --epochs 0 --set walk.beam=256 --out runs/umls-wide`
    """
    from hopwalk import api
    from hopwalk.config.settings import fold_name
    from hopwalk.errors import SettingsError

    dataset = api.load_dataset(data, settings(), mirror=mirror, make_progress_bar=download_bar)
    chosen = settings(dataset)
    if scorer is not None:
        if start is not None:
            raise SettingsError("--start is for walkers", remedy="Leave it out, or leave out --scorer.")
        folder = out or Path("runs") / f"{dataset.name}-{fold_name(chosen.scorer.model).replace(':', '-')}"
        was_finished = resume and _is_finished(folder)
        with TrainingBars() as bars:
            watcher = bars.begin("scorer", chosen.scorer.epochs)[0]
            run = api.train_scorer(dataset, chosen, out=folder, resume=resume, watcher=watcher, tensorboard=tensorboard)
    else:
        if reward is not None and not (chosen.walker.reward_shaping or chosen.walker.guidance):
            remedy = "Leave it out, or let it count with --reward-shaping or --guidance."
            raise SettingsError("--reward names a scorer, but the walker has no use for one", remedy=remedy)
        if start is not None and reward is not None and not options.is_run_folder(reward):
            remedy = f"Train it first, with --scorer {reward}, and give its folder; or leave --reward out."
            raise SettingsError("with --start, --reward is the folder of a scorer", remedy=remedy)
        folder = out or Path("runs") / dataset.name
        was_finished = resume and _is_finished(folder)
        scorer_run = reward if reward is not None and options.is_run_folder(reward) else None
        forecast = partial(_forecast, dataset, chosen) if chosen.walker.epochs else None
        with TrainingBars(forecast) as bars, nullcontext() if chosen.walker.epochs else ranking_bar():
            run = api.train(
                dataset,
                chosen,
                out=folder,
                scorer=scorer_run,
                start=start,
                resume=resume,
                make_watchers=bars.begin,
                tensorboard=tensorboard,
            )
    _print_end(run, was_finished)


def _is_finished(folder: Path) -> bool:
    from hopwalk.learning.run import Run

    return (folder / "run.json").exists() and Run.open(folder).about.get("status") == "finished"


def _forecast(dataset: Dataset, settings: Settings) -> str:
    """What training will take, for people."""
    from hopwalk.api import forecast

    found = forecast(dataset, settings)
    parts = f", in parts of {found.questions_at_once} questions" if found.questions_at_once < settings.walker.batch_size else ""
    return (
        f"The walker needs about {found.memory_bytes / 2**20:,.0f} MB{parts}, and {duration(found.seconds_of_epoch)} for each "
        f"of at most {settings.walker.epochs} epochs on this machine, dev evaluation aside."
    )


def _print_end(run: Run, was_finished: bool) -> None:
    about = run.about
    mrr, end = about.get("valid_mrr"), "was finished already" if was_finished else about.get("status")
    reached = f"; dev MRR {100 * mrr:.2f} in epoch {about.get('best_epoch')}" if mrr is not None else ""
    epochs = about.get("epochs", 0)
    print_text(f"{run.path}: {end} after {epochs} epoch{'s' * (epochs != 1)}{reached}")
    if about.get("status") == "interrupted":
        print_text("Go on with the same command and --resume.")
    if run.weights_path.exists():
        print_text(f"`hopwalk evaluate {run.path}` ranks the test answers.")


class TrainingBars:
    """Progress bars with time left, one for the scorer and one for the walker: loss or reward, entropy and hits, and dev MRR.

    What `introduce` says is printed before the first of them: an error may come earlier.
    """

    def __init__(self, introduce: Callable[[], str] | None = None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bars = Progress(  # made to fit 80 columns
            TextColumn("{task.description} {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(bar_width=8),
            TextColumn("{task.fields[values]}"),
            TextColumn("dev {task.fields[mrr]}"),
            TimeRemainingColumn(compact=True),
            console=console(to_stderr=True),
        )
        self._introduce = introduce

    def __enter__(self) -> TrainingBars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars.live.is_started:
            self._bars.stop()

    def clear(self) -> None:
        """Take all bars away, for what has nothing to do with them."""
        for task in self._bars.task_ids:
            self._bars.remove_task(task)

    def begin(self, name: str, num_epochs: int) -> list[TrainingBar]:
        """A bar for what is trained next."""
        if self._introduce is not None:
            print_text(self._introduce(), to_stderr=True)
            self._introduce = None
        return [TrainingBar(self._bars, name, num_epochs)]


class TrainingBar:
    """One of the bars."""

    def __init__(self, bars: Progress, name: str, num_epochs: int) -> None:
        self._bars, self._num_epochs = bars, num_epochs
        self._task = bars.add_task(name, total=None, epoch=0, epochs=num_epochs, values="…", mrr="…", visible=False)
        self._best: float | None = None
        self._last_shown = 0.0

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Move the bar on."""
        now = time.monotonic()
        if now - self._last_shown < 0.1:
            return
        self._last_shown = now
        self._bars.start()  # not before there is something to show: an error may come first
        done, total = (epoch - 1) * num_batches + batch, self._num_epochs * num_batches
        shown = [name for name in ("reward", "entropy", "hits") if name in values] or ["loss"]
        text = " ".join(f"{name} {values[name]:.3g}" for name in shown)
        self._bars.update(self._task, completed=done, total=total, epoch=epoch, values=text, visible=True)

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Show the dev MRR; the best so far stands beside it."""
        if "valid_mrr" in record:
            self._best = max(record["valid_mrr"], self._best or 0.0)
            self._bars.update(self._task, mrr=f"{100 * record['valid_mrr']:.1f} best {100 * self._best:.1f}")


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
    both: Annotated[bool, typer.Option("--both", help="Ask a walker for heads too; a scorer always is.")] = False,
    as_json: options.Json = False,
) -> None:
    """Rank the answers of a split: MRR and hits for tails and both directions, by kind of question, with confidence intervals.

    A walker is ranked by its paths, and beside that by their probability alone, by its scorer, and by the blend of both.
    The numbers are also written to evaluation-SPLIT.json in the run folder.

    Examples:

    - `hopwalk evaluate runs/umls`

    - `hopwalk evaluate runs/umls-complex --split valid --complete --json`
    """
    from hopwalk import api
    from hopwalk.errors import SettingsError
    from hopwalk.learning.run import Run

    if split not in ("valid", "test"):
        raise SettingsError(f"there is no split {split!r} to rank", remedy="Splits are valid and test.")
    if Run.open(run).about["kind"] != "walker":
        with ranking_bar():
            evaluation = api.evaluate(run, split, complete_filter=complete)
        print_json(evaluation.to_dict()) if as_json else _print_evaluation(evaluation)
        return
    with ranking_bar():
        found = api.evaluate_walker(run, split, complete_filter=complete, directions="both" if both else "tails")
    if as_json:
        numbers = {name: evaluation.to_dict() for name, evaluation in found.items()}
        print_json(numbers | {"blend_weight": Run.open(run).about.get("blend_weight")})
    else:
        _print_walker(found)


def _print_walker(found: Mapping[str, Evaluation]) -> None:
    by_paths = found["paths"]
    _print_evaluation(by_paths)
    print_text(f"{100 * by_paths.tails.unreached:.1f} % of the answers are not reached by a path; they count 0.")
    by_probability = "paths (the paper's)"
    titles = {"paths": "paths, with reward" if "probability" in found else by_probability}
    titles |= {"probability": by_probability, "scorer": "scorer alone", "blend": "blend of both"}
    named = {title: found[name] for name, title in titles.items() if name in found}
    rows = [(name, *_percentages(evaluation.tails)) for name, evaluation in named.items()]
    print_table(["tails, ranked by", "number", "MRR", "hits@1", "hits@3", "hits@10"], rows)
    beside = TABLE_2.get(by_paths.dataset)
    if by_paths.split == "test" and beside:
        rows = [(name, *numbers) for name, numbers in beside.items()]
        print_table(["the paper's Table 2", "hits@1", "hits@10", "MRR"], rows)


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
