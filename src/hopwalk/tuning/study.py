"""Search for settings on dev (the paper's §4.3) with Optuna: trials can be interrupted, resumed and pruned."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hopwalk.config.loading import settings_toml
from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, DivergedError, MissingPackageError, SavedFileError, SettingsError
from hopwalk.learning.callbacks import MakeCallbacks, no_callbacks
from hopwalk.learning.run import Run
from hopwalk.scorers import runs as scorer_runs
from hopwalk.tuning.elsewhere import run_trials_at
from hopwalk.tuning.spaces import WALKER, Choice, Space, load_space, space_json
from hopwalk.utils.charts import bar_chart
from hopwalk.utils.files import write_text
from hopwalk.utils.packing import pack
from hopwalk.utils.places import Place
from hopwalk.utils.text import fold_name
from hopwalk.walker import runs as walker_runs
from hopwalk.walker.remote import Training, packed_run

if TYPE_CHECKING:
    import optuna

Pruner = Literal["median", "hyperband", "none"]
PRUNERS = ("median", "hyperband", "none")
NAME = "hopwalk"  # of the study in its file
BEST, IMPORTANCE = "best.toml", "importance.svg"
ANOTHER_FILE = "Choose another file for the study."
OTHER = {  # what differs, by the name under which the study keeps it
    "data": "other data",
    "what is tuned": "another model",
    "space": "another space",
    "settings": "other settings",
    "rewards": "another scorer",
}


@dataclass(frozen=True)
class Trial:
    """A trial: its dev MRR, its epochs, whether it was pruned, and the values of its settings."""

    number: int
    mrr: float | None
    epochs: int
    was_pruned: bool
    values: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("number", "mrr", "epochs", "was_pruned")
        return {name: getattr(self, name) for name in names} | {"values": dict(self.values)}


@dataclass(frozen=True)
class Tuned:
    """The result of tuning: the trials, best first; the importance of each setting; the best settings, also as a preset."""

    study: Path
    preset: Path | None
    trials: tuple[Trial, ...]
    importance: Mapping[str, float]
    settings: Settings | None
    was_interrupted: bool

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "study": str(self.study),
            "preset": None if self.preset is None else str(self.preset),
            "trials": [trial.to_dict() for trial in self.trials],
            "importance": dict(self.importance),
            "was_interrupted": self.was_interrupted,
        }


OnTrial = Callable[[int, int, Mapping[str, Any]], None]  # number (from 1), number of trials, values


def tune_into(
    study_path: Path,
    dataset: Dataset,
    settings: Settings,
    *,
    what: str,
    space: str | Path,
    trials: int,
    scorer_run: Path | None = None,
    pruner: Pruner = "median",
    fixed: Sequence[str] = (),
    on_trial: OnTrial = lambda *_: None,
    make_callbacks: MakeCallbacks = no_callbacks,
    place: Place | None = None,
) -> Tuned:
    """Search for settings with the best dev MRR until the study has so many trials; test is never used.

    `what` is "walker" or the model of a scorer. A folder beside the file holds the runs of the trials; only the best one is kept.
    At a `place` that is not this process, several trials are trained at once.
    """
    if not len(dataset.valid):
        remedy = "Split the data (`hopwalk data split`), and tune on the folder that it writes."
        raise DataError(f"{dataset.name} has no dev queries to tune on", remedy=remedy)
    if pruner not in PRUNERS:
        raise SettingsError(f"there is no pruner {pruner!r}", remedy=f"Pruners are {', '.join(PRUNERS)}.")
    if settings.scorer.train_on_valid or settings.walker.train_on_valid:
        raise SettingsError("a model trained on the dev set cannot be tuned on it", remedy="Set train_on_valid to false.")
    if not study_path.suffix:
        raise SettingsError("the file of a study needs a suffix", path=study_path, remedy=f"For example: {study_path}.db")
    dimensions = load_space(space, what, settings, fixed)
    seed = settings.walker.seed if what == WALKER else settings.scorer.seed
    study = _study(study_path, pruner, _identity(dataset, settings, what, dimensions, scorer_run))
    search = Search(study, study_path.with_suffix(""), dataset, settings, what, dimensions, make_callbacks)
    was_interrupted = False
    try:
        search.prepare(scorer_run)
        if place is not None and not place.is_here:
            is_done = run_trials_at(place, search, dataset, partial(_seed, seed), trials, on_trial, make_callbacks)
            return search.result(study_path, not is_done)
        while (done := len(search.done)) < trials:
            if not search.run_trial(_seed(seed, done), partial(on_trial, done + 1, trials)):
                was_interrupted = True
                break
    except KeyboardInterrupt:
        was_interrupted = True
    return search.result(study_path, was_interrupted)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingPackageError("optuna", "tuning") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _seed(seed: int, done: int) -> int:
    """The sampler's seed for the next trial. It depends only on the trials done, so that interruptions change nothing."""
    return int(np.random.SeedSequence([seed, done]).generate_state(1)[0])


