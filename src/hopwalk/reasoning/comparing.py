"""Two runs on the same questions: which is better, how sure that is, where they differ, and what they say there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from hopwalk.data.dataset import Dataset
from hopwalk.errors import DataError, RunError, SettingsError
from hopwalk.learning.ranking import (
    Difference,
    Floats,
    answers_to_leave_out,
    paired_bootstrap,
    questions_of,
    rank_answers,
    rank_answers_by,
)
from hopwalk.learning.run import Run
from hopwalk.reasoning.asking import ROOM, PathsInWords
from hopwalk.reasoning.values import Path as Walk
from hopwalk.scorers import runs as scorer_runs
from hopwalk.walker.decoding import BLEND, PATHS, PROBABILITY, SCORER
from hopwalk.walker.environment import Questions
from hopwalk.walker.runs import WALKER, TrainedWalker, load_walker

By = Literal["paths", "probability", "scorer", "blend"]
SURE = 0.05  # a difference that chance shows less often than this is called one


@dataclass(frozen=True)
class RelationChange:
    """What became of the questions of a relation: their number, both MRRs, and their part in the difference of all."""

    relation: str
    num_questions: int
    first: float
    second: float
    share: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"relation": self.relation, "num_questions": self.num_questions, "first": self.first, "second": self.second}
        return own | {"share_of_difference": self.share}


@dataclass(frozen=True)
class Example:
    """A question that the runs rank differently: rank of its answer in both, None if it is not reached, and its best paths."""

    head: str
    relation: str
    tail: str
    first_rank: float | None
    second_rank: float | None
    first_path: Walk | None
    second_path: Walk | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"head": self.head, "relation": self.relation, "tail": self.tail}
        ranks = {"first_rank": self.first_rank, "second_rank": self.second_rank}
        paths = {"first_path": self.first_path, "second_path": self.second_path}
        return own | ranks | {name: path.to_dict() if path else None for name, path in paths.items()}


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. Differences are the second run less the first; `won` are questions that the second ranks higher."""

    runs: tuple[str, str]
    ranked_by: tuple[str, str]
    dataset: str
    split: str
    num_questions: int
    differences: dict[str, Difference]
    num_won: int
    num_lost: int
    relations: tuple[RelationChange, ...]
    won: tuple[Example, ...]
    lost: tuple[Example, ...]

    @property
    def verdict(self) -> str:
        """Which run is better, said plainly."""
        mrr = self.differences["mrr"]
        sign = -1 if mrr.value < 0 and mrr.p_value < SURE else 1
        low, high = sorted(100 * sign * bound for bound in mrr.interval)
        sure = f"(95 % interval {low:.2f} to {high:.2f}, p {p_text(mrr.p_value)})"
        if mrr.p_value >= SURE or mrr.value == 0:
            return f"No clear difference: {100 * mrr.value:+.2f} points of MRR {sure}; chance alone may well do that."
        better = "second" if mrr.value > 0 else "first"
        return f"The {better} run is better by {100 * abs(mrr.value):.2f} points of MRR {sure}; chance alone rarely does that."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "runs": list(self.runs),
            "ranked_by": list(self.ranked_by),
            "dataset": self.dataset,
            "split": self.split,
            "num_questions": self.num_questions,
            "differences": {name: found.to_dict() for name, found in self.differences.items()},
            "verdict": self.verdict,
            "num_won": self.num_won,
            "num_lost": self.num_lost,
            "relations": [change.to_dict() for change in self.relations],
            "won": [example.to_dict() for example in self.won],
            "lost": [example.to_dict() for example in self.lost],
        }


