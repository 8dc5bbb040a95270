"""Why an entity is an answer, or why not: the paths that reach it, their rules, and where the walk loses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hopwalk.config.settings import GraphSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.reachability import reached as within_reach
from hopwalk.reasoning.asking import SPARE, PathLabels
from hopwalk.reasoning.names import Names, relation_label
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import ReasoningPath, fact_text
from hopwalk.walker.beam import Reached, ranks_along
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import Queries, training_queries

WIDER = 16  # how many times as wide a beam looks for a path that the usual one lost
FactIds = tuple[int, int, int]  # head, relation, tail


@dataclass(frozen=True)
class Reason:
    """A path to the answer, the rule it is an instance of, and how often that rule holds in the graph."""

    path: ReasoningPath
    rule: Rule
    evidence: Evidence

    @property
    def rule_text(self) -> str:
        """The rule, and how often it holds."""
        return f"{self.rule}: {self.evidence}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        evidence = self.evidence
        return self.path.to_dict() | {
            "rule": str(self.rule),
            "support": evidence.support,
            "predictions": evidence.predictions,
            "confidence": evidence.confidence,
            "is_sampled": evidence.is_sampled,
        }


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an entity is an answer of a query, or why not.

    `rank` is its rank by the policy among all entities but the other known answers, None if no path in the beam reaches it; then
    `why_not` says where the walk loses it, and `reasons` may hold a path that a wider beam finds.
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
        """The fact that is explained, and whether the graph has it."""
        return f"{fact_text(self.head, self.relation, self.tail)}: {'a known fact' if self.is_known else 'not a known fact'}"

    @property
    def lines(self) -> list[str]:
        """Sentences about the answer as a whole."""
        lines = []
        if self.probability is not None:
            lines.append(f"The scorer gives it a probability of {100 * self.probability:.1f} %.")
        if self.rank is not None and self.path_probability is not None:
            percent = 100 * self.path_probability
            shown = f"{percent:.2f} %" if percent >= 0.005 else "below 0.01 %"
            lines.append(f"Rank {self.rank} by the probability of its paths, which is {shown}.")
        if self.why_not:
            lines.append(f"Not reached: {self.why_not}.")
        return lines

    def __repr__(self) -> str:
        reasons = [line for reason in self.reasons for line in (f"  {reason.path}", f"    {reason.rule_text}")]
        return "\n".join([self.title, *self.lines, *reasons])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "is_known", "rank", "path_probability", "probability", "why_not")
        return {name: getattr(self, name) for name in names} | {"reasons": [reason.to_dict() for reason in self.reasons]}


def explain_fact(decoder: Decoder, dataset: Dataset, fact: FactIds, *, num_paths: int) -> Explanation:
    """Why the tail of a fact answers `(head, relation, ?)`, or why not.

    The fact itself, if the graph has it, is hidden from the walks, and walks do not end at other known answers.
    """
    head, relation, tail = fact
    columns = [np.array([id_], dtype=np.int32) for id_ in fact]
    known = decoder.environment.known
    queries = training_queries(decoder.environment.graph, *columns)
    scorer_logits = decoder.logits(queries)
    found = decoder.search(queries, scorer_logits).reached(num_paths=SPARE * num_paths)
    is_known = bool(known.contains(*columns)[0])
    place = _place(found, tail)
    rank, why_not = None, ""
    reasons: tuple[Reason, ...] = ()
    if place is not None:
        others = set(known.answers(columns[0], columns[1])[1].tolist()) - {tail}
        rank = 1 + sum(entity not in others for entity in found.entities[:place].tolist())
        reasons = _reasons(dataset, found, place, fact, num_paths)
    else:
        wider, why_not = _why_not(decoder, dataset, queries, scorer_logits, fact, is_known)
        place_in_wider = _place(wider, tail) if wider is not None else None
        if wider is not None and place_in_wider is not None:
            reasons = _reasons(dataset, wider, place_in_wider, fact, num_paths)
    return Explanation(
        head=dataset.entities.name(head),
        relation=Names(dataset).relation_name(relation),
        tail=dataset.entities.name(tail),
        is_known=is_known,
        rank=rank,
        path_probability=None if place is None else float(found.scores[place].exp()),
        probability=None if scorer_logits is None else float(torch.sigmoid(scorer_logits[0, tail])),
        reasons=reasons,
        why_not=why_not,
    )


def _place(found: Reached, entity: int) -> int | None:
    places = (found.entities == entity).nonzero()
    return int(places[0]) if len(places) else None


def _reasons(dataset: Dataset, found: Reached, place: int, fact: FactIds, num_paths: int) -> tuple[Reason, ...]:
    counter, (name, is_inverse) = RuleCounter(dataset.facts, dataset), relation_label(dataset, fact[1])
    reasons = []
    for path in PathLabels(dataset, found).to(place, fact[0], most=num_paths):
        rule = Rule(name, tuple((edge.relation, edge.is_inverse) for edge in path.edges), is_inverse)
        reasons.append(Reason(path, rule, counter.count(rule)))
    return tuple(reasons)


def _why_not(
    decoder: Decoder, dataset: Dataset, queries: Queries, scorer_logits: Tensor | None, fact: FactIds, is_known: bool
) -> tuple[Reached | None, str]:
    """Where the walk loses the entity, and the result of a wider beam if that finds it."""
    settings, graph = decoder.settings, decoder.environment.graph
    hops, beam = settings.walk.hops, settings.walk.beam
    ends = np.array([fact[0]], dtype=np.int32), np.array([fact[2]], dtype=np.int32)
    if not within_reach(graph, *ends, hops)[0]:
        unlimited = GraphSettings(fan_out=max(2 * len(dataset.facts), 1))
        whole = build_graph(dataset.facts, len(dataset.entities), len(dataset.relations), unlimited)
        if within_reach(whole, *ends, hops)[0]:
            return None, f"the paths to it are cut by the fan-out limit of {settings.graph.fan_out} (graph.fan_out)"
        return None, f"no path of at most {hops} hops leads there"
    wide = decoder.search(queries, scorer_logits, beam=WIDER * beam).reached()
    place = _place(wide, fact[2])
    if place is None:
        itself = " but the fact itself" if is_known else ""
        return None, f"no path{itself} leads there that a beam of {WIDER * beam:,} finds"
    path = wide.paths[int(wide.path_offsets[place])].tolist()
    ranks = ranks_along(decoder.environment, queries, path, beam=beam, scorer_logits=scorer_logits)
    lost = next((hop for hop, rank in enumerate(ranks, start=1) if rank > beam), len(ranks))
    return wide, f"its best path is lost at hop {lost} of {hops}: it has rank {ranks[lost - 1]:,}, and the beam keeps {beam}"