def _identity(dataset: Dataset, settings: Settings, what: str, space: Space, scorer_run: Path | None) -> dict[str, str]:
    """The inputs that all trials of a study must share."""
    of_scorer = scorer_runs.setting_groups(settings)
    groups = of_scorer if what != WALKER else ["graph", "walk", "walker", *(() if scorer_run else of_scorer)]
    fixed = {group: getattr(settings, group).model_dump() for group in groups}
    return {
        "data": dataset.fingerprint,
        "what is tuned": fold_name(what),
        "space": json.dumps(space_json(space), sort_keys=True),
        "settings": hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest(),
        "rewards": "" if scorer_run is None else json.dumps(_weights(scorer_run)),
    }


def _weights(scorer_run: Path) -> list[str]:
    """The identity of a scorer: the checksums of its weights, of an ensemble those of its members."""
    files = sorted(scorer_run.rglob(Run.open(scorer_run).weights_path.name))
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def _study(path: Path, pruner: Pruner, identity: Mapping[str, str]) -> optuna.Study:
    """The study in the file, or a new one; an error if it was begun with other inputs."""
    library = _optuna()
    from sqlalchemy.exc import SQLAlchemyError

    path.parent.mkdir(parents=True, exist_ok=True)
    pruners = {
        "median": lambda: library.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=1),
        "hyperband": lambda: library.pruners.HyperbandPruner(),
        "none": lambda: library.pruners.NopPruner(),
    }
    try:
        study: optuna.Study = library.create_study(
            storage=f"sqlite:///{path.resolve()}",
            study_name=NAME,
            direction="maximize",
            load_if_exists=True,
            pruner=pruners[pruner](),
        )
    except (SQLAlchemyError, RuntimeError) as error:
        problem = str(error).splitlines()[0]
        raise SavedFileError(f"the study cannot be read ({problem})", path=path, remedy=ANOTHER_FILE) from None
    for name, value in identity.items():
        if study.user_attrs.setdefault(name, value) != value:
            raise SettingsError(f"the study was begun with {OTHER[name]}", path=path, remedy=ANOTHER_FILE)
        study.set_user_attr(name, value)
    return study


