"""Why this answer, and why not: the paths that reach it, the rules they stand for, and where the walk loses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hopwalk.config.settings import GraphSettings
from hopwalk.data.graph import build_graph
from hopwalk.data.reachability import reached as within_reach
from hopwalk.reasoning.asking import (
    ROOM,
    PathsInWords,
    directed_relation_id,
    directed_relation_name,
    entity_id,
    relation_in_words,
)
from hopwalk.reasoning.html import explanation_fragment, for_notebook
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import Path, in_one_line
from hopwalk.walker.beam import Reached, beam_search, ranks_along
from hopwalk.walker.environment import Questions, training_questions
from hopwalk.walker.runs import TrainedWalker

WIDER = 16  # how many times as wide a beam looks for a path that the usual one lost


@dataclass(frozen=True)
class Reason:
    """A path to the answer, the rule it stands for, and how often that holds among the facts of the graph."""

    path: Path
    rule: Rule
    evidence: Evidence

    @property
    def told(self) -> str:
        """The rule, and how often it holds."""
        return f"{self.rule}: {self.evidence}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.evidence
        return self.path.to_dict() | {
            "rule": str(self.rule),
            "support": found.support,
            "predictions": found.predictions,
            "confidence": found.confidence,
            "is_sampled": found.is_sampled,
        }


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an entity is an answer of a question, or why not.

    `rank` is its place by the probability of paths among all entities but the other known answers, None if no path in the beam
    reaches it; then `why_not` says where the walk loses it, and `reasons` may hold a path that a wider beam finds.
    """

    head: str
    relation: str
    tail: str
    is_known: bool
    rank: int | None
    path_probability: float | None
    probability: float | None
    reasons: tuple[Reason, ...]
    why_not: str

    @property
    def title(self) -> str:
        """What is explained, and whether it is a fact of the graph."""
        return f"{in_one_line(self.head, self.relation, self.tail)}: {'a known fact' if self.is_known else 'not a known fact'}"

    @property
    def lines(self) -> list[str]:
        """What is said of the answer as a whole."""
        lines = []
        if self.probability is not None:
            lines.append(f"The scorer gives it a probability of {100 * self.probability:.1f} %.")
        if self.rank is not None and self.path_probability is not None:
            share = 100 * self.path_probability
            told = f"{share:.2f} %" if share >= 0.005 else "below 0.01 %"
            lines.append(f"Number {self.rank} by the probability of paths: {told}.")
        if self.why_not:
            lines.append(f"Not reached: {self.why_not}.")
        return lines

    def __repr__(self) -> str:
        reasons = [line for reason in self.reasons for line in (f"  {reason.path}", f"    {reason.told}")]
        return "\n".join([self.title, *self.lines, *reasons])

    def to_html(self) -> str:
        """A piece of HTML: what is said of it, its paths drawn, and their rules."""
        return explanation_fragment(self.title, self.lines, [(reason.path, reason.told) for reason in self.reasons])

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "is_known", "rank", "path_probability", "probability", "why_not")
        return {name: getattr(self, name) for name in names} | {"reasons": [reason.to_dict() for reason in self.reasons]}


