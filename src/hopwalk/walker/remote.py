"""Training of scorers and walkers in another process, perhaps on another machine: run folders travel there and back as bytes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.learning.callbacks import Callback, MakeCallbacks, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.scorers import runs as scorer_runs
from hopwalk.utils.packing import Packed, pack, unpack
from hopwalk.utils.places import Report
from hopwalk.walker import runs as walker_runs

SECONDS_BETWEEN_REPORTS = 1.0  # on batches
NOT_SENT = frozenset({"tensorboard"})


class EndedEarlyError(Exception):
    """Whoever listens to the reports has seen enough of a training."""


@dataclass(frozen=True)
class Training:
    """A run to be trained elsewhere, under the name of its folder; `begun` are the files of one that is resumed.

    `scorer` are the files of the run that rewards a walker.
    """

    name: str
    kind: Literal["scorer", "walker"]
    data: str
    settings: Settings
    begun: Packed = field(default_factory=dict, repr=False)
    scorer: Packed | None = field(default=None, repr=False)


def packed_run(folder: Path) -> Packed:
    """The files of a run folder, if there are some, and those beside it whose names begin with its name."""
    found = {f"{folder.name}/{name}": content for name, content in pack(folder, without=NOT_SENT).items()}
    beside = folder.with_name(f"{folder.name}.source.json")
    return found | ({beside.name: beside.read_bytes()} if beside.is_file() else {})


def train_at(root: Path, training: Training, dataset: Dataset, report: Report) -> Run:
    """Train into the folder of that name in `root`, and report; the finished or interrupted run."""
    folder, scorer = root / training.name, None
    unpack(training.begun, root)
    if training.scorer is not None:
        scorer = root / "scorer-of-it" / "run"
        unpack(training.scorer, scorer)
    if training.kind == "scorer":
        callbacks = [Reporting(scorer_runs.training_plan(training.settings), report)]
        return scorer_runs.train_into(folder, dataset, training.settings, resume=True, callbacks=callbacks)[0]
    return walker_runs.train_into(
        folder,
        dataset,
        training.settings,
        scorer_run=scorer,
        resume=True,
        make_callbacks=lambda plan: [Reporting(plan, report)],
    )


@dataclass(frozen=True)
class BatchReport:
    """A batch is done."""

    plan: TrainingPlan
    epoch: int
    batch: int
    num_batches: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class EvaluationReport:
    """Dev was evaluated."""

    plan: TrainingPlan
    record: Mapping[str, Any]


class Reporting:
    """A callback that reports to another process, which may end the training."""

    def __init__(self, plan: TrainingPlan, report: Report) -> None:
        self._plan, self._report, self._last = plan, report, 0.0

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Report now and then."""
        if time.monotonic() - self._last < SECONDS_BETWEEN_REPORTS:
            return
        self._last = time.monotonic()
        if self._report(BatchReport(self._plan, epoch, batch, num_batches, dict(values))):
            raise EndedEarlyError

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Report the record."""
        if self._report(EvaluationReport(self._plan, dict(record))):
            raise EndedEarlyError


class Replayed:
    """Shows the reports of trainings elsewhere with the callbacks of this process, under the names of the trainings."""

    def __init__(self, make_callbacks: MakeCallbacks) -> None:
        self._make_callbacks = make_callbacks
        self._callbacks: dict[tuple[str, str], Sequence[Callback]] = {}

    def __call__(self, training: Training, report: Any) -> None:
        """Pass a report on."""
        key = training.name, report.plan.kind
        if key not in self._callbacks:
            plan = replace(report.plan, kind=f"{training.name} {report.plan.kind}", forecast=None)
            self._callbacks[key] = self._make_callbacks(plan)
        for callback in self._callbacks[key]:
            if isinstance(report, EvaluationReport):
                callback.on_evaluation(report.record)
            else:
                callback.on_batch(report.epoch, report.batch, report.num_batches, report.values)
