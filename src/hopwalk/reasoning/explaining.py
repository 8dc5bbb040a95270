"""Why an entity is an answer, or why not: the paths behind its score, their rules, and where the walks lose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.reasoning.asking import PathLabels, may_be_itself, reasons
from hopwalk.reasoning.models import AnswerModel, Candidates, FactIds
from hopwalk.reasoning.names import Names, relation_label
from hopwalk.reasoning.probabilities import POOL, by_probability, probabilities
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import ReasoningPath, fact_text


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

    `rank` is its rank among all entities but the other known answers, None if no walk reaches it; then `why_not` says why.
    `probability` is that of the fact to be true, had it not been known.
    """

    head: str
    relation: str
    tail: str
    is_known: bool
    rank: int | None
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
        if self.rank is not None:
            likely = "" if self.probability is None else f" {100 * self.probability:.1f} % likely."
            lines.append(f"Rank {self.rank}.{likely}")
        if self.why_not:
            lines.append(f"Not reached: {self.why_not}.")
        return lines

    def __repr__(self) -> str:
        reasons = [line for reason in self.reasons for line in (f"  {reason.path}", f"    {reason.rule_text}")]
        return "\n".join([self.title, *self.lines, *reasons])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "is_known", "rank", "probability", "why_not")
        return {name: getattr(self, name) for name in names} | {"reasons": [reason.to_dict() for reason in self.reasons]}


def explain_fact(model: AnswerModel, fact: FactIds, *, num_paths: int) -> Explanation:
    """Why the tail of a fact answers `(head, relation, ?)`, or why not.

    The fact itself, if the graph has it, is hidden from its walks, and other known answers are not ranked.
    """
    head, relation, tail = fact
    dataset, asked = model.dataset, Triples.of([fact])
    ranking = model.rank_facts(asked)
    found = ranking.candidates[0]
    places = np.flatnonzero(found.entities == tail)
    rank, probability = (None, None) if not len(places) else _rank_and_probability(model, fact, found, int(places[0]))
    paths = [] if rank is None else reasons(relation, tail, ranking.paths([[tail]], num_paths)[0][0])
    return Explanation(
        head=dataset.entities.name(head),
        relation=Names(dataset).relation_name(relation),
        tail=dataset.entities.name(tail),
        is_known=bool(model.known.contains(asked.heads, asked.relations, asked.tails)[0]),
        rank=rank,
        probability=probability,
        reasons=_reasons(dataset, relation, PathLabels(dataset).paths(head, paths)),
        why_not=model.why_not(fact) if rank is None else "",
    )


def _rank_and_probability(model: AnswerModel, fact: FactIds, found: Candidates, place: int) -> tuple[int, float | None]:
    """The rank of a fact as `ask` gives it, and its probability, both as if it were not known; `place` is its place by score."""
    head, relation, tail = fact
    pool = np.union1d(np.arange(min(POOL, len(found.entities))), [place])
    candidates = found.part(pool)
    if not may_be_itself(model.dataset, relation) and tail != head:
        candidates = candidates.part(candidates.entities != head)
    chances = probabilities(model, [(head, relation)], [candidates], hidden=Triples.of([fact]))
    if chances is None:
        return place + 1, None
    own = int(np.flatnonzero(candidates.entities == tail)[0])
    in_order = candidates.entities[by_probability(candidates, chances[0])].tolist()
    return in_order.index(tail) + 1 if place < POOL else place + 1, float(chances[0][own])


def _reasons(dataset: Dataset, relation: int, paths: tuple[ReasoningPath, ...]) -> tuple[Reason, ...]:
    counter, (name, is_inverse) = RuleCounter(dataset.facts, dataset), relation_label(dataset, relation)
    rules = [Rule(name, tuple((edge.relation, edge.is_inverse) for edge in path.edges), is_inverse) for path in paths]
    return tuple(Reason(path, rule, counter.count(rule)) for path, rule in zip(paths, rules, strict=True))
