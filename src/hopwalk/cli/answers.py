"""`hopwalk ask`, `explain`, `rules`, `complete` and `paths`: answers, their reasons and rules, and facts of the whole graph."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwalk.cli import options
from hopwalk.cli.console import note_missing_digests, print_finding, print_json, print_json_line, print_text, printable
from hopwalk.cli.progress import CountBar
from hopwalk.cli.train import RunFolder
from hopwalk.errors import DataError, HopwalkError, SettingsError
from hopwalk.utils.files import read_bytes
from hopwalk.utils.text import counted, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hopwalk.reasoning.reasoner import Reasoner
    from hopwalk.reasoning.results import Answers

MOST_QUERY_BYTES = 2**30  # of a file of queries
MOST_NEW_SHOWN = 5  # names of new entities
QUERIES_AT_ONCE = 256  # of a file: answers are printed as they come
UNKNOWN = "?"  # in the place of what is asked for
QUERY_FORMAT = "A line is a head, a tab and a relation, such as steroid, tab, interacts_with."

Facts = Annotated[
    Path | None,
    typer.Option(
        help="Facts to add without training: a file of triples. Propagation takes new entities, too.", show_default=False
    ),
]
Html = Annotated[Path | None, typer.Option(help="Also write an HTML page with drawings of the paths.", show_default=False)]


def ask(
    run: RunFolder,
    head: Annotated[str | None, typer.Argument(help="The head entity of the query.", show_default=False)] = None,
    relation: Annotated[
        str | None, typer.Argument(help="The relation of the query; with ⁻¹ at its end, its inverse.", show_default=False)
    ] = None,
    tail: Annotated[
        str | None, typer.Argument(help="The tail entity, if the head is ?; or ?, which may be left out.", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of answers.")] = 10,
    paths: Annotated[int, typer.Option(min=1, help="Maximum number of paths per answer.")] = 1,
    new: Annotated[bool, typer.Option("--new", help="Only new answers: leave out known facts.")] = False,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Queries from a file, or - for standard input: head, tab, relation on each line.", show_default=False
        ),
    ] = None,
    facts: Facts = None,
    html: Html = None,
    as_json: options.Json = False,
) -> None:
    """Answer a query (head, relation, ?) or (?, relation, tail): ranked answers, each with the paths that lead to it.

    Facts of the graph are marked as known, others as predicted, or as unlikely if their probability is low. Case, blanks, hyphens
    and underscores in names do not matter. With --from, many queries are answered together; --json then prints one line for each.

    Examples:

    - `hopwalk ask runs/umls steroid interacts_with`

    - `hopwalk ask runs/umls steroid interacts_with --new --paths 3 --html answer.html`

    - `hopwalk ask runs/umls ? affects "cell function" -k 5`

    - `hopwalk ask runs/umls --from queries.tsv --json > answers.jsonl`

    - `hopwalk ask runs/umls steroid interacts_with --facts new.csv`
    """
    if head is not None and relation is not None and tail is not None:
        head, relation = _by_role(head, relation, tail)
    queries = list(_queries(head, relation, from_, inverse))
    reasoner = _loaded(run, facts)
    if from_ is not None:
        _check_names(reasoner, queries, from_)
    if html is not None:
        _refuse_folder(html)
    shown: list[Answers] = []
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        part = [query for _, query in queries[first : first + QUERIES_AT_ONCE]]
        spare = 3 if html or from_ is None else 1  # of these paths, those of rules that hold are shown
        found = reasoner.ask_many(part, k=k, num_paths=max(paths, spare), only_new=new)
        shown += found if html else []
        _print_answers(found, paths, as_json, is_one=from_ is None, is_first=first == 0)
    if reasoner.basis and not as_json:
        print_text(reasoner.basis, to_stderr=True)
    if html is not None:
        _write_page(html, shown[0].query if from_ is None else f"{len(shown):,} queries", shown, reasoner)


def _queries(head: str | None, relation: str | None, file: Path | None, inverse: bool) -> Iterator[tuple[int, tuple[str, str]]]:
    """The queries, each with its line in the file."""
    if file is not None and head is not None:
        raise SettingsError("--from reads queries from a file, but there is also one on the command line")
    if file is None and head == UNKNOWN:
        asked = relation or "RELATION"
        remedy = f"Give what is known after the relation, for example: hopwalk ask RUN ? {asked} TAIL."
        raise SettingsError("the tail is missing: a query with ? for its head asks which heads have this tail", remedy=remedy)
    if file is None and (head is None or relation is None):
        remedy = "Use `hopwalk ask RUN HEAD RELATION`, or --from FILE for the queries of a file."
        raise SettingsError("there is no query", remedy=remedy)
    queries = [(0, (head or "", relation or ""))] if file is None else _queries_of(file)
    for line, (name, relation_name) in queries:
        yield line, (name, _directed(relation_name, inverse))


def _by_role(head: str, relation: str, tail: str) -> tuple[str, str]:
    """Head and relation of the query in which one end is ?."""
    if (head == UNKNOWN) == (tail == UNKNOWN):
        problem = "a query has ? in the place of its head or of its tail"
        raise SettingsError(
            problem, remedy='For example: hopwalk ask RUN steroid affects ?, or hopwalk ask RUN ? affects "cell".'
        )
    return (tail, _directed(relation, True)) if head == UNKNOWN else (head, relation)


def _directed(relation: str, is_inverse: bool) -> str:
    from hopwalk.reasoning.values import INVERSE

    return f"{relation}{INVERSE}" if is_inverse and not relation.endswith(INVERSE) else relation


def _lines_of(file: Path, what: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, or of standard input, with their numbers."""
    is_stdin = str(file) == "-"
    name = "standard input" if is_stdin else file
    try:
        content = sys.stdin.buffer.read(MOST_QUERY_BYTES + 1) if is_stdin else read_bytes(file, MOST_QUERY_BYTES)
    except OSError as error:
        remedy = "Give a file of text, or - for standard input."
        raise DataError(f"the {what} cannot be read: {error.strerror}", path=file, remedy=remedy) from None
    if len(content) > MOST_QUERY_BYTES:
        raise DataError(f"there are too many {what} for one call", path=name, remedy="Give a part of them.")
    for number, encoded in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            yield number, encoded.decode()
        except UnicodeDecodeError:
            raise DataError("the line is not UTF-8 text", path=name, line=number) from None


