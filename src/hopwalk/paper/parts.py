"""The parts of a report, and the groups of runs that its tables show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hopwalk.paper.ledger import Ledger, Result
from hopwalk.paper.plan import Scope
from hopwalk.paper.protocol import with_papers_queries
from hopwalk.paper.run_spec import RunSpec, Stopping
from hopwalk.reasoning.evaluating import POLICY

NOT_RUN = "not run"
CUT, UNFINISHED = "†", "‡"  # explained below every table that has them
MEANINGS = {
    CUT: "stopped before the epochs of the recipe, while dev MRR might still have risen, or with such a scorer",
    UNFINISHED: "unfinished: the best dev MRR so far",
}


@dataclass(frozen=True)
class Table:
    """A table of text; all columns but the first `num_text` are right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_text: int = 1

    @property
    def notes(self) -> list[str]:
        """The meanings of the marks in the cells."""
        cells = [cell for row in self.rows for cell in row]
        return [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if any(mark in cell for cell in cells)]


@dataclass(frozen=True)
class Figure:
    """A chart as SVG: with a style of its own, and without one for a page that has it."""

    name: str
    caption: str
    standalone: str
    inline: str


@dataclass(frozen=True)
class Section:
    """A section of the report, such as one table or figure of the paper: its text and its parts."""

    name: str
    title: str
    text: str
    parts: tuple[Table | Figure, ...]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, and when their training was to end."""

    results: tuple[Result, ...]
    stopping: Stopping

    @property
    def with_papers_queries(self) -> Group:
        """The same runs, with their numbers of dev on the paper's queries."""
        return replace(self, results=tuple(with_papers_queries(result) for result in self.results))

    @property
    def finished(self) -> list[Result]:
        """The finished runs; if some were trained to the end of their recipe, those alone."""
        finished = [result for result in self.results if result.is_finished]
        return [result for result in finished if not self._was_cut(result)] or finished

    @property
    def mark(self) -> str:
        """The mark of a group whose runs were cut short, or their scorers; else empty."""
        return CUT if any(map(self._was_cut, self.finished)) else ""

    def _was_cut(self, result: Result) -> bool:
        return result.was_cut(self.stopping) or result.has_cut_scorer

    def values(self, split: str, metric: str = "mrr", by: str = POLICY, stratum: str = "") -> list[float]:
        """A metric of tails in percent, of every finished run that has it."""
        found = []
        for result in self.finished:
            numbers = result.numbers(split, by)
            part = numbers and (numbers["strata"].get(stratum) if stratum else numbers["tails"])
            if part and part.get(metric) is not None:
                found.append(100 * float(part[metric]))
        return found

    def mean(self, split: str, metric: str = "mrr", by: str = POLICY, stratum: str = "") -> float | None:
        """The mean of a metric; None if no run has it."""
        values = self.values(split, metric, by, stratum)
        return float(np.mean(values)) if values else None

    def text(self, split: str, metric: str = "mrr", by: str = POLICY, stratum: str = "") -> str:
        """A metric as the cell of a table: with its spread and mark; the best dev MRR so far; or "not run"."""
        values = self.values(split, metric, by, stratum)
        if values:
            return spread(values) + self.mark
        if self.finished:
            return "–"
        best = [100 * (record.get("valid_mrr") or 0.0) for result in self.results for record in result.history]
        if not best:
            return NOT_RUN
        return f"dev {max(best):.1f}{UNFINISHED}" if metric == "mrr" and not stratum else "–"

    @property
    def seconds(self) -> float | None:
        """The mean seconds of training; None for an ensemble."""
        return float(np.mean([result.seconds for result in self._trained])) if self._trained else None

    @property
    def epochs(self) -> str:
        """The mean number of epochs, as text."""
        return f"{np.mean([result.epochs for result in self._trained]):.0f}" if self._trained else ""

    @property
    def shown(self) -> Sequence[Result]:
        """The runs that numbers come from: the finished ones or, if there are none, all."""
        return self.finished or self.results

    @property
    def _trained(self) -> list[Result]:
        return [result for result in self.shown if result.kind != "ensemble"]


class ResultView:
    """The ledger as the tables read it, within a scope."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self.ledger, self.scope = ledger, scope

    def group(self, spec: RunSpec, *, trained_on_dev: bool = False) -> Group:
        """The runs of a spec, of all seeds: those that were not trained on dev, or those that were."""
        results = self.ledger.find(spec, trained_on_dev=trained_on_dev)
        return Group(tuple(results), replace(spec, most_epochs=0).stopping)


def spread(values: Sequence[float]) -> str:
    """The mean of some values, with their standard deviation if there are several.

    >>> spread([94.0, 95.0]), spread([40.25])
    ('94.5 ± 0.7', '40.2')
    """
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def beside(ours: str, papers: float | None) -> str:
    """Our number, with the paper's in brackets."""
    return ours if papers is None else f"{ours} ({papers:.1f})"
