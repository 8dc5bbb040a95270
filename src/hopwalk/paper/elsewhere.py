"""Runs of a reproduction on a cluster, several at once: first the scorers, then the walkers that they reward.

A run folder travels there and back; the ledger and the report are written here. A lost node costs the runs that it was training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.paper import recording
from hopwalk.paper.ledger import Ledger
from hopwalk.paper.run_spec import RunSpec
from hopwalk.utils.packing import Packed, pack, replace_folder
from hopwalk.utils.places import Place, Report
from hopwalk.walker.remote import Replayed, Training, packed_run, train_at


class RunProgress(Protocol):
    """Callbacks of a reproduction."""

    def on_run(self, number: int, total: int, spec: RunSpec) -> None:
        """A run begins."""

    def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """The callbacks of a training."""


class Maker(Protocol):
    """What `running` knows of its runs: the ledger, the folder of runs, names, scorers, settings and data sets."""

    ledger: Ledger
    runs: Path
    progress: RunProgress

    def named(self, spec: RunSpec, taken: Iterable[str] = ()) -> RunSpec:
        """The spec under a free name."""

    def found_scorer(self, spec: RunSpec, folder: Path) -> Path | None:
        """The run of a walker's scorer, if there is one."""

    def settings_of(self, spec: RunSpec, folder: Path, scorer: Path | None) -> Settings:
        """The settings to train with."""

    def note_unfinished(self, spec: RunSpec) -> None:
        """Record the state of a run that has begun but is not finished."""

    def dataset(self, name: str) -> Dataset:
        """The data set of that name."""


@dataclass(frozen=True)
class RunOrder:
    """A run to be made elsewhere: its training, and its entry in the ledger."""

    training: Training
    spec: RunSpec


@dataclass(frozen=True)
class MadeRun:
    """The files of a run, and its content for the ledger; None if training was interrupted."""

    files: Packed = field(repr=False)
    content: Mapping[str, Any] | None


@dataclass(frozen=True)
class RunWork:
    """Trains and evaluates runs; made once per process."""

    datasets: Mapping[str, Dataset]

    def __call__(self) -> Callable[[RunOrder, Report], MadeRun]:
        """The function that makes one."""
        return self._make

    def _make(self, order: RunOrder, report: Report) -> MadeRun:
        training, spec = order.training, order.spec
        with tempfile.TemporaryDirectory(prefix="hopwalk-") as root:
            folder = Path(root) / training.name
            if f"{folder.name}.source.json" not in training.begun:
                recording.record_beginning(folder)
            content = None
            if train_at(Path(root), training, self.datasets[training.data], report).is_finished:
                trained_on_dev = getattr(spec.settings, spec.kind).train_on_valid
                numbers = recording.measure(spec.kind, folder, trained_on_dev=trained_on_dev)
                content = recording.describe(folder, spec.name, spec.command) | numbers
            return MadeRun(packed_run(folder), content)


def make_all_at(place: Place, maker: Maker, missing: Sequence[RunSpec]) -> tuple[int, bool]:
    """Make the runs at a place. Returns the number made of those missing, and whether Ctrl-C ended it."""
    made = 0
    try:
        for kind in ("scorer", "walker"):
            wanted = {spec.name for spec in missing}
            for spec in _made(place, maker, _specs(maker, missing, kind), len(missing)):
                made += spec.name in wanted
    except KeyboardInterrupt:
        return made, True
    return made, False


def _specs(maker: Maker, missing: Sequence[RunSpec], kind: str) -> list[RunSpec]:
    """The missing runs of a kind, each once; with the missing scorers, those that missing walkers need."""
    specs = [spec for spec in missing if spec.kind == kind]
    if kind == "scorer":
        walkers = [spec for spec in missing if spec.needs_scorer and not maker.ledger.has(spec)]
        specs += [spec.scorer for spec in walkers if maker.found_scorer(spec, maker.runs / maker.named(spec).folder) is None]
    return list({(spec.data, spec.settings.model_dump_json()): spec for spec in reversed(specs)}.values())[::-1]


def _made(place: Place, maker: Maker, specs: Sequence[RunSpec], total: int) -> Iterator[RunSpec]:
    """The runs that were made and added to the ledger, as they are."""
    taken: list[str] = []
    show = Replayed(maker.progress.make_callbacks)

    def orders() -> Iterator[RunOrder]:
        for number, spec in enumerate(specs, start=1):
            is_known = maker.ledger.has(spec)
            if is_known and Run.is_finished_in(maker.runs / spec.folder):  # made as another run
                continue
            spec = spec if is_known else maker.named(spec, taken)
            taken.append(spec.name)
            maker.progress.on_run(number, max(total, len(specs)), spec)
            yield _order(maker, spec)

    def on_report(order: RunOrder, report: Any) -> bool:
        show(order.training, report)
        return False

    work = RunWork({name: maker.dataset(name) for name in sorted({spec.data for spec in specs})})
    for order, made in place.run(work, orders(), on_report) if specs else ():
        replace_folder(made.files, maker.runs / order.training.name)
        if made.content is None:
            maker.note_unfinished(order.spec)
            continue
        if not maker.ledger.has(order.spec):
            maker.ledger.add(order.spec.kind, dict(made.content))
        yield order.spec


def _order(maker: Maker, spec: RunSpec) -> RunOrder:
    folder = maker.runs / spec.folder
    scorer = maker.found_scorer(spec, folder) if spec.needs_scorer else None
    settings = maker.settings_of(spec, folder, scorer)
    packed = None if scorer is None else pack(scorer)
    return RunOrder(Training(folder.name, spec.kind, spec.data, settings, packed_run(folder), packed), spec)
