"""Answers and explanations as HTML: fragments for notebooks, and self-contained pages that load nothing.

Pages have no scripts, and a content-security policy that allows their own style only, by its hash.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape

from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.lettering import clean
from hopwalk.reasoning.rule_groups import NOTHING_HOLDS, RuleGroup, share_text, shown_groups
from hopwalk.reasoning.values import Answer, ReasoningPath

WIDE, NARROW = 640.0, 320.0  # of drawings, in pixels
NBSP = "\N{NO-BREAK SPACE}"
UNITS = re.compile(r"(?<=\d) (?=%|hops?\b|facts?\b|of \d)|(?<=\d of) (?=\d)|(?<=share) (?=\d)|(?<=Rank) (?=\d)")

# Notebooks have colours of their own; pages set the variables.
STYLE = """
.hopwalk { line-height: 1.45; overflow-wrap: anywhere; }
.hopwalk h2 { font-size: 1.15em; margin: 1.2em 0 .4em; }
.hopwalk p { margin: .4em 0; }
.hopwalk svg.hopwalk-paths { display: block; max-width: 100%; height: auto; margin: .6em 0; }
.hopwalk .narrow { display: none; }
.hopwalk ol { list-style: none; margin: .6em 0; padding: 0; }
.hopwalk li { border-top: 1px solid var(--line, rgba(128, 128, 128, .35)); padding: .35em 0; }
.hopwalk summary { cursor: pointer; display: grid; gap: .7em; align-items: center;
  grid-template-columns: 2.8em minmax(6em, 1fr) 8em 4.5em 6em; }
