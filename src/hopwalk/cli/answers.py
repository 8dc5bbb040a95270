"""`hopwalk ask`, `explain`, `rules` and `complete`: what a reasoner answers, why, by which rules, and for the whole graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import print_finding, print_json, print_json_line, print_text, printable
from hopwalk.cli.progress import CountBar
from hopwalk.cli.train import RunFolder
from hopwalk.errors import DataError, HopwalkError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hopwalk.reasoning.reasoner import Reasoner
    from hopwalk.reasoning.results import Answers

QUERIES_AT_ONCE = 256  # of a file: answers are shown as they come
HOW_QUERIES_LOOK = "A question looks so: steroid, a tab, interacts_with."

Facts = Annotated[
    Path | None,
    typer.Option(help="More facts to walk, without training: a file of triples about known entities.", show_default=False),
]
Html = Annotated[Path | None, typer.Option(help="Write a page with pictures of the paths to this file.", show_default=False)]


def ask(
    run: RunFolder,
    head: Annotated[str | None, typer.Argument(help="The entity that the question begins with.", show_default=False)] = None,
    relation: Annotated[
        str | None, typer.Argument(help="The relation asked for; with ⁻¹ at its end, its inverse.", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    paths: Annotated[int, typer.Option(min=1, help="How many paths of each, at most.")] = 1,
    new: Annotated[bool, typer.Option("--new", help="Leave known facts out: predictions only.")] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Questions from a file, or - for standard input: head, tab, relation on each line.", show_default=False
        ),
    ] = None,
    facts: Facts = None,
    html: Html = None,
    as_json: options.Json = False,
) -> None:
    """Answer a question (head, relation, ?): ranked answers, each with the paths that lead to it.

    Facts of the graph are marked as known, others as predicted. Names are found but for case, blanks and underscores. With
    --from, many questions are answered together; --json then prints one line for each.

    Examples:

    - `hopwalk ask runs/umls steroid interacts_with`

    - `hopwalk ask runs/umls steroid interacts_with --new --paths 3 --html answer.html`

    - `hopwalk ask runs/umls "cell function" affects --inverse -k 5`

    - `hopwalk ask runs/umls --from queries.tsv --json > answers.jsonl`

    - `hopwalk ask runs/umls steroid interacts_with --facts new.csv`
    """
    asked = list(_queries(head, relation, from_, inverse))
    reasoner = _loaded(run, facts)
    if from_ is not None:
        _check_names(reasoner, asked, from_)
    if html is not None:
        _refuse_folder(html)
    shown: list[Answers] = []
    for first in range(0, len(asked), QUERIES_AT_ONCE):
        part = [query for _, query in asked[first : first + QUERIES_AT_ONCE]]
        found = reasoner.ask_many(part, k=k, num_paths=max(paths, 3 if html else 1), only_new=new)
        shown += found if html else []
        _print_answers(found, paths, as_json, is_one=from_ is None, is_first=first == 0)
    if html is not None:
        _write_page(html, shown[0].query if from_ is None else f"{len(shown):,} questions", shown, reasoner)


def _queries(head: str | None, relation: str | None, file: Path | None, inverse: bool) -> Iterator[tuple[int, tuple[str, str]]]:
    """The questions, each with the line it stands in."""
    if file is not None and head is not None:
        raise SettingsError("--from takes its questions from a file, and there is one on the command line too")
    if file is None and (head is None or relation is None):
        remedy = "Ask `hopwalk ask RUN HEAD RELATION`, or say --from FILE for questions of a file."
        raise SettingsError("there is no question", remedy=remedy)
    asked = [(0, (head or "", relation or ""))] if file is None else _queries_of(file)
    for line, (one, other) in asked:
        yield line, (one, _directed(other, inverse))


def _directed(relation: str, is_inverse: bool) -> str:
    from hopwalk.reasoning.values import INVERSE

    return f"{relation}{INVERSE}" if is_inverse and not relation.endswith(INVERSE) else relation


def _queries_of(file: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    is_stdin = str(file) == "-"
    name = "standard input" if is_stdin else file
    try:
        content = sys.stdin.buffer.read() if is_stdin else file.read_bytes()
    except OSError as error:
        remedy = "Give a file with a question a line, or - for standard input."
        raise DataError(f"the questions cannot be read: {error.strerror}", path=file, remedy=remedy) from None
    number = 0
    for number, encoded in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            line = encoded.decode()
        except UnicodeDecodeError:
            raise DataError("the line is not UTF-8 text", path=name, line=number) from None
        columns = line.split("\t")
        if len(columns) == 2 and all(columns):
            yield number, (columns[0], columns[1])
        elif line.strip():
            told = f"expected a head and a relation with a tab between them, found {len(columns)} column{'s'[: len(columns) - 1]}"
            raise DataError(told, path=name, line=number, remedy=HOW_QUERIES_LOOK)
    if not content.strip():
        raise DataError("there are no questions in it", path=name, remedy=HOW_QUERIES_LOOK)


def _check_names(reasoner: Reasoner, asked: Sequence[tuple[int, tuple[str, str]]], file: Path) -> None:
    """Find the names of all questions before any is answered; an error tells the line."""
    name = "standard input" if str(file) == "-" else file
    for line, query in asked:
        try:
            reasoner.names.query_ids(*query)
        except HopwalkError as error:
            raise type(error)(error.problem, path=name, line=line, remedy=error.remedy) from None


def _loaded(run: Path, facts: Path | None) -> Reasoner:
    from hopwalk.api import load

    if facts is None:
        return load(run)
    from hopwalk.reasoning.facts import read_facts

    rows, findings = read_facts(facts)
    reasoner = load(run).with_facts(rows, source=facts)
    for finding in findings:
        print_finding(finding)
    return reasoner


def _print_answers(found: Sequence[Answers], paths: int, as_json: bool, *, is_one: bool, is_first: bool) -> None:
    for number, answers in enumerate(found):
        shown = answers.with_paths(paths)
        if as_json:
            print_json(shown.to_dict()) if is_one else print_json_line(shown.to_dict())
            continue
        if number or not is_first:
            print_text("")
        print_text(printable(str(shown)))


def _refuse_folder(path: Path) -> None:
    """Tell it before the work is done."""
    if path.is_dir():
        raise SettingsError(f"{path} is a folder", remedy="Name the file to write, such as answer.html.")


def _write_page(path: Path, title: str, shown: Sequence[Answers], reasoner: Reasoner) -> None:
    from hopwalk import __version__
    from hopwalk.learning.run import write_text
    from hopwalk.reasoning.html import whole_page

    footer = f"Answered by hopwalk {__version__} from {reasoner!r}. Known: a fact of the graph. Predicted: not one. "
    footer += "The bar is the scorer's probability." if reasoner.has_scorer else "The bar is the probability of the walks."
    write_text(path, whole_page(title, [answers.to_html() for answers in shown], footer))
    print_text(f"page: {path}", to_stderr=True)


def explain(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The entity that the question begins with.", show_default=False)],
    relation: Annotated[str, typer.Argument(help="The relation asked for; with ⁻¹ at its end, its inverse.", show_default=False)],
    tail: Annotated[str, typer.Argument(help="The answer to explain.", show_default=False)],
    paths: Annotated[int, typer.Option(min=1, help="How many paths, at most.")] = 5,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    facts: Facts = None,
    as_json: options.Json = False,
) -> None:
    """Say why an entity is an answer, or why not: rank, paths, the rules they stand for, and where the walk loses it.

    The fact itself, if the graph has it, is not walked. Support and confidence of a rule are counted on the facts of the graph.

    Examples:

    - `hopwalk explain runs/umls steroid interacts_with eicosanoid`

    - `hopwalk explain runs/umls steroid interacts_with eicosanoid --facts new.csv`
    """
    found = _loaded(run, facts).explain(head, _directed(relation, inverse), tail, num_paths=paths)
    print_json(found.to_dict()) if as_json else print_text(printable(str(found)))


def rules(
    run: RunFolder,
    relation: Annotated[str, typer.Argument(help="The relation; with ⁻¹ at its end, its inverse.", show_default=False)],
    split: Annotated[str | None, typer.Option(help="Whose questions to look at: valid or train; valid if it has any.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many rules.")] = 20,
    inverse: Annotated[bool, typer.Option("--inverse", help="Rules for the inverse of the relation.")] = False,
    anyburl: Annotated[
        Path | None, typer.Option(help="Write them to this file too, in AnyBURL's form.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the rules that a reasoner uses for a relation, with support and confidence in the graph, and an example of each.

    Examples:

    - `hopwalk rules runs/umls interacts_with`

    - `hopwalk rules runs/umls affects --split train -k 50 --anyburl rules.txt`
    """
    from hopwalk.api import load
    from hopwalk.learning.run import write_text
    from hopwalk.reasoning.rules import anyburl_line

    if split not in (None, "valid", "train"):
        raise SettingsError(f"there is no split {split!r} to look at", remedy="Splits are valid and train.")
    found = load(run).rules(_directed(relation, inverse), split=split or "", k=k)
    if anyburl is not None:
        write_text(anyburl, "".join(anyburl_line(used.rule, used.evidence) + "\n" for used in found))
    if as_json:
        print_json([used.to_dict() for used in found])
        return
    for number, used in enumerate(found, start=1):
        print_text(printable(f"{number:3}. {used.rule}"))
        print_text(f"     {100 * used.weight:.1f} % of the paths, in {used.queries:,} queries; {used.evidence}")
        print_text(printable(f"     e.g. {used.examples[0]}"))


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
    from hopwalk.api import load

    with CountBar() as bar:

        def show(done: int, total: int, facts: int) -> None:
            bar.show(done, total, f"{done:,} of {total:,} questions, {facts:,} facts")

        found = load(run).complete(out, relations=relation or (), above=above, resume=resume, on_progress=show)
    rate = found.queries_of_session / max(found.seconds, 1e-9)
    print_text(f"{out}: {found.facts:,} new facts from {found.queries:,} questions, {rate:,.0f} questions a second")
