"""Walkers in run folders: trained into them together with their scorer, and loaded from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.errors import DataError, HopwalkError, RunError, SettingsError
from hopwalk.learning.calibration import calibration_about, calibration_of
from hopwalk.learning.callbacks import MakeCallbacks, TensorBoard, TrainingPlan, no_callbacks
from hopwalk.learning.probability_fit import probability_about
from hopwalk.learning.run import INTERRUPTED, Run, copy_run
from hopwalk.learning.scorer import Scorer
from hopwalk.learning.training import begin_with, best_arrays, load_arrays, train
from hopwalk.scorers import runs as scorer_runs
from hopwalk.scorers.models import build_any_scorer
from hopwalk.utils.files import digest_of, locked
from hopwalk.walker.card import write_card
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Environment
from hopwalk.walker.forecast import forecast
from hopwalk.walker.policy import Policy
from hopwalk.walker.shaping import Shaping
from hopwalk.walker.training import WalkerLearner

WALKER = "walker"  # kind of run
PROBABILITY_QUERIES = 150  # for the probabilities of facts: beams take longer than scores
SCORER_FOLDER = "scorer"
STARTED_FROM = "started_from"  # in run.json: the walker whose parameters were the initial ones
TRAINED_ON_DEV = "was trained on the dev set, on which this walker is evaluated"


def train_into(
    path: Path,
    dataset: Dataset,
    settings: Settings,
    *,
    scorer_run: Path | None = None,
    start: Path | None = None,
    resume: bool = False,
    make_callbacks: MakeCallbacks = no_callbacks,
    tensorboard: bool = False,
) -> Run:
    """Train a scorer, unless a run of one is given, then a walker with it; or resume the run that is there.

    With `start`, the run of another walker, training begins with its parameters, and with its scorer if no other is given.
    """
    started_from = _describe_start(Run.open(start), dataset, settings) if start else None
    if start and scorer_run is None and (start / SCORER_FOLDER / "run.json").exists():
        scorer_run = start / SCORER_FOLDER
    run = _find(path, dataset, settings, started_from) if resume else None
    if run and run.is_finished:
        return run
    if not settings.walker.epochs and not start and not (run and STARTED_FROM in run.about):
        raise SettingsError("there is nothing to train in 0 epochs", remedy="Name a trained walker to start from.")
    trained_on = dataset.with_valid_in_training() if settings.walker.train_on_valid else dataset
    if not len(trained_on.train):
        raise DataError(f"{dataset.name} has no training queries")
    # Whatever cannot be trained is refused before the folder is begun, which would be in the way of the next try.
    scorer = _check_scorer(dataset, settings, scorer_run) if settings.walker.reward_shaping else None
    environment = build_environment(trained_on, settings)
    parameters = _initial_parameters(Run.open(start), environment) if start else None
    board = [TensorBoard(path / "tensorboard")] if tensorboard else []
    about = {STARTED_FROM: started_from} if started_from else {}
    with locked(path):
        run = run or Run.begin(path, dataset, settings, kind=WALKER, resume=resume, about=about)
        if run.is_finished:  # by another process, in the meantime
            return run
        if scorer is not None:
            scorer = _place_scorer(path, dataset, settings, scorer_run, scorer, make_callbacks)
            if scorer is None:
                run.write_about(run.about | {"status": INTERRUPTED})
                return run
        expected = forecast(environment.graph, len(trained_on.train), settings, has_scorer=scorer is not None)
        callbacks = [*make_callbacks(TrainingPlan(WALKER, settings.walker.epochs, expected)), *board]
        learner = WalkerLearner(environment, trained_on, settings, Shaping(scorer) if scorer else None)
        if parameters and not run.checkpoint_path.exists():
            begin_with(run, learner, parameters)
        outcome = train(run, learner, callbacks)
        if outcome is None:  # interrupted before it was as far as it had been before
            return run
        scores = Decoder(environment, settings).scores
        outcome = run.about | outcome | calibration_about(scores, trained_on)
        outcome |= probability_about(scores, trained_on, most_queries=PROBABILITY_QUERIES)
        write_card(run, outcome)
        run.finish(outcome)
        return run


def _check_scorer(dataset: Dataset, settings: Settings, scorer_run: Path | None) -> Scorer:
    """The given scorer, or without one an untrained one; an error if it cannot be used or built."""
    scorer = Run.open(scorer_run).settings.scorer if scorer_run else settings.scorer
    if scorer.train_on_valid and not settings.walker.train_on_valid and len(dataset.valid):
        remedy = "Set walker.train_on_valid=true, or take another scorer."
        raise RunError(f"this scorer {TRAINED_ON_DEV}", path=scorer_run, remedy=remedy)
    if scorer_run is not None:
        Run.open(scorer_run).require_same_data(dataset)
        return scorer_runs.load_scorer(scorer_run)
    return build_any_scorer(dataset, settings)


def _describe_start(start: Run, dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """The entry of `run.json` about the walker that a run starts from: its folder, its weights, and its training."""
    start.require_kind(WALKER, remedy="Give the run of a walker.")
    start.require_same_data(dataset)
    if not start.weights_path.exists():
        raise RunError("this walker has no weights yet", path=start.path, remedy="Resume its training first.")
    if start.trained_on_valid and not settings.walker.train_on_valid:
        remedy = "Set walker.train_on_valid=true, or start from another walker."
        raise RunError(f"this walker {TRAINED_ON_DEV.replace('this', 'the new')}", path=start.path, remedy=remedy)
    before = start.about.get(STARTED_FROM, {})
    return {
        "folder": start.path.resolve().name,
        "weights_sha256": digest_of(start.weights_path),
        "epochs": start.about.get("epochs", 0) + before.get("epochs", 0),
        "seconds": start.about.get("seconds", 0.0) + before.get("seconds", 0.0),
    }


def _initial_parameters(start: Run, environment: Environment) -> dict[str, Any]:
    """The weights of the walker to start from, if they fit."""
    start.load_weights()  # an error if the file is damaged
    try:
        return best_arrays(start, environment.policy, WALKER)
    except HopwalkError as error:
        remedy = f"Use its settings as the preset: {start.path / 'settings.toml'}"
        problem = f"the walker to start from has other settings ({error.problem})"
        raise RunError(problem, path=start.path, remedy=remedy) from None


def _find(path: Path, dataset: Dataset, settings: Settings, started_from: dict[str, Any] | None) -> Run | None:
    """The run to resume, if there is one and it started from the same walker."""
    groups = ["graph", "walk", "walker", *(scorer_runs.setting_groups(settings) if settings.walker.reward_shaping else [])]
    run = Run.find(path, dataset, settings, kind=WALKER, groups=groups)
    if run is None:
        return None
    begun = run.about.get(STARTED_FROM)
    has_its_parameters = run.checkpoint_path.exists() or run.is_finished
    is_same = (begun or {}).get("weights_sha256") == (started_from or {}).get("weights_sha256")
    if not is_same and (started_from or not has_its_parameters):
        remedy = f"Start from the run {begun['folder']}." if begun else "Do not name a run to start from."
        raise RunError("the run was begun with other parameters", path=path, remedy=remedy)
    return run


def _place_scorer(
    path: Path,
    dataset: Dataset,
    settings: Settings,
    scorer_run: Path | None,
    scorer: Scorer,
    make_callbacks: MakeCallbacks,
) -> Scorer | None:
    """Put the scorer's run into the walker's run folder, trained if none is given; None if its training was interrupted."""
    folder = path / SCORER_FOLDER
    if scorer_run is None and STARTED_FROM in Run.open(path).about and (folder / "run.json").exists():
        return scorer_runs.load_scorer(folder)  # the copy made when the run was begun
    if scorer_run is None:
        run, trained = scorer_runs.train_into(
            folder, dataset, settings, resume=True, make_callbacks=make_callbacks, scorer=scorer
        )
        return trained if run.is_finished else None
    if not (folder / "run.json").exists():
        copy_run(scorer_run, folder)
    elif Run.open(folder).about != Run.open(scorer_run).about:
        remedy = "Resume without naming a scorer, or choose another folder."
        raise RunError(f"the run was begun with another scorer than that of {scorer_run}", path=path, remedy=remedy)
    return scorer


def build_environment(dataset: Dataset, settings: Settings) -> Environment:
    """The graph of the data set with an untrained policy."""
    size = len(dataset.entities), len(dataset.relations)
    graph = build_graph(dataset.facts, *size, settings.graph)
    return Environment(graph, Policy(*size, settings.walker), KnownAnswers([dataset.facts, dataset.train], *size))


def load_decoder(run: Run) -> Decoder:
    """The trained walker of a run folder, ready to answer."""
    run.require_kind(WALKER, remedy="Train a walker: its scorer is trained with it.")
    settings, dataset = run.settings, run.dataset
    if not run.weights_path.exists():
        raise RunError("the walker has no weights yet", path=run.path, remedy="Resume its training.")
    trained_on = dataset.with_valid_in_training() if settings.walker.train_on_valid else dataset
    if "guidance" in run.load_weights().names:
        problem = "this walker was guided by its scorer in the last hop, which hopwalk no longer does"
        raise RunError(problem, path=run.path, remedy="Train it again.")
    environment = build_environment(trained_on, settings)
    load_arrays(environment.policy, best_arrays(run, environment.policy, WALKER))
    environment.policy.eval()
    return Decoder(environment, settings, calibration_of(run))


def untrained(decoder: Decoder, dataset: Dataset, seed: int = 0) -> Decoder:
    """The same decoder with the policy's initial, random parameters: the control that shows what the policy has learnt."""
    settings = decoder.settings.walker.model_copy(update={"seed": seed})
    policy = Policy(len(dataset.entities), len(dataset.relations), settings).eval()
    environment = Environment(decoder.environment.graph, policy, decoder.environment.known)
    return Decoder(environment, decoder.settings, decoder.calibration)
