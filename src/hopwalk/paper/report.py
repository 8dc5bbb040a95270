"""The report: our tables and figures beside the paper's, as Markdown and as one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from hopwalk.paper.figures import appendix_dropout, curves, figure_convergence, figure_false_negatives
from hopwalk.paper.ledger import DONE
from hopwalk.paper.parts import Figure, ResultView, Section, Table
from hopwalk.paper.plan import Target, planned
from hopwalk.paper.tables import appendix_dev_complete, appendix_seeds, table_1, table_2, table_3, table_4, table_5
from hopwalk.reasoning.html import whole_page
from hopwalk.utils.charts import STYLE
from hopwalk.utils.files import write_text
from hopwalk.utils.text import duration

SECTIONS: dict[str, Callable[[ResultView], Section]] = {
    "table1": table_1,
    "table2": table_2,
    "table3": table_3,
    "table4": table_4,
    "table5": table_5,
    "figure-false-negatives": figure_false_negatives,
    "figure-convergence": figure_convergence,
    "appendix-seeds": appendix_seeds,
    "appendix-dev-complete": appendix_dev_complete,
    "appendix-dropout": appendix_dropout,
}
TITLE = "The paper, reproduced"
INTRODUCTION = (
    "Tables and figures of *Multi-Hop Knowledge Graph Reasoning with Reward Shaping* (Lin, Socher and Xiong, EMNLP 2018), "
    "reproduced with hopwalk. Each of our numbers comes from a run in the ledger; the last section lists the runs. The paper's "
    "numbers are in brackets."
)
QUICK_NOTE = (
    "**This is a quick run** with few epochs and small models, to test that everything works. Its numbers say nothing "
    "about the method."
)
TABLE_STYLE = """
body { max-width: 78rem; }
nav ul { padding-left: 1.2rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
a { color: var(--predicted); }
.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { display: inline-block; margin: .5rem; }
figcaption { max-width: 460px; font-size: .9em; }
code { font-size: .9em; }
"""


def sections_of(targets: Sequence[Target], view: ResultView) -> list[Section]:
    """The sections of a report: one per target, then unfinished runs, missing runs, and all runs."""
    made = [SECTIONS[target.name](view) for target in targets]
    return [*made, curves(view, planned(targets, view.scope)), _missing(targets, view), _runs(view)]


def write_report(folder: Path, targets: Sequence[Target], view: ResultView) -> list[Path]:
    """Write `report.md` with its `figures/`, and `report.html`. Returns the two files."""
    sections = sections_of(targets, view)
    is_quick = bool(view.scope.changes)
    write_text(folder / "report.md", markdown(sections, is_quick=is_quick))
    write_figures(folder / "figures", sections)
    write_text(folder / "report.html", html(sections, is_quick=is_quick))
    return [folder / "report.md", folder / "report.html"]


def write_figures(folder: Path, sections: Sequence[Section]) -> None:
    """Write each chart to a file."""
    for name, svg in figures_of(sections).items():
        write_text(folder / f"{name}.svg", svg)


def figures_of(sections: Sequence[Section]) -> dict[str, str]:
    """The charts by name."""
    return {part.name: part.standalone for section in sections for part in section.parts if isinstance(part, Figure)}


def markdown(sections: Sequence[Section], *, is_quick: bool = False) -> str:
    """The report as Markdown; charts are linked as files in `figures/`."""
    blocks = [f"# {TITLE}", INTRODUCTION, *([QUICK_NOTE] if is_quick else [])]
    for section in sections:
        blocks += [f"## {section.title}", section.text]
        for part in section.parts:
            blocks += _markdown_table(part) if isinstance(part, Table) else [f"![{part.caption}](figures/{part.name}.svg)"]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _markdown_table(table: Table) -> list[str]:
    rule = "|" + "|".join("---" if place < table.num_text else "---:" for place in range(len(table.columns))) + "|"
    lines = [_markdown_row(table.columns), rule, *(_markdown_row(row) for row in table.rows)]
    title = f"### {table.title}" if table.title else ""
    return [title, "\n".join(lines), "; ".join(table.notes) + "." if table.notes else ""]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def html(sections: Sequence[Section], *, is_quick: bool = False) -> str:
    """The report as one HTML file: no scripts, no links to other hosts, and a policy that allows its own style only."""
    body = [f"<h1>{TITLE}</h1>", f"<p>{_inline(INTRODUCTION)}</p>", *([f"<p>{_inline(QUICK_NOTE)}</p>"] if is_quick else [])]
    links = "".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    body.append(f"<nav aria-label='Contents'><ul>{links}</ul></nav>")
    for section in sections:
        body.append(f'<section id="{section.name}"><h2>{escape(section.title)}</h2><p>{_inline(section.text)}</p>')
        body += [_html_table(part) if isinstance(part, Table) else _html_figure(part) for part in section.parts]
        body.append("</section>")
    return whole_page(TITLE, body, "", more_style=TABLE_STYLE + STYLE)


def _html_table(table: Table) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{'' if place < table.num_text else ' class=n'}>{_inline(cell)}</{tag}>" for place, cell in enumerate(row)
        )

    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    notes = f"<p>{escape('; '.join(table.notes))}.</p>" if table.notes else ""
    return f"<table>{caption}<thead><tr>{cells('th', table.columns)}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def _html_figure(figure: Figure) -> str:
    return f"<figure>{figure.inline}<figcaption>{escape(figure.caption)}</figcaption></figure>"


def _inline(text: str) -> str:
    """The Markdown that our texts use, as HTML."""
    text = escape(text)
    for mark, tag in ((r"\*\*", "strong"), (r"\*", "em"), ("`", "code")):
        text = re.sub(rf"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text)
    return text


def _missing(targets: Sequence[Target], view: ResultView) -> Section:
    """Planned runs that the ledger does not have."""
    rows = []
    for spec in planned(targets, view.scope):
        state, found = view.ledger.state(spec)
        if state != DONE:
            text = f"{state} after epoch {found.epochs}" if found else state
            rows.append((spec.name, text, f"`{spec.command}`"))
    text = "`hopwalk reproduce` trains these." if rows else "Nothing is missing."
    table = (Table("", ("run", "state", "command"), tuple(rows), num_text=3),) if rows else ()
    return Section("missing", "Missing runs", text, table)


def _runs(view: ResultView) -> Section:
    """All runs of the ledger."""
    rows = []
    for result in sorted(view.ledger.results, key=lambda result: (result.kind, result.name)):
        if result.data in view.scope.data_sets:
            content = result.content
            memory, source = content.get("peak_memory_bytes"), content.get("source", {})
            rows.append(
                (
                    result.name,
                    result.kind,
                    "finished" if result.is_finished else "unfinished",
                    f"{result.epochs}" if result.epochs else "",
                    duration(result.seconds) if result.seconds else "",
                    f"{content['threads']}" if content.get("threads") else "",
                    f"{memory / 2**20:,.0f} MB" if memory else "",
                    str(source.get("commit", ""))[:7],
                    str(content.get("note", "")),
                )
            )
    columns = ("run", "kind", "state", "epochs", "training", "threads", "memory", "commit", "note")
    text = "Each run has a file in the ledger with its command, settings, seed, commit, machine, history and metrics."
    return Section("runs", "Runs", text, (Table("", columns, tuple(rows), num_text=3),))
