"""The paper's figures, from the histories in the ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hopwalk.paper.ledger import Result
from hopwalk.paper.parts import Figure, ResultView, Section
from hopwalk.paper.published import TABLE_3, TITLES
from hopwalk.paper.run_spec import RunSpec
from hopwalk.paper.tables import ABLATIONS, ALL_ELSE_EQUAL, PAPER, rates_table, variants_of
from hopwalk.utils.charts import Series, line_chart

FIRST = 20  # epochs in the figure of false negatives


def _chart(
    name: str, title: str, caption: str, series: Sequence[Series], x_label: str, y_label: str, *, from_zero: bool = False
) -> Figure:
    made = [
        line_chart(title, series, x_label=x_label, y_label=y_label, from_zero=from_zero, standalone=alone)
        for alone in (True, False)
    ]
    return Figure(name, caption, *made)


def figure_false_negatives(view: ResultView) -> Section:
    """The share of walks that hit a false negative, by epoch."""
    figures = []
    for data in view.scope.data_sets:
        series: list[Series] = []
        for family, variant in ((PAPER, "whole"), (PAPER, "−RS"), (ALL_ELSE_EQUAL, "−RS")):
            results = variants_of(view, data, family)[variant].results
            points = [point for point in _points(results, "false_negative_hits", 100) if point[0] <= FIRST]
            if points and points not in [other.points for other in series]:
                series.append(Series(f"{family}: {variant}", points))
        if series:
            title = f"{TITLES[data]}: walks that hit a false negative"
            caption = f"{TITLES[data]}: share of sampled walks that end at an answer of dev or test that is not in train."
            figures.append(_chart(f"false-negatives-{data}", title, caption, series, "epoch", "% of walks", from_zero=True))
    text = (
        "The paper's Figure 2: how often walks in training end at an answer that is true but not in train, and so get a reward "
        "of 0, on UMLS. The paper gives no numbers for it, so only ours are shown."
    )
    if not figures:
        text += " **Not run yet.**"
    return Section("figure-false-negatives", "Figure 2: false negatives hit in the first 20 epochs", text, tuple(figures))


def figure_convergence(view: ResultView) -> Section:
    """Dev MRR and distinct paths of the ablation, by epoch."""
    figures = []
    for data in view.scope.data_sets:
        for family in ABLATIONS:
            groups = variants_of(view, data, family)
            figures += _convergence(data, family, {name: group.with_papers_queries.results for name, group in groups.items()})
    text = (
        "The paper's Figure 4: dev MRR and the number of distinct paths of the walker and its ablations, by epoch. The dotted "
        "line is the final dev MRR of the paper's whole walker (Table 3); the paper gives no numbers for its curves. The dev "
        "queries of NELL-995 are the paper's. Only the first seed is shown."
    )
    if not figures:
        text += " **Not run yet.**"
    return Section("figure-convergence", "Figure 4: convergence and paths", text, tuple(figures))


def _convergence(data: str, family: str, results: Mapping[str, Sequence[Result]]) -> list[Figure]:
    slug = f"{data}-{re.sub('[^a-z]+', '-', family.lower())}"
    figures = []
    for what, key, scale, label in (("mrr", "valid_mrr", 100.0, "dev MRR"), ("paths", "unique_paths", 1.0, "distinct paths")):
        level = TABLE_3[data].whole if what == "mrr" else None
        series = [
            Series(name, points, level if name == "whole" else None)
            for name, found in results.items()
            if (points := _points(found, key, scale))
        ]
        if series:
            title = f"{TITLES[data]}, {family}: {label}"
            unfinished = [name for name, found in results.items() if found and not found[0].is_finished]
            more = f" Unfinished: {', '.join(unfinished)}." if unfinished else ""
            figures.append(_chart(f"{what}-{slug}", title, f"{title} by epoch.{more}", series, "epoch", label))
    return figures


def curves(view: ResultView, planned: Sequence[RunSpec]) -> Section:
    """Dev MRR by epoch of planned runs that are unfinished or were cut short."""
    figures = {}
    for spec in planned:
        group = view.group(spec)
        for result in group.results:
            points = _points([result], "valid_mrr", 100)
            if len(points) > 1 and (not result.is_finished or result.was_cut(group.stopping)):
                state = (
                    "unfinished"
                    if not result.is_finished
                    else f"cut short after {result.epochs} of {group.stopping.epochs} epochs"
                )
                chart = [Series("dev MRR", points)]
                figures[result.name] = _chart(
                    f"curve-{result.name}", result.name, f"{result.name}: {state}.", chart, "epoch", "dev MRR"
                )
    text = "Runs that are unfinished, or were stopped while dev MRR might still have risen."
    return Section("curves", "Unfinished runs", text if figures else "There are none.", tuple(figures.values()))


def appendix_dropout(view: ResultView) -> Section:
    """Rates of action dropout, and a sweep of them."""
    series = []
    for data in view.scope.data_sets:
        found = [(rate, view.group(view.scope.swept(data, rate)).mean("valid")) for rate in view.scope.rates(data)]
        points = [(rate, mrr) for rate, mrr in found if mrr is not None]
        if points:
            series.append(Series(TITLES[data], points))
    text = (
        "The paper's rates, ours, and those of a sweep: the recipe `modern`, ComplEx as the scorer, "
        "one seed, dev MRR by the policy. The paper finds that denser graphs need higher rates, and tried 1 on UMLS and Kinship."
    )
    figures = []
    if series:
        caption = "Dev MRR by the policy, by rate of action dropout."
        figures.append(_chart("dropout-sweep", "Action dropout", caption, series, "rate of action dropout", "dev MRR"))
    return Section("appendix-dropout", "Appendix: rates of action dropout", text, (rates_table(view), *figures))


def _points(results: Sequence[Result], key: str, scale: float) -> list[tuple[float, float]]:
    """A column of the first run's history."""
    history: list[dict[str, Any]] = results[0].history if results else []
    return [(record["epoch"], scale * record[key]) for record in history if record.get(key) is not None]
