"""Run folders of scorers: training into them, loading from them, combining them into ensembles."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.calibration import Calibration, calibrate, calibration_of, measure_reliability
from hopwalk.learning.callbacks import Callback, MakeCallbacks, TensorBoard, TrainingPlan, no_callbacks
from hopwalk.learning.probability_fit import probability_about
from hopwalk.learning.processes import ALONE, Gather, Processes, alone
from hopwalk.learning.run import FINISHED, Run, copy_run, refuse_used_folder
from hopwalk.learning.scorer import PathScorer, Scorer
from hopwalk.learning.training import Learner, best_arrays, load_arrays, train
from hopwalk.scorers.base import ProductScorer, TrainableScorer
from hopwalk.scorers.card import write_card
from hopwalk.scorers.ensemble import Ensemble, choose_weights
from hopwalk.scorers.installed import package_of
from hopwalk.scorers.models import PROPAGATION, build_any_scorer, has_rules, is_ntp, is_propagation
from hopwalk.scorers.path_ensemble import PathEnsemble
from hopwalk.scorers.training import EmbeddingLearner
from hopwalk.utils.files import locked
from hopwalk.utils.packing import pack, unpack

SCORER, ENSEMBLE = "scorer", "ensemble"  # kinds of runs


def train_into(
    path: Path,
    dataset: Dataset,
    settings: Settings,
    *,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    make_callbacks: MakeCallbacks = no_callbacks,
    tensorboard: bool = False,
    scorer: Scorer | None = None,
    gather: Gather = alone,
) -> tuple[Run, Scorer]:
    """Train a scorer into a run folder, or resume its run; returns the finished or interrupted run, and its scorer.

    `scorer` is the untrained scorer of these settings, if it was built already. `make_callbacks(plan)` gives callbacks for the
    plan of this training, with a forecast if there is one. `gather` gathers the processes that train propagation together.
    """
    if gather is not alone and not is_propagation(settings):
        raise SettingsError("only propagation is trained on several processes", remedy="Train other models on one.")
    scorer = scorer or build_any_scorer(dataset, settings)
    callbacks = [*callbacks, TensorBoard(path / "tensorboard")] if tensorboard else callbacks
    with gather() as processes, locked(path):
        run = Run.find(path, dataset, settings, kind=SCORER, groups=setting_groups(settings)) if resume else None
        run = run or Run.begin(path, dataset, settings, kind=SCORER, resume=resume)
        processes.send(pack(path) if processes.count > 1 and not run.is_finished else None)
        if run.is_finished:
            return run, load_scorer(path)
        trained_on = dataset.with_valid_in_training() if settings.scorer.train_on_valid else dataset
        learner = _learner(scorer, trained_on, settings, processes)
        if make_callbacks is not no_callbacks:
            callbacks = [*callbacks, *make_callbacks(replace(training_plan(settings), forecast=learner.forecast()))]
        outcome = train(run, learner, callbacks)
        if outcome is not None:
            describe(run, scorer, trained_on, outcome)
        return run, scorer


def train_beside(processes: Processes) -> None:
    """Train with the others, as process 0 says; what it would write goes to a temporary folder."""
    files = processes.send(None)
    if files is None:
        return
    with tempfile.TemporaryDirectory(prefix="hopwalk-") as folder:
        unpack(files, Path(folder))
        run = Run.open(folder)
        dataset, settings = run.dataset, run.settings
        trained_on = dataset.with_valid_in_training() if settings.scorer.train_on_valid else dataset
        train(run, _learner(build_any_scorer(dataset, settings), trained_on, settings, processes))


def setting_groups(settings: Settings) -> list[str]:
    """The groups of settings that make a scorer what it is."""
    if is_propagation(settings):
        return ["scorer", "propagation"]
    if has_rules(settings):
        return ["scorer", "rules"]
    return ["scorer", "ntp"] if is_ntp(settings) else ["scorer"]


def training_plan(settings: Settings) -> TrainingPlan:
    """The plan of a scorer's training."""
    if is_propagation(settings):
        return TrainingPlan(PROPAGATION, settings.propagation.evaluations, unit="part")
    if has_rules(settings):
        return TrainingPlan(SCORER, settings.rules.evaluations, unit="part")
    return TrainingPlan(SCORER, settings.ntp.epochs if is_ntp(settings) else settings.scorer.epochs)


def _learner(scorer: Scorer, dataset: Dataset, settings: Settings, processes: Processes = ALONE) -> Learner:
    if isinstance(scorer, TrainableScorer):
        return EmbeddingLearner(scorer, dataset, settings.scorer)
    from hopwalk.propagation.rule_scorer import RuleScorer
    from hopwalk.propagation.rule_training import RuleLearner
    from hopwalk.propagation.scorer import PropagationScorer
    from hopwalk.propagation.training import PropagationLearner
    from hopwalk.scorers.ntp.model import NtpScorer
    from hopwalk.scorers.ntp.training import NtpLearner

    if isinstance(scorer, RuleScorer):
        return RuleLearner(settings.scorer.model, scorer, dataset, settings.rules)
    if isinstance(scorer, NtpScorer):
        return NtpLearner(settings.scorer.model, scorer, dataset, settings.ntp)
    assert isinstance(scorer, PropagationScorer)
    return PropagationLearner(scorer, dataset, settings.propagation, processes)