class Search:
    """A study, and the training of its trials."""

    def __init__(
        self,
        study: optuna.Study,
        folder: Path,
        dataset: Dataset,
        settings: Settings,
        what: str,
        space: Space,
        make_callbacks: MakeCallbacks,
    ) -> None:
        self._study, self._folder, self._dataset, self._settings = study, folder, dataset, settings
        self._what, self._space, self._make_callbacks = what, space, make_callbacks
        self._scorer: Path | None = None
        self._states = _optuna().trial.TrialState

    @property
    def done(self) -> list[optuna.trial.FrozenTrial]:
        """The trials that have ended."""
        return self._study.get_trials(deepcopy=False, states=(self._states.COMPLETE, self._states.PRUNED))

    def prepare(self, scorer_run: Path | None) -> None:
        """Train the walker's scorer once, enqueue interrupted trials again, and begin a new study with the recipe's values."""
        if self._what == WALKER and self._settings.walker.reward_shaping:
            self._scorer = scorer_run or self._trained_scorer()
        for interrupted in self._study.get_trials(states=(self._states.RUNNING,)):
            attributes = {"folder": interrupted.user_attrs.get("folder", f"trial-{interrupted.number}")}
            self._study.tell(interrupted.number, state=self._states.FAIL)
            self._study.enqueue_trial(interrupted.params, user_attrs=attributes)
        if not self._study.get_trials(deepcopy=False):
            dumped: dict[str, Any] = self._settings.model_dump()
            own = {name: dumped[name.partition(".")[0]][name.partition(".")[2]] for name in self._space}
            if all(self._space[name].holds(value) for name, value in own.items()):
                self._study.enqueue_trial(own)

    def _trained_scorer(self) -> Path:
        callbacks = self._make_callbacks(scorer_runs.training_plan(self._settings))
        folder = self._folder / "scorer"
        run, _ = scorer_runs.train_into(folder, self._dataset, self._settings, resume=True, callbacks=callbacks)
        if not run.is_finished:
            raise KeyboardInterrupt
        return run.path

    def run_trial(self, seed: int, on_values: Callable[[Mapping[str, Any]], None]) -> bool:
        """Run one trial; False if it was interrupted, and must be resumed."""
        trial, values, folder = self.ask(seed)
        on_values(values)
        run = None
        try:
            run = self._train(folder, changed(self._settings, values), trial)
        except (_optuna().TrialPruned, DivergedError):
            pass
        if run is not None and not run.is_finished:
            return False
        self.tell(trial, run)
        return True

    def ask(self, seed: int, *, at_once: bool = False) -> tuple[optuna.Trial, dict[str, Any], Path]:
        """The next trial, its values and the folder of its run; `at_once`: it does not wait for those under way."""
        self._study.sampler = _optuna().samplers.TPESampler(seed=seed, constant_liar=at_once)
        trial = self._study.ask()
        values = {name: _suggested(trial, name, found) for name, found in self._space.items()}
        folder = self._folder / "trials" / trial.user_attrs.get("folder", f"trial-{trial.number}")
        trial.set_user_attr("folder", folder.name)
        return trial, values, folder

    def tell(self, trial: optuna.Trial, run: Run | None) -> None:
        """End a trial with its finished run; without one, it was pruned or diverged."""
        if run is None:
            self._study.tell(trial, state=self._states.PRUNED)
        else:
            trial.set_user_attr("epochs", run.about["epochs"])
            self._study.tell(trial, float(run.about["valid_mrr"]))
        self._keep_the_best()

    def training(self, folder: Path, values: Mapping[str, Any]) -> Training:
        """The training of a trial, to be sent elsewhere with what there is of its run."""
        scorer = pack(self._scorer) if self._what == WALKER and self._scorer is not None else None
        kind: Literal["walker", "scorer"] = "walker" if self._what == WALKER else "scorer"
        return Training(folder.name, kind, self._dataset.name, changed(self._settings, values), packed_run(folder), scorer)

    def pruning(self, trial: optuna.Trial, folder: Path) -> PruningCallback:
        """Decides about a trial that is trained elsewhere."""
        return PruningCallback(trial, folder)

    def _train(self, folder: Path, settings: Settings, trial: optuna.Trial) -> Run:
        if self._what != WALKER:
            callbacks = [PruningCallback(trial, folder), *self._make_callbacks(scorer_runs.training_plan(settings))]
            return scorer_runs.train_into(folder, self._dataset, settings, resume=True, callbacks=callbacks)[0]
        return walker_runs.train_into(
            folder,
            self._dataset,
            settings,
            scorer_run=self._scorer,
            resume=True,
            make_callbacks=lambda plan: [PruningCallback(trial, folder), *self._make_callbacks(plan)],
        )

    def _keep_the_best(self) -> None:
        """Remove the runs of trials that are not the best."""
        best = self._best()
        kept = None if best is None else best.user_attrs.get("folder")
        for trial in self.done:
            name = trial.user_attrs.get("folder")
            if name and name != kept:
                shutil.rmtree(self._folder / "trials" / name, ignore_errors=True)

    def _best(self) -> optuna.trial.FrozenTrial | None:
        finished = [trial for trial in self.done if trial.value is not None and trial.state == self._states.COMPLETE]
        return max(finished, key=lambda trial: trial.value or 0.0, default=None)

    def result(self, path: Path, was_interrupted: bool) -> Tuned:
        """The result; writes the preset and the chart of importance."""
        trials = [_as_trial(trial, self._states) for trial in self.done]
        trials.sort(key=lambda trial: (trial.was_pruned, -(trial.mrr or 0.0), trial.number))
        importance = self._importance()
        preset, settings, best = None, None, self._best()
        self._folder.mkdir(parents=True, exist_ok=True)
        if best is not None and best.value is not None:
            preset, settings = self._folder / BEST, changed(self._settings, best.params)
            about = f"# Found by `hopwalk tune`: dev MRR {100 * best.value:.2f} in trial {best.number} of {len(trials)}.\n\n"
            write_text(preset, about + settings_toml(settings))
        if importance:
            chart = bar_chart("Importance for dev MRR", list(importance.items()), show=lambda value: f"{100 * value:.0f} %")
            write_text(self._folder / IMPORTANCE, chart)
        return Tuned(path, preset, tuple(trials), importance, settings, was_interrupted)

    def _importance(self) -> dict[str, float]:
        """The importance of each setting for dev MRR; empty while there are few trials."""
        finished = [trial for trial in self.done if trial.state == self._states.COMPLETE]
        if len(finished) < 4 or len({trial.value for trial in finished}) < 2:
            return {}
        found: dict[str, float] = _optuna().importance.get_param_importances(self._study)
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def _suggested(trial: optuna.Trial, name: str, found: Any) -> Any:
    if isinstance(found, Choice):
        return trial.suggest_categorical(name, found.values)
    if found.is_whole:
        return trial.suggest_int(name, int(found.low), int(found.high), log=found.log)
    return trial.suggest_float(name, found.low, found.high, log=found.log)