def explain(trained: TrainedWalker, head: str, relation: str, tail: str, *, num_paths: int = 5) -> Explanation:
    """Why `tail` is an answer of `(head, relation, ?)`, or why not.

    The fact itself, if the graph has it, is not walked, and walks do not end at other known answers.
    """
    dataset, walker = trained.dataset, trained.walker
    ids = entity_id(trained, head), directed_relation_id(trained, relation), entity_id(trained, tail)
    columns = [np.array([id_], dtype=np.int32) for id_ in ids]
    questions = training_questions(walker.graph, *columns)
    log_odds = trained.opinions.log_odds(questions.heads, questions.relations) if trained.opinions else None
    found = _searched(trained, questions, log_odds, trained.settings.walk.beam, ROOM * num_paths)
    is_known = bool(walker.known.contains(*columns)[0])
    place = _place(found, ids[2])
    rank, why_not = None, ""
    if place is not None:
        others = set(walker.known.answers(columns[0], columns[1])[1].tolist()) - {ids[2]}
        rank = 1 + sum(entity not in others for entity in found.entities[:place].tolist())
        reasons = _reasons(trained, found, place, ids, num_paths)
    else:
        wider, why_not = _why_not(trained, questions, log_odds, ids, is_known)
        place_in_wider = _place(wider, ids[2]) if wider is not None else None
        reasons = () if wider is None or place_in_wider is None else _reasons(trained, wider, place_in_wider, ids, num_paths)
    return Explanation(
        head=dataset.entities.name(ids[0]),
        relation=directed_relation_name(dataset, ids[1]),
        tail=dataset.entities.name(ids[2]),
        is_known=is_known,
        rank=rank,
        path_probability=None if place is None else float(found.scores[place].exp()),
        probability=None if log_odds is None else float(torch.sigmoid(log_odds[0, ids[2]])),
        reasons=reasons,
        why_not=why_not,
    )


def _searched(trained: TrainedWalker, questions: Questions, log_odds: Any, beam: int, num_paths: int) -> Reached:
    hops, pooling = trained.settings.walk.hops, trained.settings.walker.pooling
    found = beam_search(trained.walker, questions, hops=hops, beam=beam, pooling=pooling, log_odds=log_odds)
    return found.reached(num_paths=num_paths)


def _place(found: Reached, entity: int) -> int | None:
    places = (found.entities == entity).nonzero()
    return int(places[0]) if len(places) else None


def _reasons(trained: TrainedWalker, found: Reached, place: int, ids: tuple[int, int, int], num_paths: int) -> tuple[Reason, ...]:
    dataset = trained.dataset
    counter, (name, is_inverse) = RuleCounter(dataset.facts, dataset), relation_in_words(dataset, ids[1])
    reasons = []
    for path in PathsInWords(dataset, found).to(place, ids[0], most=num_paths):
        rule = Rule(name, tuple((edge.relation, edge.is_inverse) for edge in path.edges), is_inverse)
        reasons.append(Reason(path, rule, counter.count(rule)))
    return tuple(reasons)


def _why_not(
    trained: TrainedWalker, questions: Questions, log_odds: Any, ids: tuple[int, int, int], is_known: bool
) -> tuple[Reached | None, str]:
    """Where the walk loses the entity; and what a wider beam finds, if it finds it."""
    hops, beam, graph = trained.settings.walk.hops, trained.settings.walk.beam, trained.walker.graph
    ends = np.array([ids[0]], dtype=np.int32), np.array([ids[2]], dtype=np.int32)
    if not within_reach(graph, *ends, hops)[0]:
        dataset = trained.dataset
        unlimited = GraphSettings(fan_out=max(2 * len(dataset.facts), 1))
        whole = build_graph(dataset.facts, len(dataset.entities), len(dataset.relations), unlimited)
        if within_reach(whole, *ends, hops)[0]:
            return None, f"the paths to it are cut by the fan-out limit of {trained.settings.graph.fan_out} (graph.fan_out)"
        return None, f"no path of at most {hops} hops leads there"
    wide = _searched(trained, questions, log_odds, WIDER * beam, 1)
    place = _place(wide, ids[2])
    if place is None:
        itself = " but the fact itself" if is_known else ""
        return None, f"no path{itself} leads there that a beam of {WIDER * beam:,} finds"
    trail = wide.paths[int(wide.path_offsets[place])].tolist()
    ranks = ranks_along(trained.walker, questions, trail, beam=beam, log_odds=log_odds)
    lost = next((hop for hop, rank in enumerate(ranks, start=1) if rank > beam), len(ranks))
    told = f"its best path is outranked at hop {lost} of {hops}: it is number {ranks[lost - 1]:,}, and the beam keeps {beam}"
    return wide, told
