"""`hopwalk train`, `evaluate` and `ensemble`: from a data set to a run, and from a run to metrics."""

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
from hopwalk.cli.console import note_missing_digests, print_json, print_table, print_text, printable
from hopwalk.cli.progress import TrainingProgress, download_bar, ranking_progress
from hopwalk.config.settings import Settings, changed
from hopwalk.paper.published import TABLE_2
from hopwalk.utils.text import counted

if TYPE_CHECKING:
    from hopwalk.data.dataset import Dataset
    from hopwalk.learning.evaluation import Evaluation
    from hopwalk.learning.metrics import Metrics
    from hopwalk.learning.run import Run

SECONDS_TO_PLAN = 0.5  # of training batches that are timed
ADVISED_MINUTES = 10.0  # for a graph that would take hours
INTERRUPTED = 130  # exit code after Ctrl-C
TASKS = ("answers", "facts")
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
    """Whether torchrun started this process beside another, which has the run folder; then it trains with that one first."""
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


def evaluate(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="test or valid.")] = "test",
    complete: Annotated[
        bool, typer.Option("--complete", help="On valid: filter test facts too, as in the paper's appendix.")
    ] = False,
    both: Annotated[bool, typer.Option("--both", help="Evaluate head queries of a walker too; a scorer's always are.")] = False,
    untrained_control: Annotated[
        bool,
        typer.Option("--untrained-control", help="Evaluate a walker again with a random policy: what has it learnt?"),
    ] = False,
    as_asked: Annotated[
        bool, typer.Option("--as-asked", help="Also rank by probability, as `hopwalk ask` does; takes much longer.")
    ] = False,
    reliability: Annotated[bool, typer.Option("--reliability", help="Instead: how true are the probabilities, on test?")] = False,
    faithfulness: Annotated[
        bool, typer.Option("--faithfulness", help="Instead: do right answers fall without the paths that are shown for them?")
    ] = False,
    queries: Annotated[
        int | None, typer.Option(min=0, help="With --faithfulness: how many queries to rank; 0: all. [default: 500]")
    ] = None,
    task: Annotated[
        str, typer.Option(help="answers: rank all entities; facts: rank true facts among false ones, MAP by relation.")
    ] = "answers",
    negatives: Annotated[
        Path | None,
        typer.Option(help="With --task facts: a file of head, relation, tail and + or -, or DeepPath's folder tasks."),
    ] = None,
    num_negatives: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="With --task facts: false facts for each true one. [default: 10]")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="With --task facts: of the false facts. [default: 0]")] = None,
    as_json: options.Json = False,
    on: options.On = "local",
) -> None:
    """Evaluate a run on a split: MRR and hits of tails and of both directions, by kind of query, with confidence intervals.

    With --untrained-control, a walker is evaluated again with a random policy: what is as good then is not the merit of its
    training. The numbers are also written to evaluation-SPLIT.json in the run folder.

    With --faithfulness, the facts on the shown paths of right answers are taken away, and random facts in their place: the
    answers should fall without the first and stay without the second. Written to faithfulness-SPLIT.json, with a chart.

    With --task facts, the facts of the split are ranked among false ones, as DeepPath, DIVA and PRA are compared. Written to
    facts-SPLIT.json.

    Examples:

    - `hopwalk evaluate runs/umls`

    - `hopwalk evaluate runs/umls --untrained-control`

    - `hopwalk evaluate runs/umls-complex --split valid --complete --json`

    - `hopwalk evaluate runs/umls --faithfulness --queries 200`

    - `hopwalk evaluate runs/umls --task facts`
    """
    from hopwalk import api
    from hopwalk.errors import SettingsError

    if task not in TASKS:
        raise SettingsError(f"there is no task {task!r}", remedy=f"Tasks are {' and '.join(TASKS)}.")
    if on != "local" and (task == "facts" or faithfulness):
        raise SettingsError("--on is for the ranking of answers", remedy="Leave it out.")
    of_facts = {"--negatives": negatives, "--num-negatives": num_negatives, "--seed": seed}
    if task == "facts":
        if complete or both or untrained_control or as_asked or reliability or faithfulness or queries is not None:
            problem = "--task facts has no filter, no direction, no control and no faithfulness"
            raise SettingsError(problem, remedy="Leave the other options out.")
        _evaluate_facts(run, split, negatives, num_negatives, seed, as_json)
        return
    if given := [option for option, value in of_facts.items() if value is not None]:
        raise SettingsError(f"{given[0]} is for --task facts", remedy="Leave it out.")
    if reliability:
        _evaluate_reliability(run, split, as_json)
        return
    if faithfulness:
        _evaluate_faithfulness(run, split, 500 if queries is None else queries, as_json)
        return
    if queries is not None:
        raise SettingsError("--queries is for --faithfulness: an evaluation ranks all queries", remedy="Leave it out.")
    note_missing_digests(run)
    with options.place_of(on) as place, ranking_progress():
        found = api.evaluate(
            run,
            split,
            complete_filter=complete,
            directions="both" if both else None,
            untrained_control=untrained_control,
            as_asked=as_asked,
            place=place,
        )
    if as_json:
        print_json({name: evaluation.to_dict() for name, evaluation in found.items()})
        return
    first = next(iter(found.values()))
    _print_evaluation(first)
    if "policy" in found:
        print_text(f"{100 * first.tails.unreached:.1f} % of the answers are not reached by a path; their reciprocal rank is 0.")
    if len(found) > 1:
        rows = [(name.replace("_", " "), *_percentages(evaluation.tails)) for name, evaluation in found.items()]
        print_table(["tails, ranked by", "number", "MRR", "hits@1", "hits@3", "hits@10"], rows)
    published = TABLE_2.get(first.dataset)
    if first.split == "test" and published:
        rows = [(name, *numbers) for name, numbers in published.items()]
        print_table(["the paper's Table 2", "hits@1", "hits@10", "MRR"], rows)