def describe(run: Run, scorer: Scorer, dataset: Dataset, outcome: dict[str, Any]) -> None:
    """Calibrate the scorer on dev, and write calibration, probabilities of facts, outcome and card to the run folder.

    Scores of our models trained with binary cross-entropy are log-odds already, and are not changed.
    """
    if isinstance(scorer, ProductScorer) and run.settings.scorer.loss == "binary":  # distances, for example, are never above zero
        reliability = measure_reliability(scorer.compact_scores, scorer.calibration, dataset, "valid")
    else:
        scorer.calibration, reliability = calibrate(scorer.compact_scores, dataset)
    calibrated = {"calibration": asdict(scorer.calibration), "reliability": reliability.to_dict() if reliability else None}
    package = None if type(scorer).__module__.startswith("hopwalk.") else package_of(run.settings.scorer.model)
    about = run.about | outcome | calibrated | ({"package": package} if package else {})
    about |= probability_about(scorer.compact_scores, dataset)
    write_card(run, about)
    run.finish(about)


def load_scorer(path: str | Path) -> Scorer:
    """The scorer of a run folder."""
    run = Run.open(path)
    if run.about["kind"] == ENSEMBLE:
        return _load_ensemble(run)
    run.require_kind(SCORER)
    dataset, settings = run.dataset, run.settings.scorer
    scorer = build_any_scorer(dataset, run.settings)
    load_arrays(scorer, best_arrays(run, scorer, PROPAGATION if is_propagation(run.settings) else settings.model))
    scorer.calibration = calibration_of(run) or Calibration()
    scorer.eval()
    return scorer


def combine_into(path: Path, members: Sequence[str | Path]) -> Run:
    """Combine runs into an ensemble, in a new run folder with copies of them."""
    if len(members) < 2:
        raise SettingsError("an ensemble needs at least two runs", remedy="Give the folders of two or more scorers.")
    refuse_used_folder(path)
    runs = [Run.open(member) for member in members]
    first = runs[0]
    for run in runs[1:]:
        run.require_same_data(first.dataset)
        if run.settings.scorer.train_on_valid != first.settings.scorer.train_on_valid:
            problem = f"only one of this run and {first.path} was trained on the dev set"
            raise RunError(problem, path=run.path, remedy="Combine runs that were all trained on it, or runs that were not.")
    dataset = first.dataset.with_valid_in_training() if first.settings.scorer.train_on_valid else first.dataset
    scorers = [load_scorer(member) for member in members]
    ensemble = ensemble_of(scorers, choose_weights(scorers, dataset))
    names = [f"{number}-{run.settings.scorer.model.replace(':', '-')}" for number, run in enumerate(runs, start=1)]
    for name, run in zip(names, runs, strict=True):
        copy_run(run.path, path / "members" / name)
    folders = [run.path.resolve().name for run in runs]
    about = {"kind": ENSEMBLE, "status": "begun", "members": names, "weights": ensemble.weights, "combined_from": folders}
    with locked(path):
        combined = Run.create(path, first.dataset, first.settings, about)
        describe(combined, ensemble, dataset, {"status": FINISHED})
    return combined


def ensemble_of(members: Sequence[Scorer], weights: Sequence[float] | None = None) -> Ensemble | PathEnsemble:
    """An ensemble of scorers; if all are made of walks, one that knows the paths behind its scores."""
    made_of_walks = [member for member in members if isinstance(member, PathScorer)]
    return PathEnsemble(made_of_walks, weights) if len(made_of_walks) == len(members) else Ensemble(members, weights)


def _load_ensemble(run: Run) -> Ensemble | PathEnsemble:
    names = run.about.get("members")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise RunError("run.json is damaged: the members of the ensemble are missing", path=run.path, remedy="Combine it again.")
    for name in names:
        Run.open(run.path / "members" / name).require_same_data(run.dataset)
    ensemble = ensemble_of([load_scorer(run.path / "members" / name) for name in names], _weights(run, len(names)))
    ensemble.calibration = calibration_of(run) or Calibration()
    ensemble.eval()
    return ensemble


def _weights(run: Run, count: int) -> list[float] | None:
    """The weights of an ensemble's members; None for one of the first version, whose members weigh the same."""
    weights = run.about.get("weights")
    if weights is None:
        return None
    are_numbers = isinstance(weights, list) and len(weights) == count and all(isinstance(one, int | float) for one in weights)
    if not are_numbers or min(weights) < 0 or abs(sum(weights) - 1) > 1e-3:
        raise RunError(
            "run.json is damaged: the weights of the members cannot be read", path=run.path, remedy="Combine it again."
        )
    return [float(weight) for weight in weights]
