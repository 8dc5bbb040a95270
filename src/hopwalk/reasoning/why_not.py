"""Why an entity is not the first answer, in sentences: out of reach, pruned, without a rule that holds, or behind others."""

from __future__ import annotations

from collections.abc import Sequence

from hopwalk.reasoning.models import AnswerModel, FactIds
from hopwalk.reasoning.rule_groups import RuleGroup

MOST_NAMED = 3  # better answers


def why_not_first(model: AnswerModel, fact: FactIds, rank: int | None, better: Sequence[int], groups: Sequence[RuleGroup]) -> str:
    """Sentences about the tail of a fact that has a rank behind `better` entities, the best first; empty if it is the first."""
    if rank is None:
        return _sentence(model.why_not(fact))
    if rank == 1:
        return ""
    sentences = [f"Rank {rank:,}, behind {_named(model, better)}."]
    if groups and not any(group.evidence.holds for group in groups):
        sentences.append("No rule behind its paths ever holds in the graph.")
    elif not groups and model.max_hops:
        sentences.append(f"{_sentence(model.why_not(fact))[:-1]}; its rank does not come from walks.")
    return " ".join(sentences)


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}."


def _named(model: AnswerModel, entities: Sequence[int]) -> str:
    """The best of some entities by name, and how many others there are.

    Some names are enough: A; A and B; A, B and C; A, B, C and 24 others.
    """
    named = [model.dataset.entities.name(entity) for entity in entities[:MOST_NAMED]]
    rest = len(entities) - len(named)
    if rest:
        return f"{', '.join(named)} and {rest:,} {'other' if rest == 1 else 'others'}"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
