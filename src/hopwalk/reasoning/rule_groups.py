"""The paths to an answer, grouped by the rule they are instances of: the rule once, with how often it is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hopwalk.reasoning.rules import Evidence, Rule
from hopwalk.reasoning.values import INVERSE, ReasoningPath

NEVER_HOLDS = "by paths whose rules never hold in the graph"
NOTHING_HOLDS = "No rule behind these paths ever holds in the graph."

Count = Callable[[Rule], Evidence]


@dataclass(frozen=True)
class RuleGroup:
    """A rule, how often it is right in the graph, and the paths to one answer that are instances of it, the best first."""

    rule: Rule
    evidence: Evidence
    paths: tuple[ReasoningPath, ...]

    @property
    def share(self) -> float:
        """The part of the answer's score that its paths carry together."""
        return sum(path.share for path in self.paths)

    @property
    def rule_text(self) -> str:
        """The rule, and how often it is right."""
        return f"{self.rule}: {self.evidence}"

    @property
    def lines(self) -> list[str]:
        """The rule, and below it each path with its share."""
        return [self.rule_text, *(f"  {share_text(path.share)}  {path}" for path in self.paths)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        evidence = self.evidence
        return {
            "rule": str(self.rule),
            "support": evidence.support,
            "predictions": evidence.predictions,
            "confidence": evidence.confidence,
            "is_sampled": evidence.is_sampled,
            "share": self.share,
            "paths": [path.to_dict() for path in self.paths],
        }


def rule_of(relation: str, path: ReasoningPath) -> Rule:
    """The rule that a path is an instance of, if it answers a relation, or with ⁻¹ at its end an inverse."""
    name = relation.removesuffix(INVERSE)
    return Rule(name, tuple((edge.relation, edge.is_inverse) for edge in path.edges), name != relation)


def group_paths(relation: str, paths: Iterable[ReasoningPath], count: Count) -> tuple[RuleGroup, ...]:
    """The paths to an answer by their rules: first the rule that carries most of the score, last those that never hold."""
    by_rule: dict[Rule, list[ReasoningPath]] = {}
    for path in paths:
        by_rule.setdefault(rule_of(relation, path), []).append(path)
    groups = [RuleGroup(rule, count(rule), tuple(sorted(some, key=lambda path: -path.share))) for rule, some in by_rule.items()]
    return tuple(sorted(groups, key=lambda group: (not group.evidence.holds, -group.share)))


def cut_groups(groups: Sequence[RuleGroup], most: int) -> tuple[RuleGroup, ...]:
    """The groups with at most so many paths in all: the best of each rule in turn, so that rules are shown before variants."""
    turns = sorted(
        ((turn, place) for place, group in enumerate(groups) for turn in range(len(group.paths))),
        key=lambda one: (not groups[one[1]].evidence.holds, *one),
    )
    kept = [place for _, place in turns[:most]]
    cut = (RuleGroup(group.rule, group.evidence, group.paths[: kept.count(place)]) for place, group in enumerate(groups))
    return tuple(group for group in cut if group.paths)


def shown_groups(groups: Sequence[RuleGroup]) -> tuple[tuple[RuleGroup, ...], str]:
    """The groups to show, and a sentence about the others.

    Rules that never hold are no reasons: they are shown only if nothing else carries the score; else their share is named.
    """
    holding = tuple(group for group in groups if group.evidence.holds)
    if not holding:
        return tuple(groups), NOTHING_HOLDS if groups else ""
    rest = sum(group.share for group in groups if not group.evidence.holds)
    return holding, f"{share_text(rest)} {NEVER_HOLDS}" if rest >= 0.005 else ""


def group_lines(groups: Sequence[RuleGroup]) -> list[str]:
    """The groups as lines of text, with a sentence about those that are not shown."""
    shown, note = shown_groups(groups)
    lines = [line for group in shown for line in group.lines]
    return [note, *lines] if note == NOTHING_HOLDS else [*lines, *([note] if note else [])]


def share_text(share: float) -> str:
    """The part that a path has in a score: not a probability, so without a per cent sign.

    >>> share_text(0.4213), share_text(0.0004), share_text(0.0)
    ('share 0.42', 'share < 0.01', 'share 0.00')
    """
    return "share < 0.01" if 0 < share < 0.005 else f"share {max(share, 0.0):.2f}"
