"""The card of a scorer's run, a short description for people, and the figure of its reliability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hopwalk.learning.probability import PROBABILITY, RELIABILITY
from hopwalk.learning.run import Run
from hopwalk.scorers.models import has_rules, is_ntp, is_propagation

MOST_NAMED = 3  # relations in the card
ENDING = """
All settings are in `settings.toml`, the course of training in `history.jsonl`. The scorer knows only its data: what is missing or
wrong there is missing or wrong in its scores.
"""


def write_card(run: Run, about: dict[str, Any]) -> None:
    """Write `card.md`, and `reliability.svg` if there are reliability bins; `about` is the new content of `run.json`."""
    data = run.dataset
    title, rows = _ensemble_rows(about) if "members" in about else _scorer_rows(run, about)
    rows |= probability_rows(about)
    text = (
        f"# {title} on {data.name}\n\n"
        f"A scorer f(head, relation, ·) made by hopwalk {about['hopwalk']}. Data: {len(data.facts):,} facts in both directions, "
        f"{len(data.entities):,} entities, {len(data.relations):,} relations; fingerprint `{data.fingerprint[:16]}`.\n\n"
        "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    )
    reliability = about.get(RELIABILITY) or about.get("reliability")
    if reliability:
        run.write_text("reliability.svg", reliability_svg(reliability["bins"]))
        text += "\n![Share of true candidates by predicted probability](reliability.svg)\n"
    run.write_text("card.md", text + ENDING)


def _ensemble_rows(about: dict[str, Any]) -> tuple[str, dict[str, str]]:
    weights = about.get("weights") or [1 / len(about["members"])] * len(about["members"])
    members = (f"{name} (weight {weight:.2g})" for name, weight in zip(about["members"], weights, strict=True))
    return "An ensemble", {
        "members": ", ".join(members),
        "answers are ranked by": "the weighted mean of the members' log-odds; weights of two members are chosen on dev",
    }


def _scorer_rows(run: Run, about: dict[str, Any]) -> tuple[str, dict[str, str]]:
    settings = run.settings.scorer
    mrr = about.get("valid_mrr")
    dev = {"dev MRR (tails, filtered without test facts)": "no dev queries" if mrr is None else f"{100 * mrr:.2f}"}
    if "adopted_from" in about:
        return settings.model, {"trained by": about["adopted_from"], "dimension": f"{settings.dimension}"} | dev
    if is_propagation(run.settings):
        return "Propagation", _propagation_rows(run, about) | dev
    if has_rules(run.settings):
        return settings.model, _rule_rows(run, about) | dev
    if is_ntp(run.settings):
        return "NTP-λ", _ntp_rows(run, about) | dev
    package = {"from the package": about["package"]} if "package" in about else {}
    return settings.model, package | {
        "recipe": f"{settings.recipe}: {settings.loss} loss, {settings.optimizer} {settings.learning_rate:g}",
        "dimension": f"{settings.dimension}",
        "seed": f"{settings.seed}",
        "training": f"{about['status']} after {about.get('epochs', 0)} epochs, {about.get('seconds', 0):.0f} s; "
        f"best epoch {about.get('best_epoch', 0)}",
    } | dev


def _hidden(hiding: str) -> str:
    return {
        "fact": "its fact",
        "between": "all edges between head and answer",
        "query": "all facts of the query",
        "head": "facts of its fact's head, in its relation or in all relations asked",
    }[hiding]


def _rule_rows(run: Run, about: dict[str, Any]) -> dict[str, str]:
    own = run.settings.rules
    return {
        "a score is made of": "the walks from the head, each weighed by attention to its relations",
        "rules": f"of at most {own.hops} relations; LSTM of {own.hidden_dimension}, embeddings of {own.dimension}",
        "hidden from a training query": _hidden(own.hiding),
        "seed": f"{own.seed}",
        "training": f"{about['status']}: {own.queries:,} queries in both directions, {about.get('seconds', 0):.0f} s; "
        f"best of {own.evaluations} evaluations on dev: number {about.get('best_epoch', 0)}",
    }


def _ntp_rows(run: Run, about: dict[str, Any]) -> dict[str, str]:
    own = run.settings.ntp
    ranks_by = {"prover": "the best proof", "mean": "the mean of the best proof and ComplEx"}
    return {
        "a score is": ranks_by.get(own.ranks_by, "the larger one of the best proof and ComplEx"),
        "rules": f"{own.copies} of each template: {own.templates}",
        "dimension": f"{own.dimension}",
        "seed": f"{own.seed}",
        "training": f"{about['status']} after {about.get('epochs', 0)} epochs, {about.get('seconds', 0):.0f} s; "
        f"best epoch {about.get('best_epoch', 0)}",
    }


def _propagation_rows(run: Run, about: dict[str, Any]) -> dict[str, str]:
    own = run.settings.propagation
    senders = f"the {own.senders} nodes of highest priority send" if own.senders else "all nodes send"
    return {
        "a score is made of": "the walks from the head, and nothing else"
        + (", and how often an entity is a tail of the relation" if own.counts else ""),
        "layers": f"{own.layers}, width {own.width}, {own.aggregation} of messages; {senders}",
        "hidden from a training query": _hidden(own.hiding),
        "seed": f"{own.seed}",
        "training": f"{about['status']}: {own.queries:,} queries in both directions, {about.get('seconds', 0):.0f} s; "
        f"best of {own.evaluations} evaluations on dev: number {about.get('best_epoch', 0)}",
    }


def probability_rows(about: dict[str, Any]) -> dict[str, str]:
    """How probable facts are, and how far that is off, in words."""
    probability, reliability = about.get(PROBABILITY), about.get(RELIABILITY)
    if not probability or not reliability:
        return {"probability": "not calibrated: dev has too few facts, so it is at most a half"}
    worst = "; ".join(
        f"{name}: {mean:.2f} predicted, {share:.2f} true" for name, mean, share, *_ in reliability["relations"][:MOST_NAMED]
    )
    return {
        "probability": "one for each fact, from the scores of both directions, calibrated on dev by relation",
        "calibration error on dev (two-fold)": f"{reliability['error']:.4f} over the ten best candidates of each query, "
        f"{reliability['likely_error']:.4f} over those with a probability of at least 0.2"
        + (f", where chance alone gives {reliability['chance']:.4f}" if "chance" in reliability else ""),
        **({"least reliable relations, of those with 50 dev facts": worst} if worst else {}),
        "answers are called unlikely below": f"{probability['threshold']:.2f}",
    }


def reliability_svg(bins: Sequence[Sequence[float]]) -> str:
    """The reliability diagram as SVG of bins (mean probability, share that is true, number); ideally on the diagonal."""
    size, margin = 320, 44
    inner = size - margin - 16

    def place(probability: float, share: float) -> tuple[float, float]:
        return margin + inner * probability, 16 + inner * (1 - share)

    most = max((count for _, _, count in bins), default=1)
    dots = []
    for mean, share, count in bins:
        x, y = place(mean, share)
        radius = 3 + 6 * (count / most) ** 0.5
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#2f6fb2" fill-opacity="0.75">'
            f"<title>predicted {mean:.2f}, true {share:.2f}, {count:,.0f} candidates</title></circle>"
        )
    ticks = []
    for tick in (0.0, 0.5, 1.0):
        (x, bottom), (left, y) = place(tick, 0), place(0, tick)
        ticks.append(f'<text x="{x:.0f}" y="{bottom + 16:.0f}" text-anchor="middle">{tick:g}</text>')
        ticks.append(f'<text x="{left - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{tick:g}</text>')
    (left, bottom), (right, top) = place(0, 0), place(1, 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{size}" height="{size}" fill="#fff"/>'
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{inner}" height="{inner}" fill="none" stroke="#999"/>'
        f'<line x1="{left:.0f}" y1="{bottom:.0f}" x2="{right:.0f}" y2="{top:.0f}" stroke="#999" stroke-dasharray="4 4"/>'
        + "".join(dots + ticks)
        + f'<text x="{(left + right) / 2:.0f}" y="{size - 6}" text-anchor="middle">predicted probability</text>'
        f'<text x="12" y="{(top + bottom) / 2:.0f}" text-anchor="middle" transform="rotate(-90 12 {(top + bottom) / 2:.0f})">'
        "share that is true</text></svg>\n"
    )