def _queries_of(file: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    name, is_empty = "standard input" if str(file) == "-" else file, True
    for number, line in _lines_of(file, "queries"):
        columns = line.split("\t")
        if len(columns) == 2 and all(columns):
            yield number, (columns[0], columns[1])
        elif line.strip():
            problem = f"expected a head and a relation with a tab between them, found {counted(len(columns), 'column')}"
            raise DataError(problem, path=name, line=number, remedy=QUERY_FORMAT)
        is_empty &= not line.strip()
    if is_empty:
        raise DataError("the file has no queries", path=name, remedy=QUERY_FORMAT)


def _check_names(reasoner: Reasoner, queries: Sequence[tuple[int, tuple[str, str]]], file: Path) -> None:
    """Look up all names before any query is answered; an error names the line."""
    name = "standard input" if str(file) == "-" else file
    for line, query in queries:
        try:
            reasoner.names.query_ids(*query)
        except HopwalkError as error:
            raise type(error)(error.problem, path=name, line=line, remedy=error.remedy) from None


def _loaded(run: Path, facts: Path | None) -> Reasoner:
    from hopwalk.api import load

    note_missing_digests(run)
    if facts is None:
        return load(run)
    from hopwalk.reasoning.facts import read_facts

    rows, findings = read_facts(facts)
    reasoner = load(run).with_facts(rows, source=facts)
    for finding in findings:
        print_finding(finding)
    if reasoner.new_entities:
        named = ", ".join(shorten(name) for name in reasoner.new_entities[:MOST_NEW_SHOWN])
        more = ", …" if len(reasoner.new_entities) > MOST_NEW_SHOWN else ""
        print_text(printable(f"{counted(len(reasoner.new_entities), 'new entity')}: {named}{more}"), to_stderr=True)
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
    """An error if the path is a folder, before the work is done."""
    if path.is_dir():
        raise SettingsError(f"{path} is a folder", remedy="Give the name of a file, such as answer.html.")


def _write_page(path: Path, title: str, shown: Sequence[Answers], reasoner: Reasoner) -> None:
    from hopwalk import __version__
    from hopwalk.reasoning.html import whole_page
    from hopwalk.utils.files import write_text

    data = reasoner.dataset
    sizes = {"entity": len(data.entities), "relation": len(data.relations), "fact": len(data.facts)}
    counts = ", ".join(counted(count, noun) for noun, count in sizes.items())
    footer = f"hopwalk {__version__} on {data.name}: {counts}. Known: a fact of the graph. Predicted: a new answer. "
    footer += f"Bars show how likely a new fact is to be true. {reasoner.basis}".rstrip()
    title = title if reasoner.keeps_underscores else title.replace("_", " ")
    write_text(path, whole_page(title, [answers.to_html() for answers in shown], footer))
    print_text(f"{path}: written", to_stderr=True)


def explain(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The head entity of the query.", show_default=False)],
    relation: Annotated[
        str, typer.Argument(help="The relation of the query; with ⁻¹ at its end, its inverse.", show_default=False)
    ],
    tail: Annotated[str, typer.Argument(help="The answer to explain.", show_default=False)],
    paths: Annotated[int, typer.Option(min=1, help="Maximum number of paths.")] = 5,
    k: Annotated[
        int, typer.Option("-k", min=1, help="The rank is that in a list of so many new answers, as of ask --new -k.")
    ] = 10,
    inverse: Annotated[bool, typer.Option("--inverse", help="Ask for the inverse of the relation.")] = False,
    facts: Facts = None,
    as_json: options.Json = False,
) -> None:
    """Explain why an entity is an answer, or why not: its rank, its paths and their rules, or where the search loses it.

    The fact itself, if the graph has it, is hidden. Support and confidence of a rule are counted on the facts of the graph.

    Examples:

    - `hopwalk explain runs/umls steroid interacts_with eicosanoid`

    - `hopwalk explain runs/umls steroid interacts_with eicosanoid --facts new.csv`
    """
    found = _loaded(run, facts).explain(head, _directed(relation, inverse), tail, num_paths=paths, k=k)
    print_json(found.to_dict()) if as_json else print_text(printable(str(found)))


def rules(
    run: RunFolder,
    relation: Annotated[str, typer.Argument(help="The relation; with ⁻¹ at its end, its inverse.", show_default=False)],
    split: Annotated[
        str | None,
        typer.Option(
            help="The split whose queries are used: valid or train. [default: valid, or train if valid has none]",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of rules.")] = 20,
    inverse: Annotated[bool, typer.Option("--inverse", help="Rules for the inverse of the relation.")] = False,
    anyburl: Annotated[
        Path | None, typer.Option(help="Also write the rules to this file, in AnyBURL's format.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the rules that a reasoner uses for a relation, by use × confidence in the graph, with an example of each.

    Examples:

    - `hopwalk rules runs/umls interacts_with`

    - `hopwalk rules runs/umls affects --split train -k 50 --anyburl rules.txt`
    """
    from hopwalk.reasoning.rules import anyburl_line
    from hopwalk.utils.files import write_text

    if split not in (None, "valid", "train"):
        raise SettingsError(f"there is no split {split!r} for rules", remedy="Splits are valid and train.")
    found = _loaded(run, None).rules(_directed(relation, inverse), split=split or "", k=k)
    if anyburl is not None:
        write_text(anyburl, "".join(anyburl_line(used.rule, used.evidence) + "\n" for used in found))
    if as_json:
        print_json([used.to_dict() for used in found])
        return
    if not found:
        print_text("No rule that the reasoner uses for this relation ever holds in the graph.")
    for number, used in enumerate(found, start=1):
        print_text(printable(f"{number:3}. {used.rule}"))
        use = f"use {used.weight:.3f}, in {counted(used.queries, 'query')}" if used.queries else f"weight {used.weight:.3f}"
        print_text(f"     {used.evidence}; {use}")
        for example in used.examples[:1]:
            print_text(printable(f"     e.g. {example}"))


def complete(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The file to write: .tsv, .parquet or .nt.")] = Path("predictions.tsv"),
    relation: Annotated[
        list[str] | None, typer.Option(help="Only for this relation; can be given several times.", show_default=False)
    ] = None,
    heads: Annotated[
        Path | None,
        typer.Option(help="Ask only these heads: a file with one on each line, or - for standard input.", show_default=False),
    ] = None,
    above: Annotated[float, typer.Option(min=0, max=1, help="Minimum probability of a proposed fact.")] = 0.5,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run; one that is complete is left as it is.")
    ] = False,
    on: options.On = "local",
) -> None:
    """Propose missing facts for the whole graph, or for some relations, the most likely first.

    A relation is asked for from every entity that is like its known heads, and by its inverse from every entity that is like its
    known tails. A row has the probability of the fact, the path that carries most of it, and the rule of that path.

    Examples:

    - `hopwalk complete runs/umls --above 0.8`

    - `hopwalk complete runs/umls --relation affects --relation causes --out new.parquet`

    - `hopwalk complete runs/umls --relation affects --heads viruses.txt`

    - `hopwalk complete runs/umls --on ray`
    """
    reasoner = _loaded(run, None)
    chosen = None if heads is None else _heads_of(heads, reasoner)
    with options.place_of(on) as place, CountBar() as bar:

        def show(done: int, total: int, facts: int, stage: str) -> None:
            bar.show(done, total, f"{stage}: {done:,} of {total:,} queries, {facts:,} facts")

        found = reasoner.complete(
            out, relations=relation or (), heads=chosen, above=above, resume=resume, on_progress=show, place=place
        )
    rate = found.queries_of_session / max(found.seconds, 1e-9)
    facts, queries = counted(found.facts, "new fact"), counted(found.queries, "query")
    told = "already complete" if found.was_complete else f"{rate:,.0f} queries per second"
    print_text(f"{out}: {facts} from {queries}, {told}")


def paths(
    run: RunFolder,
    head: Annotated[str, typer.Argument(help="The entity where paths begin.", show_default=False)],
    tail: Annotated[str, typer.Argument(help="The entity where they end.", show_default=False)],
    hops: Annotated[int, typer.Option(min=1, max=6, help="Maximum number of facts in a path.")] = 3,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of paths.")] = 10,
    facts: Facts = None,
    as_json: options.Json = False,
) -> None:
    """List the paths of known facts between two entities: shortest first, then those through the least busy entities.

    Examples:

    - `hopwalk paths runs/umls steroid eicosanoid`

    - `hopwalk paths runs/umls steroid eicosanoid --hops 2 --json`
    """
    found = _loaded(run, facts).paths_between(head, tail, hops=hops, k=k)
    print_json(found.to_dict()) if as_json else print_text(printable(str(found)))


def propose(
    run: RunFolder,
    entity: Annotated[str | None, typer.Argument(help="Facts about this entity.", show_default=False)] = None,
    relation: Annotated[
        str | None,
        typer.Option(help="Only facts of this relation; with ⁻¹ at its end, asked from its tails.", show_default=False),
    ] = None,
    above: Annotated[float, typer.Option(min=0, max=1, help="Minimum probability of a proposed fact.")] = 0.5,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of facts.")] = 10,
    facts: Facts = None,
    as_json: options.Json = False,
) -> None:
    """Propose missing facts about an entity, of a relation, or of both, the likeliest first; `complete` asks the whole graph.

    Examples:

    - `hopwalk propose runs/umls steroid`

    - `hopwalk propose runs/umls --relation affects --above 0.8`
    """
    found = _loaded(run, facts).propose(entity, relation, above=above, k=k)
    if as_json:
        print_json(found.to_dict())
        return
    asked = f"{found.num_asked:,} of {counted(found.num_queries, 'query')}"
    print_text(f"{counted(found.total, 'new fact')} of at least {100 * above:g} %, from {asked}")
    for fact in found.facts:
        print_text(printable(f"{100 * fact.probability:5.1f} %  {fact.text}"))
        for path in fact.paths[:1]:
            print_text(printable(f"         {path}"))


def _heads_of(file: Path, reasoner: Reasoner) -> list[str]:
    """The names of entities in a file, one on each line; an error names the line of one that is not known."""
    names = [(number, line.strip()) for number, line in _lines_of(file, "heads") if line.strip()]
    place = "standard input" if str(file) == "-" else file
    if not names:
        raise DataError("the file has no heads", path=place, remedy="Put the name of an entity on each line.")
    for number, name in names:
        try:
            reasoner.names.entity_id(name)
        except HopwalkError as error:
            raise type(error)(error.problem, path=place, line=number, remedy=error.remedy) from None
    return [name for _, name in names]
