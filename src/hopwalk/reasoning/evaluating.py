"""Evaluation of a run on a split; and the control that shows what its policy has learnt."""

from __future__ import annotations

from pathlib import Path

from hopwalk.errors import SettingsError
from hopwalk.learning.evaluation import Evaluation, evaluate_split
from hopwalk.learning.ranking import Directions
from hopwalk.learning.run import Run
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.walker.runs import untrained

POLICY, SCORER = "policy", "scorer"  # what ranks: a walker's policy, or a scorer
UNTRAINED_POLICY = "untrained_policy"  # the control
SPLITS = ("valid", "test")


def evaluate_run(
    path: str | Path,
    split: str = "test",
    *,
    complete_filter: bool = False,
    directions: Directions | None = None,
    untrained_control: bool = False,
) -> dict[str, Evaluation]:
    """The evaluation of a run, as "policy" of a walker or "scorer", also written to `evaluation-SPLIT.json` in its folder.

    With `untrained_control` a walker is evaluated again with a random policy, as "untrained_policy": what is as good without
    training is not the policy's merit. Scorers are asked in both directions, walkers for tails, unless `directions` says so.
    """
    if split not in SPLITS:
        raise SettingsError(f"there is no split {split!r} to evaluate", remedy=f"Splits are {' and '.join(SPLITS)}.")
    run = Run.open(path)
    run.require_dev_unseen(split, remedy="Evaluate it on test.")
    model = load_model(run)
    directions = directions or ("tails" if isinstance(model, WalkerModel) else "both")
    scores = {POLICY if isinstance(model, WalkerModel) else SCORER: model.score_all_tails}
    if untrained_control:
        if not isinstance(model, WalkerModel):
            raise SettingsError("the untrained control is for walkers", path=path, remedy="Leave it out for a scorer.")
        scores[UNTRAINED_POLICY] = untrained(model.decoder, run.dataset).scores
    found = {
        name: evaluate_split(score, run.dataset, split, complete_filter=complete_filter, directions=directions)
        for name, score in scores.items()
    }
    suffix = "-complete" if complete_filter and split == "valid" else ""
    run.write_json(f"evaluation-{split}{suffix}.json", {name: evaluation.to_dict() for name, evaluation in found.items()})
    return found
