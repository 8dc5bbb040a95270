"""Evaluation of a run on a split, by every ranking it has; and the control that shows what its policy has learnt."""

from __future__ import annotations

from pathlib import Path

from hopwalk.errors import SettingsError
from hopwalk.learning.evaluation import Evaluation, evaluate_split_by
from hopwalk.learning.ranking import Directions
from hopwalk.learning.run import Run
from hopwalk.scorers.runs import load_scorer
from hopwalk.walker.decoding import BLEND, SCORER, Decoder
from hopwalk.walker.runs import WALKER, load_decoder, untrained

UNTRAINED = "untrained_"  # prefix of the rankings of the control
SPLITS = ("valid", "test")


def evaluate_run(
    path: str | Path,
    split: str = "test",
    *,
    complete_filter: bool = False,
    directions: Directions = "tails",
    untrained_control: bool = False,
) -> dict[str, Evaluation]:
    """The evaluation of a run by each of its rankings, also written to `evaluation-SPLIT.json` in its folder.

    A scorer has the ranking "scorer"; it is evaluated in both directions. A walker has "policy", and if it has a scorer also
    "reranked", "scorer" and "blend". With `untrained_control` a walker's rankings are evaluated again with a random policy, as
    "untrained_policy" and so on: rankings that stay as good without training are not the policy's merit.
    """
    if split not in SPLITS:
        raise SettingsError(f"there is no split {split!r} to evaluate", remedy=f"Splits are {' and '.join(SPLITS)}.")
    run = Run.open(path)
    run.require_dev_unseen(split, remedy="Evaluate it on test.")
    if run.about["kind"] != WALKER:
        if untrained_control:
            raise SettingsError("the untrained control is for walkers", path=path, remedy="Leave it out for a scorer.")
        score = load_scorer(path).compact_scores
        found = evaluate_split_by(
            lambda heads, relations: {SCORER: score(heads, relations)},
            run.dataset,
            split,
            names=[SCORER],
            complete_filter=complete_filter,
            directions="both",
        )
        blend_weight = None
    else:
        decoder = load_decoder(run)
        found, blend_weight = _evaluate(decoder, run, split, complete_filter, directions), decoder.blend_weight
        if untrained_control:
            control = _evaluate(untrained(decoder, run.dataset), run, split, complete_filter, directions)
            found |= {f"{UNTRAINED}{name}": evaluation for name, evaluation in control.items() if name != SCORER}
    content = {name: evaluation.to_dict() for name, evaluation in found.items()}
    suffix = "-complete" if complete_filter and split == "valid" else ""
    run.write_json(f"evaluation-{split}{suffix}.json", content | {"blend_weight": blend_weight})
    return found


def _evaluate(decoder: Decoder, run: Run, split: str, complete_filter: bool, directions: Directions) -> dict[str, Evaluation]:
    weights = [] if decoder.blend_weight is None else [decoder.blend_weight]
    found = evaluate_split_by(
        lambda heads, relations: decoder.scores(heads, relations, weights),
        run.dataset,
        split,
        names=decoder.rankings(weights),
        complete_filter=complete_filter,
        directions=directions,
    )
    return {BLEND if name.startswith(BLEND) else name: evaluation for name, evaluation in found.items()}