.hopwalk .rank, .hopwalk .chance { text-align: right; font-variant-numeric: tabular-nums; opacity: .8; }
.hopwalk .rank::before { content: "▸ "; font-size: .8em; }
.hopwalk [open] .rank::before { content: "▾ "; }
.hopwalk .name { font-weight: 600; }
.hopwalk .bar { width: 100%; height: .6em; border-radius: .3em; }
.hopwalk .mark { font-size: .85em; text-align: center; border: 1px solid currentColor; border-radius: 1em; padding: 0 .5em; }
.hopwalk .known { color: var(--known, inherit); }
.hopwalk .predicted { color: var(--predicted, inherit); }
.hopwalk .guess { opacity: .75; border-style: dashed; }
.hopwalk .paths { margin: .5em 0 .7em 3.5em; }
.hopwalk .rule { margin: .8em 0 0; }
.hopwalk .confidence { opacity: .8; font-size: .93em; margin: 0; }
.hopwalk .path { margin: .25em 0 0 1.2em; font-size: .93em; }
.hopwalk .share { opacity: .8; margin-right: .6em; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 46em) {
  .hopwalk .wide { display: none; }
  .hopwalk .narrow { display: block; }
}
@media (max-width: 36em) {
  .hopwalk summary { grid-template-columns: 2.8em minmax(5em, 1fr) 4em 5.5em; }
  .hopwalk .bar { display: none; }
  .hopwalk .paths { margin-left: 0; }
}
"""
PAGE_STYLE = """
:root { color-scheme: light dark; --back: #faf9f6; --text: #1d1f21; --line: #dedbd3; --known: #5a5d61; --predicted: #0b6b5d; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171a; --text: #e8e6e1; --line: #343a40; --known: #a9adb1; --predicted: #63cdb8; }
}
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: .6rem; font-size: .85rem; opacity: .8; }
summary:focus-visible { outline: 2px solid var(--predicted); outline-offset: 2px; }
"""


def answers_fragment(query: str, note: str, answers: Sequence[Answer], reasons: Sequence[Sequence[RuleGroup]]) -> str:
    """A query and its answers, each with a bar, a mark, and its rules and paths to unfold; `note` stands below the query."""
    best = [answer.paths[0] for answer in answers if answer.paths]
    parts = [f"<h2>{_text(query)}</h2>", f"<p>{_text(note)}</p>" if note else "", _drawing(best)]
    both = zip(answers, reasons, strict=True)
    parts += ["<ol>", *(f"<li>{_answer(answer, some, is_open=answer is answers[0])}</li>" for answer, some in both), "</ol>"]
    return _fragment(parts)


def with_blanks(fragment: str) -> str:
    """The fragment with blanks for underscores in its text, for people to read; labels in attributes stay as they are."""
    return re.sub(r">[^<]+", lambda text: text[0].replace("_", " "), fragment)


def _reasons(groups: Sequence[RuleGroup]) -> str:
    """Rules, each with how often it is right, and its paths with their shares."""
    shown, note = shown_groups(groups)
    parts = [f'<p class="confidence">{_text(note)}</p>'] if note == NOTHING_HOLDS else []
    for group in shown:
        parts.append(f'<p class="rule">{_text(str(group.rule))}</p><p class="confidence">{_text(str(group.evidence))}</p>')
        parts += [_path(path) for path in group.paths]
    return "".join([*parts, f'<p class="confidence">{_text(note)}</p>' if note and note != NOTHING_HOLDS else ""])


def _path(path: ReasoningPath) -> str:
    return f'<p class="path"><span class="share">{_text(share_text(path.share))}</span>{_text(str(path))}</p>'


def _answer(answer: Answer, groups: Sequence[RuleGroup], *, is_open: bool) -> str:
    chance = answer.probability
    kind, mark = (answer.kind, answer.kind) if answer.paths else ("guess", "known" if answer.is_known else "no path")
    summary = (
        f'<span class="rank">{answer.rank}</span> <span class="name">{_text(answer.entity)}</span> {_bar(chance or 0.0)} '
        f'<span class="chance">{"" if chance is None else f"{100 * chance:.1f}{NBSP}%"}</span> <span class="mark {kind}">{mark}'
        "</span>"
    )
    texts = _reasons(groups) if groups else "".join(map(_path, answer.paths))
    unfolded = (
        _drawing(answer.paths) + texts
        if answer.paths
        else "<p>A fact of the graph, without another path.</p>"
        if answer.is_known
        else "<p>No path leads there.</p>"
    )
    return f'<details{" open" if is_open else ""}><summary>{summary}</summary><div class="paths">{unfolded}</div></details>'


def explanation_fragment(title: str, lines: Iterable[str], reasons: Sequence[RuleGroup]) -> str:
    """An explanation: sentences about the answer, a drawing of its paths, and its rules with their paths."""
    parts = [f"<h2>{_text(title)}</h2>", *(f"<p>{_text(line)}</p>" for line in lines)]
    parts += [_drawing([path for group in reasons for path in group.paths]), _reasons(reasons)]
    return _fragment(parts)


def _drawing(paths: Sequence[ReasoningPath]) -> str:
    """A drawing for wide screens and one for narrow ones, of which the style shows one."""
    if not paths:
        return ""
    kinds = {"wide": WIDE, "narrow": NARROW}
    return "".join(f'<div class="drawing {kind}">{draw_paths(paths, width=width)}</div>' for kind, width in kinds.items())


def for_notebook(fragment: str) -> str:
    """A fragment with its style."""
    return f"<style>{STYLE}</style>{fragment}"


def whole_page(title: str, fragments: Iterable[str], footer: str, *, more_style: str = "") -> str:
    """A self-contained page, in light and dark colours; `more_style` is added to the house's."""
    style = PAGE_STYLE + STYLE + more_style
    allowed = f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'"
    policy = f"default-src 'none'; style-src {allowed}; base-uri 'none'; form-action 'none'"
    content = "\n".join(fragments)
    foot = f"<footer>{_text(footer)}</footer>\n" if footer else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(clean(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<main>{content}</main>\n{foot}</body>\n</html>\n"
    )


def _fragment(parts: Iterable[str]) -> str:
    return f'<div class="hopwalk">{"".join(parts)}</div>'


def _text(text: str) -> str:
    """Text that cannot become markup, isolated from the writing direction around it; numbers stay with their units."""
    return f"<bdi>{UNITS.sub(NBSP, escape(clean(text)))}</bdi>"


def _bar(share: float) -> str:
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    track = '<rect width="100" height="6" fill="currentColor" fill-opacity="0.12"/>'
    return (
        f'<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">{track}'
        f'<rect width="{width}" height="6" fill="currentColor" fill-opacity="0.55"/></svg>'
    )