def _as_trial(trial: optuna.trial.FrozenTrial, states: Any) -> Trial:
    was_pruned = trial.state == states.PRUNED
    reached = max(trial.intermediate_values.values(), default=None)
    epochs = max(trial.intermediate_values, default=0)
    value = reached if was_pruned else trial.value
    return Trial(trial.number, value, int(trial.user_attrs.get("epochs", epochs)), was_pruned, trial.params)


class PruningCallback:
    """A callback that prunes a trial that does worse than others did."""

    def __init__(self, trial: optuna.Trial, folder: Path) -> None:
        self._trial, self._best = trial, 0.0
        self._reported: set[int] = set()
        for record in Run(folder).history:  # of a trial that is resumed
            self._report(record)

    def on_batch(self, epoch: int, batch: int, num_batches: int, values: Mapping[str, float]) -> None:
        """Nothing."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Report the best dev MRR so far; prune the trial if others had more after as many epochs."""
        if self.should_end(record):
            raise _optuna().TrialPruned

    def should_end(self, record: Mapping[str, Any]) -> bool:
        """Report the best dev MRR so far; whether others had more after as many epochs."""
        self._report(record)
        return bool(self._trial.should_prune())

    def _report(self, record: Mapping[str, Any]) -> None:
        self._best = max(self._best, float(record["valid_mrr"]))
        if record["epoch"] not in self._reported:  # after resuming, epochs since the last checkpoint are repeated
            self._reported.add(record["epoch"])
            self._trial.report(self._best, int(record["epoch"]))
