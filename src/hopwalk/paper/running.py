"""Reproduction: missing runs are trained or resumed, evaluated, and added to the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.loading import load_dataset
from hopwalk.data.statistics import statistics
from hopwalk.errors import RunError, SettingsError, UnknownNameError, did_you_mean
from hopwalk.learning.callbacks import Callback, TrainingPlan
from hopwalk.learning.run import Run
from hopwalk.paper import recording
from hopwalk.paper.elsewhere import RunProgress, make_all_at
from hopwalk.paper.ledger import GROUPS, Ledger
from hopwalk.paper.parts import ResultView
from hopwalk.paper.plan import QUICK, Scope, planned, targets_of
from hopwalk.paper.published import TITLES
from hopwalk.paper.report import write_report
from hopwalk.paper.run_spec import RunSpec
from hopwalk.paper.tables import ablation_results
from hopwalk.scorers import runs as scorer_runs
from hopwalk.utils.places import Place
from hopwalk.utils.text import fold_name
from hopwalk.walker import runs as walker_runs


class Progress(Protocol):
    """Callbacks of a reproduction."""

    def on_run(self, number: int, total: int, spec: RunSpec) -> None:
        """The next run begins; `number` counts from 1."""

    def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """The callbacks of the training of a scorer or walker."""


class NullProgress:
    """Progress that reports nothing."""

    def on_run(self, number: int, total: int, spec: RunSpec) -> None:
        """Nothing."""

    def make_callbacks(self, plan: TrainingPlan) -> Sequence[Callback]:
        """None."""
        return ()


@dataclass(frozen=True)
class Reproduced:
    """The result of a reproduction: the number of runs planned, made now, and still missing; and the files of the report."""

    num_planned: int
    num_made: int
    num_missing: int
    was_interrupted: bool
    report: list[Path] = field(default_factory=list)


def reproduce(
    names: Sequence[str],
    *,
    out: Path,
    data_sets: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    train: bool = True,
    runs: Path | None = None,
    ledger: Path | None = None,
    changes: Sequence[str] = (),
    most_epochs: int = 0,
    only: Sequence[str] = (),
    mirror: Path | None = None,
    progress: Progress | None = None,
    place: Place | None = None,
) -> Reproduced:
    """Reproduce tables and figures: train missing runs, resume interrupted ones, write the report to `out`.

    Runs are written to `out/runs` and results to `out/ledger`, unless other folders are given. `changes` are settings of all
    runs, for quick trials. `only` limits the runs to these names, or patterns such as `umls-*`. At a `place` that is not this
    process, several runs are trained at once.
    """
    for folder in (out, runs, ledger):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise RunError(
                "this is a file, not a folder", path=folder, remedy="Choose a folder; it is created if it does not exist."
            )
    scope = scope_of(data_sets, seeds, quick=quick, changes=changes, most_epochs=most_epochs)
    targets = targets_of(names)
    view = ResultView(Ledger(ledger or out / "ledger"), scope)
    maker = Maker(view.ledger, runs or out / "runs", mirror, progress or NullProgress())
    needed = only_named(planned(targets, scope), only)
    missing = [spec for spec in needed if not view.ledger.has(spec)]
    made, was_interrupted = 0, False
    if train:
        if any(target.name in ("table1", "appendix-dropout") for target in targets):
            maker.add_statistics(scope.data_sets)
        if place is None or place.is_here:
            made, was_interrupted = maker.make_all(missing)
        else:
            made, was_interrupted = make_all_at(place, maker, missing)
    else:
        for spec in missing:
            maker.note_unfinished(spec)
    if any(target.name == "appendix-dev-complete" for target in targets) and not was_interrupted:
        maker.fill_gaps(view)
    left = sum(not view.ledger.has(spec) for spec in missing)
    report = write_report(out, targets, view)
    return Reproduced(len(needed), made, left, was_interrupted, report)


def only_named(runs: Sequence[RunSpec], patterns: Sequence[str]) -> list[RunSpec]:
    """The runs whose names match one of the patterns; all runs without patterns."""
    for pattern in patterns:
        if not any(fnmatchcase(run.name, pattern) for run in runs):
            remedy = did_you_mean(pattern, [run.name for run in runs]) or "See the plan for their names."
            raise UnknownNameError(f"no run {pattern!r} is planned", remedy=remedy)
    return [run for run in runs if not patterns or any(fnmatchcase(run.name, pattern) for pattern in patterns)]


def scope_of(
    data_sets: Sequence[str],
    seeds: Sequence[int] | None,
    *,
    quick: bool = False,
    changes: Sequence[str] = (),
    most_epochs: int = 0,
) -> Scope:
    """The scope of a reproduction, from names of data sets and options."""
    known, chosen = {fold_name(name): name for name in TITLES}, []
    for name in data_sets:
        if fold_name(name) not in known:
            raise SettingsError(f"the paper has no data set {name!r}", remedy=f"It has {', '.join(TITLES)}.")
        chosen.append(known[fold_name(name)])
    if quick and any(name != "umls" for name in chosen):
        raise SettingsError("a quick reproduction has only umls", remedy="Leave out the other data sets, or make a full one.")
    included = ("umls",) if quick else tuple(name for name in TITLES if name in chosen) or tuple(TITLES)
    return Scope(included, None if seeds is None else tuple(seeds), (*(QUICK if quick else ()), *changes), most_epochs)


class Maker:
    """Maker of runs: trains into a folder, and adds results to a ledger."""

    def __init__(self, ledger: Ledger, runs: Path, mirror: Path | None, progress: Progress) -> None:
        self.ledger, self.runs, self._mirror = ledger, runs, mirror
        self.progress: RunProgress = progress
        self._loaded: tuple[str, Dataset] | None = None

    def make_all(self, missing: Sequence[RunSpec]) -> tuple[int, bool]:
        """Make the runs one after the other. Returns the number made, and whether Ctrl-C ended it."""
        made = 0
        for number, spec in enumerate(missing, start=1):
            if self.ledger.has(spec):  # made as another run
                continue
            self.progress.on_run(number, len(missing), spec)
            try:
                is_made = self._make(spec)
            except KeyboardInterrupt:  # during evaluation: the run is kept, and evaluated the next time
                is_made = False
            if not is_made:
                return made, True
            made += 1
        return made, False

    def _make(self, spec: RunSpec) -> bool:
        """Train, evaluate and record a run; False if training was interrupted."""
        spec = self.named(spec)
        folder = self.runs / spec.folder
        scorer = None
        if spec.needs_scorer:
            scorer = self._scorer_of(spec, folder)
            if scorer is None:
                return False
        recording.record_beginning(folder)
        if not self._train(spec, folder, scorer):
            self.note_unfinished(spec)
            return False
        trained_on_dev = getattr(spec.settings, spec.kind).train_on_valid
        numbers = recording.measure(spec.kind, folder, trained_on_dev=trained_on_dev)
        self.ledger.add(spec.kind, recording.describe(folder, spec.name, spec.command) | numbers)
        return True

    def named(self, spec: RunSpec, taken: Iterable[str] = ()) -> RunSpec:
        """The spec under a free name: results and runs of that name with other settings stay as they are."""
        used = list(taken)
        while True:
            free = self.ledger.free_name(spec, used)
            if not self._is_another(free):
                return free
            used.append(free.name)

    def _is_another(self, spec: RunSpec) -> bool:
        folder = self.runs / spec.folder
        if not (folder / "run.json").exists():
            return False
        groups = scorer_runs.setting_groups(spec.settings) if spec.kind == "scorer" else GROUPS[spec.kind]
        try:
            Run.open(folder).require_same_settings(spec.settings, groups)
        except SettingsError:
            return True
        return False

    def _train(self, spec: RunSpec, folder: Path, scorer: Path | None) -> bool:
        dataset, settings = self.dataset(spec.data), self.settings_of(spec, folder, scorer)
        if spec.kind == "scorer":
            callbacks = self.progress.make_callbacks(scorer_runs.training_plan(settings))
            run, _ = scorer_runs.train_into(folder, dataset, settings, resume=True, callbacks=callbacks)
        else:
            make_callbacks = self.progress.make_callbacks
            run = walker_runs.train_into(folder, dataset, settings, scorer_run=scorer, resume=True, make_callbacks=make_callbacks)
        return run.is_finished

    def settings_of(self, spec: RunSpec, folder: Path, scorer: Path | None) -> Settings:
        """The settings to train with; those of a walker's scorer are those of the scorer given, or of the run that is resumed."""
        settings = spec.settings
        if spec.kind == "walker" and scorer is not None:
            settings = _with_scorer_of(settings, scorer)
        if spec.kind == "walker" and (folder / "run.json").exists():
            settings = _with_scorer_of(settings, folder)
        return settings

    def found_scorer(self, spec: RunSpec, folder: Path) -> Path | None:
        """The run of a walker's scorer, if there is one. A walker that is resumed keeps the copy that it has."""
        if (folder / "scorer" / "run.json").exists():
            return folder / "scorer"
        needed = spec.scorer
        for result in self.ledger.find(needed):
            path = self.runs / result.name
            if result.is_finished and result.seed == needed.seed and Run.is_finished_in(path):
                return path
        return None

    def _scorer_of(self, spec: RunSpec, folder: Path) -> Path | None:
        """The run of a walker's scorer, trained if there is none; None if that was interrupted."""
        if (found := self.found_scorer(spec, folder)) is not None:
            return found
        needed = spec.scorer
        if not self.ledger.has(needed):
            needed = self.named(needed)
        path = self.runs / needed.folder
        recording.record_beginning(path)
        if not self._train(needed, path, None):
            self.note_unfinished(needed)
            return None
        if not self.ledger.has(needed):
            numbers = recording.measure("scorer", path, trained_on_dev=False)
            self.ledger.add("scorer", recording.describe(path, needed.name, needed.command) | numbers)
        return path

    def note_unfinished(self, spec: RunSpec) -> None:
        """Record the state of a run that has begun but is not finished."""
        folder = self.runs / spec.folder
        if not (folder / "run.json").exists() or self._is_another(spec):
            return
        run = Run.open(folder)
        if not run.is_finished and run.history:
            self.ledger.note_unfinished(recording.describe(folder, spec.name, spec.command))

    def fill_gaps(self, view: ResultView) -> None:
        """Evaluate dev with the complete filter for results of the ablation that lack it, if their run still exists."""
        for result in ablation_results(view):
            folder, name = self.runs / f"walker-{result.name}", "valid_complete_filter"
            if not result.is_finished or result.trained_on_dev or name in result.content or not Run.is_finished_in(folder):
                continue
            about = Run.open(folder).about
            if all(about.get(key) == result.content.get(key) for key in ("epochs", "best_epoch")):  # still the same run
                self.ledger.extend(result, recording.measure("walker", folder, trained_on_dev=False, splits=(name,)))

    def add_statistics(self, data_sets: Sequence[str]) -> None:
        """Add the statistics of data sets that the ledger lacks."""
        for name in data_sets:
            if name not in self.ledger.data:
                self.ledger.add_data(name, statistics(self.dataset(name)).to_dict())

    def dataset(self, name: str) -> Dataset:
        """The data set of that name; the last one is kept."""
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = name, load_dataset(name, mirror=self._mirror)
        return self._loaded[1]


def _with_scorer_of(settings: Settings, folder: Path) -> Settings:
    """The settings with those of the scorer of another run."""
    of_run = Run.open(folder).settings
    return settings.model_copy(update={"scorer": of_run.scorer, "propagation": of_run.propagation, "rules": of_run.rules})
