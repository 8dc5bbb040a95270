"""Walkers in run folders: trained into them with their scorer, and loaded from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hopwalk.config.settings import Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.names import NameIndex
from hopwalk.errors import DataError, HopwalkError, RunError, SettingsError
from hopwalk.learning.evaluation import Evaluation, evaluate_split_by
from hopwalk.learning.ranking import Directions, answers_to_leave_out, metrics, questions_of, rank_answers_by
from hopwalk.learning.run import Run, copy_run, refuse_used_folder
from hopwalk.learning.tensorboard import TensorBoard
from hopwalk.learning.training import Watcher, begin_with, best_arrays, load_arrays, train
from hopwalk.scorers import runs as scorer_runs
from hopwalk.scorers.models import build_scorer
from hopwalk.walker.card import write_card
from hopwalk.walker.decoding import BLEND, WEIGHTS, Decoder, blend_name
from hopwalk.walker.environment import Walker
from hopwalk.walker.policy import Policy
from hopwalk.walker.scorer_logits import Opinions
from hopwalk.walker.training import WalkerLearner, some_questions

WALKER = "walker"  # kind of run
SCORER_FOLDER = "scorer"
TRAINS_A_WALKER = "`hopwalk train DATA` without --scorer trains a walker."
STARTED_FROM = "started_from"  # in run.json: the walker whose parameters were the first
MakeWatchers = Callable[[str, int], Sequence[Watcher]]  # what is trained and for how many epochs → who watches


@dataclass(frozen=True)
class TrainedWalker:
    """A walker with what it needs to answer: its data, its scorer, the weight of paths in the blend, and how names are found."""

    run: Run
    dataset: Dataset
    settings: Settings
    walker: Walker
    opinions: Opinions | None
    blend_weight: float | None
    entity_names: NameIndex
    relation_names: NameIndex

    @property
    def decoder(self) -> Decoder:
        """What makes scores of walks."""
        return Decoder(self.walker, self.settings, self.opinions)


def needs_scorer(settings: Settings) -> bool:
    """Whether the walker is rewarded or guided by a scorer."""
    return settings.walker.reward_shaping or settings.walker.guidance > 0


def train_into(
    path: Path,
    dataset: Dataset,
    settings: Settings,
    *,
    scorer_run: Path | None = None,
    start: Path | None = None,
    resume: bool = False,
    make_watchers: MakeWatchers = lambda *_: (),
    tensorboard: bool = False,
) -> Run:
    """Train a scorer, unless a run of one is given, then a walker with it; or go on with the run that is there.

    With `start`, the run of another walker, its parameters are the first, and its scorer that of the new one if no other is
    given.
    """
    first = _described(Run.open(start), dataset, settings) if start else None
    if start and scorer_run is None and (start / SCORER_FOLDER / "run.json").exists():
        scorer_run = start / SCORER_FOLDER
    learnt = _with_valid_learnt(dataset) if settings.walker.learn_valid else dataset
    run = _continued(path, dataset, settings, first) if resume and (path / "run.json").exists() else None
    if run and run.about.get("status") == "finished":
        return run
    if not settings.walker.epochs and not start and not (run and STARTED_FROM in run.about):
        raise SettingsError("there is nothing to train in 0 epochs", remedy="Say --start RUN, a walker to begin with.")
    _refuse_what_cannot_be_trained(dataset, learnt, settings, scorer_run)
    walker = build_walker(learnt, settings)
    parameters = _parameters_of(Run.open(start), walker) if start else None
    board = [TensorBoard(path / "tensorboard")] if tensorboard else []
    run = run or _begun(path, dataset, settings, resume, first)
    opinions, new_to_scorer = None, None
    if needs_scorer(settings):
        if not _scorer_is_ready(path, dataset, settings, scorer_run, make_watchers):
            run.write_about(run.about | {"status": "interrupted"})
            return run
        opinions = Opinions(scorer_runs.load_scorer(path / SCORER_FOLDER))
        has_learnt_dev = Run.open(path / SCORER_FOLDER).settings.scorer.learn_valid
        new_to_scorer = dataset.valid[:0] if has_learnt_dev else dataset.valid
    watchers = [*make_watchers(WALKER, settings.walker.epochs), *board]
    learner = WalkerLearner(walker, learnt, settings, opinions, new_to_scorer=new_to_scorer)
    if parameters and not run.checkpoint_path.exists():
        begin_with(run, learner, parameters)
    outcome = train(run, learner, watchers)
    if outcome is None:  # stopped before it was as far as it had been before
        return run
    about = run.about | outcome | _blend_chosen(Decoder(walker, settings, opinions), learnt, settings)
    write_card(run, about)
    run.write_about(about)  # last: what is called finished is whole
    if outcome["status"] == "finished":
        run.checkpoint_path.unlink(missing_ok=True)
    return run


def _refuse_what_cannot_be_trained(dataset: Dataset, learnt: Dataset, settings: Settings, scorer_run: Path | None) -> None:
    """Tell it before the folder is begun, which would stand in the way of the next try, and before a scorer is trained."""
    if not len(learnt.train):
        raise DataError(f"{dataset.name} has no training questions")
    if not needs_scorer(settings):
        return
    scorer = Run.open(scorer_run).settings.scorer if scorer_run else settings.scorer
    if scorer.learn_valid and not settings.walker.learn_valid and len(dataset.valid):
        remedy = "Set walker.learn_valid=true, or take another scorer."
        raise RunError("this scorer has learnt the dev facts, which are to be ranked", path=scorer_run, remedy=remedy)
    if scorer_run is None:
        build_scorer(len(dataset.entities), len(dataset.relations), settings.scorer, dataset.facts)
    else:
        Run.open(scorer_run).require_same_data(dataset)
        scorer_runs.load_scorer(scorer_run)


def _described(start: Run, dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """What `run.json` says of the walker that a run begins with: its folder, its weights, and what its training took."""
    start.require_kind(WALKER, remedy=TRAINS_A_WALKER)
    start.require_same_data(dataset)
    if start.about.get("status") != "finished":
        raise RunError("this walker is not trained yet", path=start.path, remedy="Go on with it: hopwalk train … --resume")
    if start.settings.walker.learn_valid and not settings.walker.learn_valid:
        remedy = "Set walker.learn_valid=true, or begin with another walker."
        raise RunError("this walker has learnt the dev facts, which are to be ranked", path=start.path, remedy=remedy)
    before = start.about.get(STARTED_FROM, {})
    return {
        "folder": start.path.resolve().name,
        "weights_sha256": hashlib.sha256(start.weights_path.read_bytes()).hexdigest(),
        "epochs": start.about.get("epochs", 0) + before.get("epochs", 0),
        "seconds": start.about.get("seconds", 0.0) + before.get("seconds", 0.0),
    }


def _parameters_of(start: Run, walker: Walker) -> dict[str, Any]:
    """Its weights, if they are those of such a walker."""
    start.load_weights()  # whole?
    try:
        return best_arrays(start, walker.policy, WALKER)
    except HopwalkError as error:
        remedy = f"Begin with its settings: --preset {start.path / 'settings.toml'}"
        problem = f"the walker to begin with has other settings ({error.problem})"
        raise RunError(problem, path=start.path, remedy=remedy) from None


def _begun(path: Path, dataset: Dataset, settings: Settings, resume: bool, first: dict[str, Any] | None) -> Run:
    refuse_used_folder(path, resume=resume)
    about = {"kind": WALKER, "status": "training"} | ({STARTED_FROM: first} if first else {})
    return Run.create(path, dataset, settings, about)


def _continued(path: Path, dataset: Dataset, settings: Settings, first: dict[str, Any] | None) -> Run:
    run = Run.open(path)
    run.require_kind(WALKER)
    run.require_same_data(dataset)
    begun = run.about.get(STARTED_FROM)
    has_its_parameters = run.checkpoint_path.exists() or run.about.get("status") == "finished"
    is_same = (begun or {}).get("weights_sha256") == (first or {}).get("weights_sha256")
    if not is_same and (first or not has_its_parameters):
        remedy = f"Say --start with the folder of {begun['folder']}." if begun else "Leave --start out, or choose another folder."
        raise RunError("the run was begun with other parameters", path=path, remedy=remedy)
    groups = ("graph", "walk", "walker", *(("scorer",) if needs_scorer(settings) else ()))
    scorer_runs.require_same_settings(run, settings, groups)
    return run


def _scorer_is_ready(
    path: Path, dataset: Dataset, settings: Settings, scorer_run: Path | None, make_watchers: MakeWatchers
) -> bool:
    """Put the scorer into the run folder; False if its training was interrupted."""
    folder = path / SCORER_FOLDER
    if scorer_run is None and STARTED_FROM in Run.open(path).about and (folder / "run.json").exists():
        return True  # the copy that was made when it began
    if scorer_run is not None:
        if not (folder / "run.json").exists():
            copy_run(scorer_run, folder)
        elif Run.open(folder).about != Run.open(scorer_run).about:
            remedy = "Go on without --reward, or choose another folder."
            raise RunError(f"the run has begun with another scorer than that of {scorer_run}", path=path, remedy=remedy)
        return True
    watchers = make_watchers("scorer", settings.scorer.epochs)
    return bool(
        scorer_runs.train_into(folder, dataset, settings, resume=True, watchers=watchers).about.get("status") == "finished"
    )


def _with_valid_learnt(dataset: Dataset) -> Dataset:
    """The data set with its dev facts in the graph and among the training questions, and so without dev questions."""
    questions = dataset.packing.merged([dataset.train, dataset.valid])
    return replace(dataset.with_valid_as_facts(), train=questions, valid=dataset.valid[:0])


def build_walker(dataset: Dataset, settings: Settings) -> Walker:
    """A walker on the facts of the data set, with an untrained policy."""
    size = len(dataset.entities), len(dataset.relations)
    graph = build_graph(dataset.facts, *size, settings.graph)
    return Walker(graph, Policy(*size, settings.walker), KnownAnswers([dataset.facts, dataset.train], *size))


def _blend_chosen(decoder: Decoder, dataset: Dataset, settings: Settings) -> dict[str, Any]:
    """The weight of paths in the blend: as the settings have it, or the best on dev, and what dev says of each weight."""
    said = settings.walker.blend_weight
    if needs_scorer(settings) and said >= 0:
        return {"blend_weight": said}
    questions = some_questions(questions_of(dataset, "valid"), settings.walker.dev_questions)
    if not needs_scorer(settings) or not len(questions):
        return {"blend_weight": 1.0 if needs_scorer(settings) else None}
    known = answers_to_leave_out(dataset, "valid")
    names = decoder.names(WEIGHTS)
    ranks = rank_answers_by(
        lambda heads, relations: decoder.scores(heads, relations, WEIGHTS),
        questions,
        known,
        names=names,
        num_entities=len(dataset.entities),
    )
    found = {name: metrics(part).mrr for name, part in ranks.items()}
    best = max(WEIGHTS, key=lambda weight: found[blend_name(weight)])
    return {"blend_weight": best, "valid_mrr_by": found}


def load_walker(path: str | Path) -> TrainedWalker:
    """The walker of a run folder, ready to walk."""
    run = Run.open(path)
    run.require_kind(WALKER, remedy=TRAINS_A_WALKER)
    settings, dataset = run.settings, run.dataset
    if not run.weights_path.exists():
        raise RunError("the walker is not trained yet", path=path, remedy="Go on with `hopwalk train … --resume`.")
    walker = build_walker(_with_valid_learnt(dataset) if settings.walker.learn_valid else dataset, settings)
    load_arrays(walker.policy, best_arrays(run, walker.policy, WALKER))
    walker.policy.eval()
    opinions, weight = None, None
    if needs_scorer(settings):
        Run.open(run.path / SCORER_FOLDER).require_same_data(dataset)
        # Whoever asks a question does not wait until those of all questions are computed.
        opinions = Opinions(scorer_runs.load_scorer(run.path / SCORER_FOLDER), most_kept_bytes=0)
        said = run.about.get("blend_weight", 1.0)
        if not isinstance(said, int | float):
            raise RunError("run.json is damaged: the weight of the blend cannot be read", path=run.path, remedy="Train it again.")
        weight = float(said)
    names = NameIndex(dataset.entities, "entity"), NameIndex(dataset.relations, "relation")
    return TrainedWalker(run, dataset, settings, walker, opinions, weight, *names)


def evaluate_walker(
    trained: TrainedWalker, split: str, *, complete_filter: bool = False, directions: Directions = "tails"
) -> dict[str, Evaluation]:
    """What a split says of the walker: ranked by paths, by their probability, by the scorer alone, and by the blend."""
    if split == "valid" and trained.settings.walker.learn_valid:
        raise DataError("the walker has learnt the dev facts, so it cannot be asked for them", remedy="Evaluate it on test.")
    decoder = trained.decoder
    weights = [] if trained.blend_weight is None else [trained.blend_weight]
    found = evaluate_split_by(
        lambda heads, relations: decoder.scores(heads, relations, weights),
        trained.dataset,
        split,
        names=decoder.names(weights),
        complete_filter=complete_filter,
        directions=directions,
    )
    return {BLEND if name.startswith(BLEND) else name: evaluation for name, evaluation in found.items()}
