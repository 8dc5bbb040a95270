"""Scorers in run folders: trained into them, loaded from them, put together from several."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hopwalk.config import ScorerSettings, Settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import RunError, SettingsError
from hopwalk.run import Run
from hopwalk.scorers.base import Calibration, Scorer
from hopwalk.scorers.calibration import Reliability, calibrate
from hopwalk.scorers.models import build_scorer
from hopwalk.scorers.training import Watcher, load_arrays, train

KIND = "scorer"


def train_into(path: Path, dataset: Dataset, settings: Settings, *, resume: bool, watcher: Watcher | None) -> Run:
    """Train a scorer into a run folder, or go on with the run that is there; the finished or interrupted run."""
    scorer = build_scorer(len(dataset.entities), len(dataset.relations), settings.scorer)
    run = _continued(path, dataset, settings) if resume and (path / "run.json").exists() else _begun(path, dataset, settings)
    if run.about.get("status") == "finished":
        return run
    train(run, scorer, dataset, settings.scorer, watcher)
    describe(run, scorer)
    return run


def _begun(path: Path, dataset: Dataset, settings: Settings) -> Run:
    if (path / "run.json").exists():
        remedy = "Go on with it with --resume (resume=True), or choose another folder."
        raise RunError("there is a run in this folder already", path=path, remedy=remedy)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError("this is no empty folder", path=path, remedy="Choose another one for the run.")
    from hopwalk import __version__

    about = {"kind": KIND, "status": "training", "hopwalk": __version__, "machine": f"{platform.system()} {platform.machine()}"}
    return Run.create(path, dataset, settings, about)


def _continued(path: Path, dataset: Dataset, settings: Settings) -> Run:
    run = Run.open(path)
    run.require_same_data(dataset)
    now, then = settings.scorer.model_dump(), run.settings.scorer.model_dump()
    for name, value in now.items():
        if value != then[name]:
            raise SettingsError(
                f"the run in {path} has scorer.{name} = {then[name]!r}, not {value!r}: it cannot go on with another",
                remedy="Give the settings it was begun with, or choose another folder.",
            )
    return run


def describe(run: Run, scorer: Scorer) -> None:
    """Find out how the scorer's scores become probabilities, and write that and the card into the run folder."""
    found = calibrate(scorer, run.dataset)
    is_sigmoid = run.settings.scorer.loss == "binary"
    if found is not None:
        fitted, reliability = found
        if is_sigmoid:
            from hopwalk.scorers.calibration import reliability as measure

            reliability = measure(scorer, run.dataset, "valid") or reliability
        else:
            scorer.calibration = fitted
        run.update_about(calibration=asdict(scorer.calibration), reliability=reliability.to_dict())
    else:
        run.update_about(calibration=asdict(scorer.calibration))
    from hopwalk.scorers.card import write_card

    write_card(run)


def load_scorer(path: str | Path) -> Scorer:
    """The scorer of a run folder."""
    run = Run.open(path)
    if run.about["kind"] == "ensemble":
        from hopwalk.scorers.ensemble import load_ensemble

        return load_ensemble(run)
    if run.about["kind"] != KIND:
        raise RunError(f"this is a run of kind {run.about['kind']!r}, not a scorer", path=path)
    dataset, settings = run.dataset, run.settings.scorer
    scorer = build_scorer(len(dataset.entities), len(dataset.relations), settings)
    weights = run.load_weights()
    load_arrays(scorer, {name: weights.array(name) for name in weights.names}, weights)
    scorer.calibration = calibration_of(run)
    scorer.eval()
    return scorer


def calibration_of(run: Run) -> Calibration:
    """How the run says its scores become probabilities."""
    said: Any = run.about.get("calibration", {})
    try:
        return Calibration(float(said.get("slope", 1)), float(said.get("offset", 0)), bool(said.get("is_relative", False)))
    except (TypeError, ValueError, AttributeError):
        raise RunError("run.json is damaged: its calibration cannot be read", path=run.path, remedy="Train it again.") from None