def p_text(p_value: float) -> str:
    """A p-value for people; the draws tell none below a thousandth apart.

    >>> p_text(0.0314), p_text(0.0005)
    ('= 0.031', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"


def compare(
    first: str | Path, second: str | Path, split: str = "test", *, by: Sequence[By] = ("paths",), num_examples: int = 5
) -> Comparison:
    """Rank the tails of a split by two runs of the same data, and draw the questions anew to see what is chance.

    `by` says how walkers rank, one word for both runs or one for each; a scorer's run has one ranking only.
    """
    if split not in ("valid", "test"):
        raise SettingsError(f"there is no split {split!r} to compare on", remedy="Splits are valid and test.")
    words = [*by] * 2 if len(by) == 1 else [*by]
    if len(words) != 2 or any(word not in get_args(By) for word in words):
        raise SettingsError(
            f"cannot rank by {','.join(by)!r}", remedy="Say paths, probability, scorer or blend; or two of them, as paths,blend."
        )
    sides = [_Side(run, word, split) for run, word in zip((first, second), words, strict=True)]
    dataset = sides[0].run.dataset
    if sides[1].run.about.get("dataset", {}).get("fingerprint") != dataset.fingerprint:
        raise RunError(
            f"the runs have other data: {dataset.name} and {sides[1].run.about.get('dataset', {}).get('name')} "
            "differ in labels or facts",
            path=second,
            remedy="Compare runs that were trained on the same data set.",
        )
    if not len(dataset.splits[split]):
        raise DataError(f"{dataset.name} has no {split} questions", remedy="Compare on the other split.")
    ranks = [side.ranks(dataset, split) for side in sides]
    values = [{"mrr": 1 / found, **{f"hits@{k}": (found <= k).astype(float) for k in (1, 10)}} for found in ranks]
    change = values[1]["mrr"] - values[0]["mrr"]
    return Comparison(
        runs=(str(first), str(second)),
        ranked_by=(sides[0].by, sides[1].by),
        dataset=dataset.name,
        split=split,
        num_questions=len(change),
        differences=paired_bootstrap(values[0], values[1]),
        num_won=int((change > 0).sum()),
        num_lost=int((change < 0).sum()),
        relations=_relations(dataset, split, values[0]["mrr"], values[1]["mrr"]),
        won=tuple(_example(dataset, split, sides, ranks, row) for row in _largest(dataset, split, change, num_examples)),
        lost=tuple(_example(dataset, split, sides, ranks, row) for row in _largest(dataset, split, -change, num_examples)),
    )


class _Side:
    """One of the two runs: what ranks with it, loaded once."""

    def __init__(self, path: str | Path, by: str, split: str) -> None:
        self.run = Run.open(path)
        self.walker: TrainedWalker | None = None
        group = "walker" if self.run.about["kind"] == WALKER else "scorer"
        if split == "valid" and getattr(self.run.settings, group).learn_valid:
            raise DataError(
                "the run has learnt the dev facts, so it cannot be asked for them", path=path, remedy="Compare on test."
            )
        if group == "scorer":
            self.by = SCORER
            return
        self.walker, self.by = load_walker(path), by
        if by not in (PATHS, PROBABILITY) and self.walker.opinions is None:
            raise RunError(f"the walker has no scorer, so it cannot be ranked by {by}", path=path, remedy="Compare --by paths.")

    def ranks(self, dataset: Dataset, split: str) -> Floats:
        """The realistic rank of every question's answer; infinity where it is not reached."""
        questions, known = questions_of(dataset, split), answers_to_leave_out(dataset, split)
        if self.walker is None:
            scorer = scorer_runs.load_scorer(self.run.path)
            return rank_answers(scorer.numpy_scores, questions, known, num_entities=len(dataset.entities)).realistic
        decoder = self.walker.decoder
        weights = [self.walker.blend_weight or 0.0] if self.by == BLEND else []
        names = {name.partition(" ")[0]: name for name in decoder.names(weights)}
        name = names.get(self.by, PATHS)  # where the reward does not count, paths have nothing but their probability
        return rank_answers_by(
            lambda heads, relations: {name: decoder.scores(heads, relations, weights)[name]},
            questions,
            known,
            names=[name],
            num_entities=len(dataset.entities),
        )[name].realistic

    def best_path(self, head: int, relation: int, tail: int) -> Walk | None:
        """The likeliest path to the answer; None if no walk of the beam gets there, or nobody walks."""
        if self.walker is None:
            return None
        questions = Questions(torch.tensor([head]), torch.tensor([relation]))
        reached = self.walker.decoder.reached(questions, num_paths=ROOM)
        places = (reached.entities == tail).nonzero()
        return PathsInWords(self.walker.dataset, reached).to(int(places[0]), head)[0] if len(places) else None


def _relations(dataset: Dataset, split: str, first: Floats, second: Floats) -> tuple[RelationChange, ...]:
    """What became of every relation, what matters most for the whole first."""
    asked = dataset.splits[split].relations
    found = []
    for relation in np.unique(asked).tolist():
        rows = asked == relation
        share = float((second - first)[rows].sum() / len(asked))
        means = float(first[rows].mean()), float(second[rows].mean())
        found.append(RelationChange(dataset.relations.name(relation), int(rows.sum()), *means, share))
    return tuple(sorted(found, key=lambda change: -abs(change.share)))


def _largest(dataset: Dataset, split: str, gains: Floats, most: int) -> list[int]:
    """The questions with the largest gains, one of each (head, relation), and no more than needed of one relation."""
    asked = dataset.splits[split]
    chosen: list[int] = []
    seen: set[tuple[int, int]] = set()
    of_relation: dict[int, int] = {}
    for row in np.argsort(-gains, kind="stable").tolist():
        if gains[row] <= 0 or len(chosen) == most:
            break
        pair = int(asked.heads[row]), int(asked.relations[row])
        if pair not in seen and of_relation.get(pair[1], 0) < max(most // 2, 1):
            chosen.append(row)
            seen.add(pair)
            of_relation[pair[1]] = of_relation.get(pair[1], 0) + 1
    return chosen


def _example(dataset: Dataset, split: str, sides: Sequence[_Side], ranks: Sequence[Floats], row: int) -> Example:
    asked = dataset.splits[split]
    ids = int(asked.heads[row]), int(asked.relations[row]), int(asked.tails[row])
    places = [None if np.isinf(found[row]) else float(found[row]) for found in ranks]
    paths = [side.best_path(*ids) for side in sides]
    names = dataset.entities.name(ids[0]), dataset.relations.name(ids[1]), dataset.entities.name(ids[2])
    return Example(*names, places[0], places[1], paths[0], paths[1])
