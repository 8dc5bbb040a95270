"""Why an entity is an answer, or why not: the rules and paths behind its score, and where the walks lose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopwalk.data.triples import Triples
from hopwalk.reasoning.asking import PathLabels, reasons
from hopwalk.reasoning.missing_facts import MissingFact, find_missing_fact, standing_of
from hopwalk.reasoning.models import AnswerModel, FactIds, Ranking, ScorerModel
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.rule_groups import RuleGroup, cut_groups, group_lines, group_paths
from hopwalk.reasoning.values import fact_text
from hopwalk.reasoning.why_not import why_not_first

NUM_ANSWERS = 10  # of a list, if nothing else is said
SPARE = 3  # more paths are looked for than are shown, because some are instances of rules that never hold

UNLIKELY = 0.1  # an answer of a smaller probability may lack a fact


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an entity is an answer of a query, or why not.

    `rank` is its rank among all entities but the other known answers, None if no walk reaches it. `reasons` are the rules whose
    paths carry its score. `why_not` says in sentences why it is not the first answer, and `missing_fact` is a fact that would
    improve its rank, where one is found. `probability` is that of the fact to be true, had it not been known.
    """

    head: str
    relation: str
    tail: str
    is_known: bool
    rank: int | None
    probability: float | None
    reasons: tuple[RuleGroup, ...]
    why_not: str
    missing_fact: MissingFact | None = None

    @property
    def title(self) -> str:
        """The fact that is explained, and whether the graph has it."""
        return f"{fact_text(self.head, self.relation, self.tail)}: {'a known fact' if self.is_known else 'not a known fact'}"

    @property
    def lines(self) -> list[str]:
        """Sentences about the answer as a whole."""
        likely = "" if self.probability is None else f" {100 * self.probability:.1f} % likely."
        verdict = self.why_not or f"Rank {self.rank}."
        return [f"{verdict}{likely}", *([str(self.missing_fact)] if self.missing_fact else [])]

    def __repr__(self) -> str:
        return "\n".join([self.title, *self.lines, *(f"  {line}" for line in group_lines(self.reasons))])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "is_known", "rank", "probability", "why_not")
        return {name: getattr(self, name) for name in names} | {
            "missing_fact": self.missing_fact.to_dict() if self.missing_fact else None,
            "reasons": [group.to_dict() for group in self.reasons],
        }


def explain_fact(model: AnswerModel, fact: FactIds, *, num_paths: int, k: int = NUM_ANSWERS) -> Explanation:
    """Why the tail of a fact answers `(head, relation, ?)`, or why not.

    The fact itself, if the graph has it, is hidden from its walks, and other known answers are not ranked. The rank is that in a
    list of `k` new answers: a longer list looks at more candidates.
    """
    head, relation, tail = fact
    dataset, asked = model.dataset, Triples.of([fact])
    ranking = model.rank_facts(asked)
    standing = standing_of(model, fact, ranking, k)
    rank, probability = (None, None) if standing is None else (len(standing.better) + 1, standing.probability)
    is_known = bool(model.known.contains(asked.heads, asked.relations, asked.tails)[0])
    groups = () if rank is None else _groups(model, fact, ranking, num_paths)
    is_asked_why = not is_known and rank != 1 and (probability or 0.0) < UNLIKELY and _follows(model)
    return Explanation(
        head=dataset.entities.name(head),
        relation=Names(dataset).relation_name(relation),
        tail=dataset.entities.name(tail),
        is_known=is_known,
        rank=rank,
        probability=probability,
        reasons=groups,
        why_not=why_not_first(model, fact, rank, standing.better if standing else [], groups),
        missing_fact=find_missing_fact(model, fact, ranking, rank, k) if is_asked_why else None,
    )


def _groups(model: AnswerModel, fact: FactIds, ranking: Ranking, num_paths: int) -> tuple[RuleGroup, ...]:
    """The rules behind the tail of a fact, with at most so many paths in all."""
    head, relation, tail = fact
    found = reasons(head, relation, tail, ranking.paths([[tail]], max(num_paths, SPARE))[0][0])
    paths = PathLabels(model.dataset).paths(head, found)
    return cut_groups(group_paths(Names(model.dataset).relation_name(relation), paths, model.rule_counter.count), num_paths)


def _follows(model: AnswerModel) -> bool:
    """Whether answers change with the facts of the graph: they do not if an embedding model has a part in them."""
    return not isinstance(model, ScorerModel) or model.takes_new_entities
