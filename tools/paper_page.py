"""Fill in the results in README and docs: `docs/paper.md` with its figures, tables, and single numbers.

    python -m tools.paper_page

- `docs/paper.md` and `docs/figures/` are made from the ledger in `results/`, as `hopwalk reproduce all --no-train` does.
- A table stands between `<!-- paper: short -->` and `<!-- end -->`; those of `result_tables.py` likewise.
- A number in the text has a mark behind it: `59.4<!-- umls-modern-complex-0 valid.policy.tails.mrr -->` is that of a result,
  x 100; a name that ends in `-*` is the mean over its seeds. `94.0<!-- paper -->` is one of the paper's.

A number near the words MRR or hits@ without a mark is an error (`unmarked`), unless its paragraph says that it is not in
`results/`, or names the file of a benchmark there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from benchmarks.machine import PROJECT

from hopwalk.paper import published
from hopwalk.paper.ledger import Ledger, Result
from hopwalk.paper.parts import CUT, MEANINGS
from hopwalk.paper.plan import targets_of
from hopwalk.paper.published import TABLE_2, TABLE_2_QUOTED, TITLES
from hopwalk.paper.report import figures_of, markdown, sections_of, write_figures
from hopwalk.paper.tables import BEYOND, best_of
from hopwalk.utils.files import write_text
from tools.result_tables import RESULTS, view, with_tables

DOCS = PROJECT / "docs"
PAGE, FIGURES = DOCS / "paper.md", DOCS / "figures"
PAGES = [PROJECT / "README.md", *sorted(page for page in DOCS.glob("*.md") if page != PAGE)]
GENERATED = re.compile(r"<!-- (?:results|paper): \w+ -->.*?<!-- end -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"(?P<number>\d+\.\d+|\?)<!-- (?P<what>[^>]+?) -->")
NUMBER = re.compile(r"(?<![\w.,/=§-])[1-9]\d?\.\d{1,2}(?!\w|\.\d|<!--| (?:s|h|ms|min|MB|GB|kB)\b)")
ABOUT_RESULTS = re.compile(r"\bMRR\b|\bhits@", re.IGNORECASE)
NOT_KEPT = re.compile(r"not (?:kept )?in `results/`")
COMMENTS = re.compile(r"\A(?:<!--.*?-->\s*)+")
BENCHMARK = re.compile(r"`results/([\w-]+\.json)`")  # the file of a benchmark, where its numbers come from


def page_and_figures() -> tuple[str, dict[str, str]]:
    """The text of `docs/paper.md`, and its figures by name."""
    sections = sections_of(targets_of(["all"]), view())
    return markdown(sections), figures_of(sections)


def filled(text: str) -> str:
    """The text of a page with its tables and marked numbers filled in from the ledger."""
    text = with_tables(text)
    short = f"<!-- paper: short -->\n{short_table()}\n<!-- end -->"
    text = re.sub(r"<!-- paper: short -->.*?<!-- end -->", lambda _: short, text, flags=re.DOTALL)
    results = Ledger(RESULTS).results
    return MARK.sub(lambda mark: f"{_number(mark, results)}<!-- {mark['what']} -->", text)


def _number(mark: re.Match[str], results: Iterable[Result]) -> str:
    """The number that belongs to a mark."""
    if mark["what"] == "paper":
        if float(mark["number"]) not in papers_numbers():
            raise ValueError(f"the paper has no number {mark['number']}")
        return mark["number"]
    name, key = mark["what"].split()
    pattern = re.compile(re.escape(name).replace(r"\-\*", r"-\d+"))
    found = [_value(result, key) for result in results if pattern.fullmatch(result.name)]
    if not found:
        raise ValueError(f"there is no result {name}")
    return f"{100 * np.mean(found):.1f}"


def _value(result: Result, key: str) -> float:
    value: Any = result.content
    for part in key.split("."):
        value = value[part]
    return float(value)


def papers_numbers() -> set[float]:
    """All numbers of the paper in `hopwalk.paper.published`."""

    def numbers(value: Any) -> Iterator[float]:
        if isinstance(value, float | int):
            yield float(value)
        elif isinstance(value, dict | tuple):
            for part in value.values() if isinstance(value, dict) else value:
                yield from numbers(part)

    return {number for name, value in vars(published).items() if name.isupper() for number in numbers(value)}


def unmarked(text: str) -> list[str]:
    """Numbers near the words MRR or hits@ that are in no generated table and have no mark, each with its line.

    A table belongs to the paragraph before it.
    """

    def is_source(code: str) -> bool:
        return bool(NOT_KEPT.search(f"not in {code}") or BENCHMARK.fullmatch(code))

    text = CODE.sub(lambda code: code[0] if is_source(code[0]) else "", GENERATED.sub("", text))
    paragraphs: list[str] = []
    for part in re.split(r"\n\s*\n", text):
        if COMMENTS.sub("", part).startswith("|") and paragraphs:
            paragraphs[-1] += f"\n{part}"
        else:
            paragraphs.append(part)
    return [
        f"{found[0]} in {line.strip()[:100]!r}"
        for paragraph in paragraphs
        if ABOUT_RESULTS.search(paragraph) and not NOT_KEPT.search(paragraph) and not _has_benchmark(paragraph)
        for line in paragraph.splitlines()
        for found in NUMBER.finditer(line)
    ]


def _has_benchmark(paragraph: str) -> bool:
    """Whether a paragraph names files of benchmarks, all of which exist."""
    names = BENCHMARK.findall(paragraph)
    return bool(names) and all((RESULTS / name).exists() for name in names)


def short_table() -> str:
    """Test MRR in one table: the paper's best and ours."""
    known = view()
    of_paper = [TABLE_2[data] | TABLE_2_QUOTED[data] for data in TITLES]
    walkers, models = (
        [max(numbers[2] for name, numbers in found.items() if name.startswith("walker") == is_walker) for found in of_paper]
        for is_walker in (True, False)
    )
    best = {data: best_of(known, data) for data in TITLES}

    def ours(title: str) -> list[str]:
        return [best[data][title].text("test") if title in best[data] else "" for data in TITLES]

    rows = {
        "the paper's best walker": [f"{number:.1f}" for number in walkers],
        "the paper's best other model": [f"{number:.1f}" for number in models],
        **{f"hopwalk, {title}": ours(title) for title in BEYOND if any(title in found for found in best.values())},
    }
    lines = [f"| test MRR | {' | '.join(TITLES.values())} |", f"|---|{'---:|' * len(TITLES)}"]
    table = "\n".join([*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows.items())])
    return f"{table}\n\n{CUT} {MEANINGS[CUT]}." if CUT in table else table


def main() -> None:
    """Fill in everything, and print what has changed."""
    text, figures = page_and_figures()
    for old in FIGURES.glob("*.svg"):
        if old.stem not in figures:
            old.unlink()
    write_figures(FIGURES, sections_of(targets_of(["all"]), view()))
    pages = {PAGE: text} | {page: filled(page.read_text(encoding="utf-8")) for page in PAGES}
    for page, new in pages.items():
        if not page.exists() or page.read_text(encoding="utf-8") != new:
            write_text(page, new)
            print(f"{page.name}: filled in")
        for number in unmarked(new) if page != PAGE else []:
            print(f"{page.name}: no mark behind {number}")


if __name__ == "__main__":
    main()
