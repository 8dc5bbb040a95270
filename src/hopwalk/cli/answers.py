"""`hopwalk ask`: questions to a walker, answers with their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_json, print_text, printable
from hopwalk.cli.train import RunFolder

if TYPE_CHECKING:
    from hopwalk.answers import Answer


def ask(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The entity that the question begins with.", show_default=False)],
    relation: Annotated[str, typer.Argument(help="The relation asked for; with ⁻¹ at its end, its inverse.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    paths: Annotated[int, typer.Option(min=1, help="How many paths of each, at most.")] = 1,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    as_json: options.Json = False,
) -> None:
    """Answer a question (head, relation, ?): ranked answers, each with the paths that lead to it.

    Facts of the graph are marked as known, others as predicted. Names are found but for case, blanks and underscores.

    Examples:

    - `hopwalk ask runs/umls steroid interacts_with`

    - `hopwalk ask runs/umls "cell function" affects --inverse -k 5 --paths 3`
    """
    from hopwalk.api import ask as answer
    from hopwalk.asking import INVERSE

    asked = f"{relation}{INVERSE}" if inverse and not relation.endswith(INVERSE) else relation
    found = answer(run, head, asked, k=k, num_paths=paths)
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
