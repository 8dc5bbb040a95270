"""`hopwalk evaluate`: from a run to metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwalk.cli import options
from hopwalk.cli.console import note_missing_digests, print_json, print_table, print_text
from hopwalk.cli.progress import ranking_progress
from hopwalk.cli.train import RunFolder
from hopwalk.paper.published import TABLE_2

if TYPE_CHECKING:
    from hopwalk.learning.evaluation import Evaluation
    from hopwalk.learning.metrics import Metrics

TASKS = ("answers", "facts")


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
