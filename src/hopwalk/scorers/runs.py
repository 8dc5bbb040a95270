"""Scorers in run folders: trained into them, loaded from them, put together from several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings, fold_name
from hopwalk.data.dataset import Dataset
from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.calibration import calibrate, measure_reliability
from hopwalk.learning.run import Run, copy_run, refuse_used_folder
from hopwalk.learning.tensorboard import TensorBoard
from hopwalk.learning.training import Watcher, best_arrays, load_arrays, train
from hopwalk.scorers.base import Calibration, Scorer
from hopwalk.scorers.card import write_card
from hopwalk.scorers.ensemble import Ensemble
from hopwalk.scorers.models import PYKEEN, build_scorer
from hopwalk.scorers.training import ScorerLearner

SCORER, ENSEMBLE = "scorer", "ensemble"  # kinds of runs
RETRAIN = "Train it again."


def train_into(
    path: Path,
    dataset: Dataset,
    settings: Settings,
    *,
    resume: bool = False,
    watchers: Sequence[Watcher] = (),
    tensorboard: bool = False,
) -> Run:
    """Train a scorer into a run folder, or go on with the run that is there; the finished or interrupted run."""
    scorer = build_scorer(len(dataset.entities), len(dataset.relations), settings.scorer, dataset.facts)
    watchers = [*watchers, TensorBoard(path / "tensorboard")] if tensorboard else watchers
    is_there = resume and (path / "run.json").exists()
    run = _continued(path, dataset, settings) if is_there else _begun(path, dataset, settings, resume)
    if run.about.get("status") == "finished":
        return run
    learnt = _with_valid_learnt(dataset) if settings.scorer.learn_valid else dataset
    outcome = train(run, ScorerLearner(scorer, learnt, settings.scorer), watchers)
    if outcome is None:  # stopped before it was as far as it had been before
        return run
    describe(run, scorer, learnt, outcome)
    if outcome["status"] == "finished":
        run.checkpoint_path.unlink(missing_ok=True)
    return run


def _with_valid_learnt(dataset: Dataset) -> Dataset:
    """The data set with its dev facts among those to learn, and so without dev questions."""
    return replace(dataset.with_valid_as_facts(), valid=dataset.valid[:0])


def _begun(path: Path, dataset: Dataset, settings: Settings, resume: bool) -> Run:
    refuse_used_folder(path, resume=resume)
    return Run.create(path, dataset, settings, {"kind": SCORER, "status": "training"})


def _continued(path: Path, dataset: Dataset, settings: Settings) -> Run:
    run = Run.open(path)
    run.require_kind(SCORER)
    run.require_same_data(dataset)
    require_same_settings(run, settings, ["scorer"])
    return run


def require_same_settings(run: Run, settings: Settings, groups: Sequence[str]) -> None:
    """An error if the run was begun with other settings in these groups; a model may be written in other ways."""
    for group in groups:
        now, then = getattr(settings, group).model_dump(), getattr(run.settings, group).model_dump()
        for name, value in now.items():
            is_same_model = name == "model" and fold_name(value) == fold_name(then[name])
            if value != then[name] and not is_same_model:
                raise SettingsError(
                    f"the run in {run.path} has {group}.{name} = {then[name]!r}, not {value!r}: it cannot go on with another",
                    remedy="Give the settings it was begun with, or choose another folder.",
                )


def describe(run: Run, scorer: Scorer, dataset: Dataset, outcome: dict[str, Any]) -> None:
    """Find out how the scorer's scores become probabilities, and write that, the outcome and the card into the run folder.

    A model of ours that was trained with binary cross-entropy gives log-odds by itself, and stays as it is; others are fitted
    to dev.
    """
    is_ours = not run.settings.scorer.model.lower().startswith(PYKEEN)  # distances, for one, are never above zero
    if run.about["kind"] == SCORER and run.settings.scorer.loss == "binary" and is_ours:
        reliability = measure_reliability(scorer, dataset, "valid")
    else:
        scorer.calibration, reliability = calibrate(scorer, dataset)
    found = {"calibration": asdict(scorer.calibration), "reliability": reliability.to_dict() if reliability else None}
    about = run.about | outcome | found
    write_card(run, about)
    run.write_about(about)  # last: what is called finished is whole


def load_scorer(path: str | Path) -> Scorer:
    """The scorer of a run folder."""
    run = Run.open(path)
    if run.about["kind"] == ENSEMBLE:
        return _load_ensemble(run)
    run.require_kind(SCORER)
    dataset, settings = run.dataset, run.settings.scorer
    scorer = build_scorer(len(dataset.entities), len(dataset.relations), settings, dataset.facts)
    load_arrays(scorer, best_arrays(run, scorer, settings.model))
    scorer.calibration = calibration_of(run)
    scorer.eval()
    return scorer


def calibration_of(run: Run) -> Calibration:
    """How the run says its scores become probabilities."""
    said: Any = run.about.get("calibration", {})
    try:
        return Calibration(float(said.get("slope", 1)), float(said.get("offset", 0)), bool(said.get("is_relative", False)))
    except (TypeError, ValueError, AttributeError):
        raise RunError("run.json is damaged: its calibration cannot be read", path=run.path, remedy=RETRAIN) from None


def combine_into(path: Path, members: Sequence[str | Path]) -> Run:
    """A run folder that holds copies of the runs as members of an ensemble."""
    if len(members) < 2:
        raise SettingsError("an ensemble needs two runs or more")
    refuse_used_folder(path)
    runs = [Run.open(member) for member in members]
    for run in runs[1:]:
        run.require_same_data(runs[0].dataset)
        if run.settings.scorer.learn_valid != runs[0].settings.scorer.learn_valid:
            problem = f"only one of this run and {runs[0].path} has learnt the dev facts"
            raise RunError(problem, path=run.path, remedy="Combine runs that have, or runs that have not.")
    ensemble = Ensemble([load_scorer(member) for member in members])
    names = [f"{number}-{run.settings.scorer.model.replace(':', '-')}" for number, run in enumerate(runs, start=1)]
    for name, run in zip(names, runs, strict=True):
        copy_run(run.path, path / "members" / name)
    folders = [run.path.resolve().name for run in runs]
    about = {"kind": ENSEMBLE, "status": "begun", "members": names, "combined_from": folders}
    combined = Run.create(path, runs[0].dataset, runs[0].settings, about)
    dataset = runs[0].dataset
    learnt = _with_valid_learnt(dataset) if runs[0].settings.scorer.learn_valid else dataset
    describe(combined, ensemble, learnt, {"status": "finished"})
    return combined


def _load_ensemble(run: Run) -> Ensemble:
    names = run.about.get("members")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise RunError("run.json is damaged: the members of the ensemble are missing", path=run.path, remedy="Combine it again.")
    for name in names:
        Run.open(run.path / "members" / name).require_same_data(run.dataset)
    ensemble = Ensemble([load_scorer(run.path / "members" / name) for name in names])
    ensemble.calibration = calibration_of(run)
    ensemble.eval()
    return ensemble
