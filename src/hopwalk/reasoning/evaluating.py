"""Evaluation of a run on a split, the control that shows what its policy has learnt, and the faithfulness of its paths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hopwalk.errors import RunError, SettingsError
from hopwalk.learning.candidates import MOST_QUERIES
from hopwalk.learning.evaluation import Evaluation, evaluate_split
from hopwalk.learning.fact_task import FactEvaluation, evaluate_facts, read_task, sampled_task
from hopwalk.learning.probability_fit import measure_probability
from hopwalk.learning.ranking import Directions
from hopwalk.learning.reliability import FactReliability
from hopwalk.learning.run import Run
from hopwalk.reasoning.faithfulness import BETWEEN, NAMES, NEARBY, PATHS, Faithfulness, measure_faithfulness
from hopwalk.reasoning.loading import load_model
from hopwalk.reasoning.sharding import RankedBy, ranks_on, scores_by
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.scorers.card import reliability_svg
from hopwalk.utils.charts import Series, line_chart
from hopwalk.utils.places import Place
from hopwalk.walker.runs import PROBABILITY_QUERIES

POLICY, SCORER = "policy", "scorer"  # what ranks: a walker's policy, or a scorer
UNTRAINED_POLICY = "untrained_policy"  # the control
AS_ASKED = "as_asked"  # ranked by probability, as `ask` does
SPLITS = ("valid", "test")


def evaluate_run(
    path: str | Path,
    split: str = "test",
    *,
    complete_filter: bool = False,
    directions: Directions | None = None,
    untrained_control: bool = False,
    as_asked: bool = False,
    place: Place | None = None,
) -> dict[str, Evaluation]:
    """The evaluation of a run, as "policy" of a walker or "scorer", also written to `evaluation-SPLIT.json` in its folder.

    With `untrained_control` a walker is evaluated again with a random policy, as "untrained_policy": what is as good without
    training is not the policy's merit. With `as_asked` answers are ranked once more as `ask` shows them, by the probability that
    sees facts from both ends, as "as_asked"; that takes about twenty times as long. Scorers are asked in both directions, walkers
    for tails, unless `directions` says so. At a `place` that is not this process, queries are ranked there in shards.
    """
    run = _open(path, split)
    model = load_model(run)
    directions = directions or ("tails" if isinstance(model, WalkerModel) else "both")
    rankings: dict[str, RankedBy] = {POLICY if isinstance(model, WalkerModel) else SCORER: "scores"}
    if as_asked:
        rankings[AS_ASKED] = "probability"
    if untrained_control:
        if not isinstance(model, WalkerModel):
            raise SettingsError("the untrained control is for walkers", path=path, remedy="Leave it out for a scorer.")
        rankings[UNTRAINED_POLICY] = "untrained"
    found = {}
    for name, by in rankings.items():
        score, rank = scores_by(by, model, run.dataset), None
        if place is not None and not place.is_here:
            rank = partial(ranks_on, place, run, split=split, complete_filter=complete_filter, by=by)
        found[name] = evaluate_split(score, run.dataset, split, complete_filter=complete_filter, directions=directions, rank=rank)
    suffix = "-complete" if complete_filter and split == "valid" else ""
    with run.adding():
        run.write_json(f"evaluation-{split}{suffix}.json", {name: evaluation.to_dict() for name, evaluation in found.items()})
    return found


def evaluate_facts_of_run(
    path: str | Path, split: str = "test", *, num_negatives: int = 10, seed: int = 0, negatives: str | Path | None = None
) -> FactEvaluation:
    """How a run ranks the facts of a split among false ones: sampled, or those of the list `negatives` with its true ones.

    Also written to `facts-SPLIT.json` in the run folder, and to its card.
    """
    run = _open(path, split)
    if negatives is None:
        task = sampled_task(run.dataset, split, num_negatives=num_negatives, seed=seed)
    else:
        task = read_task(Path(negatives), run.dataset)
    found = evaluate_facts(task, load_model(run).score_facts(task.facts), run.dataset, split)
    with run.adding():
        run.write_json(f"facts-{split}.json", found.to_dict())
        _add_to_card(run, f"Ranking of the facts of {split}", found.lines())
    return found


def reliability_of_run(path: str | Path) -> FactReliability:
    """How true the probabilities of a run are on the facts of test, which had no part in fitting them.

    Also written to `reliability-test.json` and, as a chart, to `reliability-test.svg` in the run folder, and to its card.
    """
    run = _open(path, "test")
    model = load_model(run)
    found = None
    if model.probability is not None:
        most = PROBABILITY_QUERIES if isinstance(model, WalkerModel) else MOST_QUERIES
        found = measure_probability(model.score_all_tails, model.probability, model.dataset, most_queries=most)
    if found is None:
        raise RunError("there is nothing to compare: the run has no probabilities, or test too few facts", path=run.path)
    with run.adding():
        run.write_json("reliability-test.json", found.to_dict())
        run.write_text("reliability-test.svg", reliability_svg(found.bins))
        picture = "![Share of true candidates by predicted probability](reliability-test.svg)"
        _add_to_card(run, "Probabilities on test", [*found.lines(), "", picture])
    return found


def faithfulness_of_run(
    path: str | Path, split: str = "test", *, num_queries: int = 500, num_paths: int = 3, seed: int = 0
) -> Faithfulness:
    """How far the right answers of a run fall without the paths that it shows for them.

    Also written to `faithfulness-SPLIT.json` and, as a chart, to `faithfulness-SPLIT.svg` in the run folder, and to its card.
    """
    run = _open(path, split)
    found = measure_faithfulness(load_model(run), split, num_queries=num_queries, num_paths=num_paths, seed=seed)
    picture = f"![Score lost without the shown paths and without random facts](faithfulness-{found.split}.svg)"
    with run.adding():
        run.write_json(f"faithfulness-{split}.json", found.to_dict())
        run.write_text(f"faithfulness-{split}.svg", faithfulness_chart(found))
        _add_to_card(run, f"Faithfulness of the paths on {found.split}", [*found.lines(), "", picture])
    return found


def faithfulness_chart(found: Faithfulness) -> str:
    """The distribution of what answers lose without the shown paths and without random facts, as SVG."""
    lines = []
    for name in (PATHS, NEARBY, BETWEEN):
        deciles = enumerate(found.effects[name].deciles)
        lines.append(Series(NAMES[name], [(10.0 * number, 100 * drop) for number, drop in deciles]))
    title = f"{found.dataset}, {found.split}: what right answers lose"
    return line_chart(title, lines, x_label="answers, from the least loss (%)", y_label="score lost (%)")


def _add_to_card(run: Run, heading: str, lines: Sequence[str]) -> None:
    """Write a section into the card, in the place of an earlier one with the same heading."""
    card = run.card
    if not card:
        return
    title = f"## {heading}"
    before, _, after = card.partition(f"\n{title}\n")
    rest = "".join(f"\n## {part}" for part in after.split("\n## ")[1:])
    section = f"\n{title}\n\n" + "\n".join(lines) + "\n"
    run.write_text("card.md", before.rstrip("\n") + "\n" + section + rest)


def _open(path: str | Path, split: str) -> Run:
    """The run, if it may be evaluated on the split."""
    if split not in SPLITS:
        raise SettingsError(f"there is no split {split!r} to evaluate", remedy=f"Splits are {' and '.join(SPLITS)}.")
    run = Run.open(path)
    run.require_dev_unseen(split, remedy="Evaluate it on test.")
    return run