def _evaluate_facts(
    run: Path, split: str, negatives: Path | None, num_negatives: int | None, seed: int | None, as_json: bool
) -> None:
    from hopwalk import api
    from hopwalk.errors import SettingsError

    if negatives is not None and (num_negatives is not None or seed is not None):
        problem = "--num-negatives and --seed are for sampled facts, and --negatives gives a list"
        raise SettingsError(problem, remedy="Leave one of them out.")
    with ranking_progress():
        found = api.evaluate_facts(
            run, split, num_negatives=10 if num_negatives is None else num_negatives, seed=seed or 0, negatives=negatives
        )
    if as_json:
        print_json(found.to_dict())
        return
    rows = [
        (name, of.num_queries, of.num_true, of.num_false, 100 * of.link_map, 100 * of.fact_precision)
        for name, of in found.relations.items()
    ]
    columns = ["relation", "queries", "true", "false", "MAP of queries", "AP of one list"]
    print_table(columns, rows, title=f"{found.dataset}: facts of {found.split}")
    for line in found.lines():
        print_text(line)


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


def _evaluate_reliability(run: Path, split: str, as_json: bool) -> None:
    from hopwalk import api
    from hopwalk.errors import SettingsError

    if split != "test":
        raise SettingsError("probabilities are fitted on dev, and their card has that figure", remedy="Leave --split out.")
    with ranking_progress():
        found = api.reliability(run)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [(f"{mean:.2f}", f"{share:.2f}", f"{count:,}") for mean, share, count in found.bins]
    print_table(["probability", "share that is true", "candidates"], rows, title="New facts, by their probability")
    for line in found.lines():
        print_text(line)


def _evaluate_faithfulness(run: Path, split: str, num_queries: int, as_json: bool) -> None:
    from hopwalk import api
    from hopwalk.reasoning.faithfulness import NAMES

    with ranking_progress():
        found = api.faithfulness(run, split, num_queries=num_queries)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [
        (NAMES[name], *(f"{100 * value:.1f}" for value in (effect.drop, effect.hits_at_1, effect.mrr)))
        for name, effect in found.effects.items()
    ]
    title = f"{found.dataset}: {found.split}, right answers that were ranked first"
    print_table(["", "score lost, %", "still first, %", "MRR"], rows, title=title)
    for line in found.lines():
        print_text(line)


def _print_evaluation(evaluation: Evaluation) -> None:
    named = {"tails (the paper's)": evaluation.tails, "heads": evaluation.heads, "both": evaluation.both}
    named |= {f"tails, {name}": found for name, found in evaluation.strata.items()}
    rows = [(name, *_percentages(found)) for name, found in named.items() if found.num_queries]
    title = f"{evaluation.dataset}: {evaluation.split}"
    print_table(["queries for", "number", "MRR", "hits@1", "hits@3", "hits@10"], rows, title=title)
    low, high = (100 * bound for bound in evaluation.mrr_interval)
    print_text(f"95 % interval of the MRR of tails: {low:.2f} to {high:.2f}. MAP {100 * evaluation.mean_average_precision:.2f}.")
    but_test = "" if evaluation.is_filter_complete else ", except those of test,"
    print_text(f"Filtered ranking: other known answers{but_test} are removed. Ties get the mean rank.")


def _percentages(found: Metrics) -> tuple[Any, ...]:
    return found.num_queries, *(100 * value for value in (found.mrr, found.hits_at_1, found.hits_at_3, found.hits_at_10))
