"""`hopwalk ask`, `explain`, `rules` and `complete`: what a walker answers, why, by which rules, and for the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import console, print_json, print_table, print_text, printable
from hopwalk.cli.train import RunFolder

if TYPE_CHECKING:
    from hopwalk.answers import Answer
    from hopwalk.explaining import Explanation


def ask(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The entity that the question begins with.", show_default=False)],
    relation: Annotated[str, typer.Argument(help="The relation asked for; with ⁻¹ at its end, its inverse.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    paths: Annotated[int, typer.Option(min=1, help="How many paths of each, at most.")] = 1,
    new: Annotated[bool, typer.Option("--new", help="Leave known facts out: predictions only.")] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    as_json: options.Json = False,
) -> None:
    """Answer a question (head, relation, ?): ranked answers, each with the paths that lead to it.

    Facts of the graph are marked as known, others as predicted. Names are found but for case, blanks and underscores.

    Examples:

    - `hopwalk ask runs/umls steroid interacts_with`

    - `hopwalk ask runs/umls steroid interacts_with --new --paths 3`

    - `hopwalk ask runs/umls "cell function" affects --inverse -k 5 --paths 3`
    """
    from hopwalk.api import ask as answer
    from hopwalk.asking import INVERSE

    asked = f"{relation}{INVERSE}" if inverse and not relation.endswith(INVERSE) else relation
    found = answer(run, head, asked, k=k, num_paths=paths, only_new=new)
    if as_json:
        print_json({"head": head, "relation": asked, "answers": [one.to_dict() for one in found]})
        return
    _print_answers(head, asked, found)


def _print_answers(head: str, relation: str, found: list[Answer]) -> None:
    print_text(printable(f"{head} —{relation}→ ?"))
    if not any(answer.paths for answer in found):
        print_text("No path reaches an answer" + (": these are guesses of the scorer." if found else "."))
    width = max((len(answer.entity) for answer in found), default=0)
    for answer in found:
        kind = "known" if answer.is_known else "predicted"
        chance = "" if answer.probability is None else f"{100 * answer.probability:5.1f} %"
        lines = [str(path) for path in answer.paths] or ["(no path: the scorer's guess)"]
        print_text(printable(f"{answer.rank:3}. {answer.entity:<{width}}  {kind:<9} {chance}  {lines[0]}"))
        for line in lines[1:]:
            print_text(printable(f"{'':{width + 25}}{line}"))


def explain(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The entity that the question begins with.", show_default=False)],
    relation: Annotated[str, typer.Argument(help="The relation asked for; with ⁻¹ at its end, its inverse.", show_default=False)],
    tail: Annotated[str, typer.Argument(help="The answer to explain.", show_default=False)],
    paths: Annotated[int, typer.Option(min=1, help="How many paths, at most.")] = 5,
    as_json: options.Json = False,
) -> None:
    """Say why an entity is an answer, or why not: rank, paths, the rules they stand for, and where the walk loses it.

    The fact itself, if the graph has it, is not walked. Support and confidence of a rule are counted on the facts of the graph.

    Examples:

    - `hopwalk explain runs/umls steroid interacts_with eicosanoid`
    """
    from hopwalk.api import explain as explain_answer

    found = explain_answer(run, head, relation, tail, num_paths=paths)
    print_json(found.to_dict()) if as_json else _print_explanation(found)


def _print_explanation(found: Explanation) -> None:
    kind = "a known fact" if found.is_known else "not a known fact"
    print_text(printable(f"{found.head} —{found.relation}→ {found.tail}: {kind}"))
    if found.probability is not None:
        print_text(f"The scorer gives it a probability of {100 * found.probability:.1f} %.")
    if found.rank is not None and found.path_probability is not None:
        print_text(f"Number {found.rank} by paths, with a probability of {100 * found.path_probability:.2f} %.")
    if found.why_not:
        print_text(f"Not reached: {found.why_not}.")
    for reason in found.reasons:
        evidence = reason.evidence
        part = " in a random part of the graph" if evidence.is_sampled else ""
        print_text(printable(f"  {reason.path}"))
        print_text(
            printable(f"    {reason.rule}: holds {evidence.support:,} of {evidence.predictions:,} times")
            + f" ({100 * evidence.confidence:.0f} %){part}"
        )


def rules(
    run: RunFolder,
    relation: Annotated[str, typer.Argument(help="The relation; with ⁻¹ at its end, its inverse.", show_default=False)],
    split: Annotated[str | None, typer.Option(help="Whose questions to look at: valid or train; valid if it has any.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many rules.")] = 20,
    anyburl: Annotated[
        Path | None, typer.Option(help="Write them to this file too, in AnyBURL's form.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the rules that a walker uses for a relation, with support and confidence in the graph, and an example of each.

    Examples:

    - `hopwalk rules runs/umls interacts_with`

    - `hopwalk rules runs/umls affects --split train -k 50 --anyburl rules.txt`
    """
    from hopwalk.api import rules as mine
    from hopwalk.errors import SettingsError
    from hopwalk.rules import anyburl_line
    from hopwalk.run import write_text

    if split not in (None, "valid", "train"):
        raise SettingsError(f"there is no split {split!r} to look at", remedy="Splits are valid and train.")
    found = mine(run, relation, split=split or "", k=k)
    if anyburl is not None:
        write_text(anyburl, "".join(anyburl_line(used.rule, used.evidence) + "\n" for used in found))
    if as_json:
        print_json([used.to_dict() for used in found])
        return
    rows = [
        (
            str(used.rule),
            100 * used.weight,
            used.questions,
            used.evidence.support,
            100 * used.evidence.confidence,
            str(used.examples[0]),
        )
        for used in found
    ]
    print_table(["rule", "use %", "questions", "support", "confidence %", "for example"], rows)


def complete(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The file to write: .tsv, .parquet or .nt.")] = Path("predictions.tsv"),
    relation: Annotated[
        list[str] | None, typer.Option(help="Only for this relation; can be given several times.", show_default=False)
    ] = None,
    above: Annotated[float, typer.Option(min=0, max=1, help="The least confidence of what is written.")] = 0.5,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was interrupted.")] = False,
) -> None:
    """Propose missing facts for the whole graph, or for some relations, each with its confidence and best path.

    Every entity that is the head of a fact of a relation is asked for more of its kind. Confidence is the scorer's probability.

    Examples:

    - `hopwalk complete runs/umls --above 0.8`

    - `hopwalk complete runs/umls --relation affects --relation causes --out new.parquet`
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from hopwalk.api import complete as propose

    columns = BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn(compact=True), TextColumn("left")
    bar = Progress(*columns, console=console(to_stderr=True))
    task = bar.add_task("…", total=None)

    def show(done: int, total: int, facts: int) -> None:
        bar.start()  # not before there is something to show: an error may come first
        bar.update(task, completed=done, total=total, description=f"{done:,} of {total:,} questions, {facts:,} facts")

    try:
        found = propose(run, out, relations=relation or (), above=above, resume=resume, on_progress=show)
    finally:
        if bar.live.is_started:
            bar.stop()
    rate = found.questions_of_sitting / max(found.seconds, 1e-9)
    print_text(f"{out}: {found.facts:,} new facts from {found.questions:,} questions, {rate:,.0f} questions a second")
