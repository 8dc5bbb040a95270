"""What a report is made of, and how runs of the ledger become cells of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hopwalk.paper.ledger import Ledger, Result
from hopwalk.paper.plan import Scope
from hopwalk.paper.run_spec import RunSpec
from hopwalk.walker.decoding import POLICY

NOT_RUN = "not run"
CUT, UNFINISHED = "†", "‡"  # explained below every table that has them
MEANINGS = {
    CUT: "stopped before the recipe's epochs were done, while dev MRR could still rise, or rewarded by such a scorer",
    UNFINISHED: "unfinished: the best on dev so far",
}


@dataclass(frozen=True)
class Table:
    """A table of text; numbers stand to the right in all columns but the first `num_text`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_text: int = 1

    @property
    def notes(self) -> list[str]:
        """What the marks in the cells mean."""
        cells = [cell for row in self.rows for cell in row]
        return [f"{mark} {told}" for mark, told in MEANINGS.items() if any(mark in cell for cell in cells)]


@dataclass(frozen=True)
class Figure:
    """A chart as SVG: with a style of its own, and for a page that has one."""

    name: str
    caption: str
    standalone: str
    inline: str


@dataclass(frozen=True)
class Section:
    """One table or figure of the paper, made again: what it says, and what it shows."""

    name: str
    title: str
    text: str
    parts: tuple[Table | Figure, ...]


@dataclass(frozen=True)
class Group:
    """The runs that differ in their seed only, and how many epochs they were to have."""

    results: tuple[Result, ...]
    planned_epochs: int

    @property
    def finished(self) -> list[Result]:
        """Those with final numbers."""
        return [result for result in self.results if result.is_finished]

    @property
    def mark(self) -> str:
        """Whether any was cut short, or its scorer was."""
        return CUT if any(result.was_cut(self.planned_epochs) or result.has_cut_scorer for result in self.finished) else ""

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
        """A metric as it stands in a table: with its spread and mark; what there is so far; or that there is nothing."""
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
        """Of training, on average; None where nothing was trained, as for an ensemble."""
        return float(np.mean([result.seconds for result in self._trained])) if self._trained else None

    @property
    def epochs(self) -> str:
        """How many were done, on average."""
        return f"{np.mean([result.epochs for result in self._trained]):.0f}" if self._trained else ""

    @property
    def shown(self) -> Sequence[Result]:
        """Those that numbers come from: the finished ones or, where there is none, all."""
        return self.finished or self.results

    @property
    def _trained(self) -> list[Result]:
        return [result for result in self.shown if result.kind != "ensemble"]


class ResultView:
    """The ledger as the tables ask for it: within a scope."""

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        self.ledger, self.scope = ledger, scope

    def group(self, spec: RunSpec, *, for_test: bool = False) -> Group:
        """The runs as wanted, of all seeds; for test those that have learnt dev too, where there are such."""
        results = self.ledger.find(spec)
        learnt = self.ledger.find(spec, having_learnt_dev=True) if for_test else []
        as_the_recipe_has_it = replace(spec, most_epochs=0).settings
        return Group(tuple(learnt or results), getattr(as_the_recipe_has_it, spec.kind).epochs)


def spread(values: Sequence[float]) -> str:
    """The mean, and the standard deviation where there are several.

    >>> spread([94.0, 95.0]), spread([40.25])
    ('94.5 ± 0.7', '40.2')
    """
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def beside(ours: str, papers: float | None) -> str:
    """Ours with the paper's in brackets."""
    return ours if papers is None else f"{ours} ({papers:.1f})"
