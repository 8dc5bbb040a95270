"""Making what is missing: runs are trained or gone on with, ranked, and noted in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from hopwalk import api
from hopwalk.config.settings import fold_name
from hopwalk.data.dataset import Dataset
from hopwalk.data.statistics import statistics
from hopwalk.errors import RunError, SettingsError, UnknownNameError, did_you_mean
from hopwalk.learning.run import Run
from hopwalk.learning.training import Watcher
from hopwalk.paper import recording
from hopwalk.paper.ledger import GROUPS, Ledger
from hopwalk.paper.parts import Book
from hopwalk.paper.plan import QUICK, Scope, planned, targets_of
from hopwalk.paper.published import TITLES
from hopwalk.paper.report import write_report
from hopwalk.paper.run_spec import Wanted
from hopwalk.paper.tables import ablation_results
from hopwalk.scorers.runs import require_same_settings


class Onlooker(Protocol):
    """Someone who wants to know how the work goes."""

    def on_run(self, number: int, total: int, wanted: Wanted) -> None:
        """The next run begins; counted from 1."""

    def make_watchers(self, kind: str, epochs: int) -> Sequence[Watcher]:
        """Who watches the training of a scorer or walker."""


class Nobody:
    """An onlooker who does not look."""

    def on_run(self, number: int, total: int, wanted: Wanted) -> None:
        """Nothing."""

    def make_watchers(self, kind: str, epochs: int) -> Sequence[Watcher]:
        """Nobody."""
        return ()


@dataclass(frozen=True)
class Reproduced:
    """What was done: how many of the planned runs were there, were made, are missing; and where the report is."""

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
    onlooker: Onlooker | None = None,
) -> Reproduced:
    """Make tables and figures again: train what is missing, go on with what was interrupted, write the report to `out`.

    Runs go to `out/runs` and results to `out/ledger`, unless other folders are named. `changes` are made in all runs, for trials.
    `only` are names of planned runs, or patterns of them as `umls-*`, if not all shall be made.
    """
    for folder in (out, runs, ledger):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise RunError("this is a file, not a folder", path=folder, remedy="Name a folder; it is made.")
    scope = scope_of(data_sets, seeds, quick=quick, changes=changes, most_epochs=most_epochs)
    targets = targets_of(names)
    book = Book(Ledger(ledger or out / "ledger"), scope)
    maker = _Maker(book.ledger, runs or out / "runs", mirror, onlooker or Nobody())
    needed = only_named(planned(targets, scope), only)
    missing = [wanted for wanted in needed if not book.ledger.has(wanted)]
    made, was_interrupted = 0, False
    if train:
        if any(target.name in ("table1", "appendix-dropout") for target in targets):
            maker.count_data(scope.data_sets)
        made, was_interrupted = maker.make_all(missing)
    else:
        for wanted in missing:
            maker.note_unfinished(wanted)
    if any(target.name == "appendix-dev-complete" for target in targets) and not was_interrupted:
        maker.fill_gaps(book)
    left = sum(not book.ledger.has(wanted) for wanted in missing)
    report = write_report(out, targets, book)
    return Reproduced(len(needed), made, left, was_interrupted, report)


def only_named(runs: Sequence[Wanted], patterns: Sequence[str]) -> list[Wanted]:
    """Those of the runs whose name is one of the patterns; all if there are none."""
    for pattern in patterns:
        if not any(fnmatchcase(run.name, pattern) for run in runs):
            remedy = did_you_mean(pattern, [run.name for run in runs]) or "`--plan` lists them."
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
    """The data sets and seeds that are meant."""
    known, wanted = {fold_name(name): name for name in TITLES}, []
    for name in data_sets:
        if fold_name(name) not in known:
            raise SettingsError(f"the paper has no data set {name!r}", remedy=f"It has {', '.join(TITLES)}.")
        wanted.append(known[fold_name(name)])
    if quick and any(name != "umls" for name in wanted):
        raise SettingsError("--quick is for umls only", remedy="Leave --data or --quick out.")
    chosen = ("umls",) if quick else tuple(name for name in TITLES if name in wanted) or tuple(TITLES)
    return Scope(chosen, None if seeds is None else tuple(seeds), (*(QUICK if quick else ()), *changes), most_epochs)


class _Maker:
    """Makes runs into a folder and notes them in a ledger."""

    def __init__(self, ledger: Ledger, runs: Path, mirror: Path | None, onlooker: Onlooker) -> None:
        self._ledger, self._runs, self._mirror, self._onlooker = ledger, runs, mirror, onlooker
        self._loaded: tuple[str, Dataset] | None = None

    def make_all(self, missing: Sequence[Wanted]) -> tuple[int, bool]:
        """Make the runs one after the other; how many were made, and whether Ctrl-C ended it."""
        made = 0
        for number, wanted in enumerate(missing, start=1):
            if self._ledger.has(wanted):  # as a run of another name
                continue
            self._onlooker.on_run(number, len(missing), wanted)
            try:
                is_made = self._make(wanted)
            except KeyboardInterrupt:  # while ranking; the run is there, and is ranked the next time
                is_made = False
            if not is_made:
                return made, True
            made += 1
        return made, False

    def _make(self, wanted: Wanted) -> bool:
        """Train, rank and note a run; False if training was interrupted."""
        wanted = self._named(wanted)
        folder = self._runs / wanted.folder
        scorer = None
        if wanted.needs_scorer:
            scorer = self._scorer_of(wanted, folder)
            if scorer is None:
                return False
        recording.note_beginning(folder)
        if not self._train(wanted, folder, scorer):
            self.note_unfinished(wanted)
            return False
        has_learnt_dev = getattr(wanted.settings, wanted.kind).learn_valid
        numbers = recording.measure(wanted.kind, folder, has_learnt_dev=has_learnt_dev)
        self._ledger.add(wanted.kind, recording.describe(folder, wanted.name, wanted.command) | numbers)
        return True

    def _named(self, wanted: Wanted) -> Wanted:
        """The run under a name of its own: results and runs of that name with other settings stay as they are."""
        used: list[str] = []
        while True:
            free = self._ledger.free_name(wanted, used)
            if not self._is_another(free):
                return free
            used.append(free.name)

    def _is_another(self, wanted: Wanted) -> bool:
        folder = self._runs / wanted.folder
        if not (folder / "run.json").exists():
            return False
        try:
            require_same_settings(Run.open(folder), wanted.settings, GROUPS[wanted.kind])
        except SettingsError:
            return True
        return False

    def _train(self, wanted: Wanted, folder: Path, scorer: Path | None) -> bool:
        dataset, settings = self._dataset(wanted.data), wanted.settings
        if wanted.kind == "scorer":
            watchers = self._onlooker.make_watchers("scorer", settings.scorer.epochs)
            watcher = watchers[0] if watchers else None
            run = api.train_scorer(dataset, settings, out=folder, resume=True, watcher=watcher)
        else:
            if scorer is not None:  # the copy in the folder says which it is; settings must not say another
                settings = settings.model_copy(update={"scorer": Run.open(scorer).settings.scorer})
            if (folder / "run.json").exists():
                settings = settings.model_copy(update={"scorer": Run.open(folder).settings.scorer})
            watch = self._onlooker.make_watchers
            run = api.train(dataset, settings, out=folder, scorer=scorer, resume=True, make_watchers=watch)
        return bool(run.about.get("status") == "finished")

    def _scorer_of(self, wanted: Wanted, folder: Path) -> Path | None:
        """The run of the scorer that rewards a walker, trained if it is not there; None if that was interrupted.

        A walker that has begun goes on with the copy that it has.
        """
        if (folder / "scorer" / "run.json").exists():
            return folder / "scorer"
        needed = wanted.scorer
        for result in self._ledger.find(needed):
            path = self._runs / result.name
            if result.is_finished and result.seed == needed.seed and _is_finished(path):
                return path
        if not self._ledger.has(needed):
            needed = self._named(needed)
        path = self._runs / needed.folder
        recording.note_beginning(path)
        if not self._train(needed, path, None):
            self.note_unfinished(needed)
            return None
        if not self._ledger.has(needed):
            numbers = recording.measure("scorer", path, has_learnt_dev=False)
            self._ledger.add("scorer", recording.describe(path, needed.name, needed.command) | numbers)
        return path

    def note_unfinished(self, wanted: Wanted) -> None:
        """Note how far a run has come that has begun."""
        folder = self._runs / wanted.folder
        if not (folder / "run.json").exists() or self._is_another(wanted):
            return
        run = Run.open(folder)
        if run.about.get("status") != "finished" and run.history:
            self._ledger.note_unfinished(recording.describe(folder, wanted.name, wanted.command))

    def fill_gaps(self, book: Book) -> None:
        """Rank dev with the complete graph for results of the ablation that lack it, where their run is still there."""
        for result in ablation_results(book):
            folder, name = self._runs / f"walker-{result.name}", "valid_complete_filter"
            if not result.is_finished or result.has_learnt_dev or name in result.content or not _is_finished(folder):
                continue
            about = Run.open(folder).about
            if all(about.get(key) == result.content.get(key) for key in ("epochs", "best_epoch")):  # still the same run
                self._ledger.extend(result, recording.measure("walker", folder, has_learnt_dev=False, splits=(name,)))

    def count_data(self, data_sets: Sequence[str]) -> None:
        """Count what is in the data sets that the ledger has no counts of."""
        for name in data_sets:
            if name not in self._ledger.data:
                self._ledger.add_data(name, statistics(self._dataset(name)).to_dict())

    def _dataset(self, name: str) -> Dataset:
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = name, api.load_dataset(name, mirror=self._mirror)
        return self._loaded[1]


def _is_finished(folder: Path) -> bool:
    return (folder / "run.json").exists() and Run.open(folder).about.get("status") == "finished"
