"""The rules that a walker uses for a relation: those its paths stand for, over many questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.reasoning.asking import PathsInWords, directed_relation_id, relation_in_words
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import Path
from hopwalk.walker.environment import training_questions
from hopwalk.walker.runs import TrainedWalker

QUESTIONS_AT_ONCE = 16


@dataclass(frozen=True)
class UsedRule:
    """A rule, how often it holds in the graph, and how much the walker uses it.

    `weight` is its share of the probability of all paths looked at, `questions` the number of questions it helps to answer.
    """

    rule: Rule
    evidence: Evidence
    weight: float
    questions: int
    examples: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rule": str(self.rule),
            "weight": self.weight,
            "questions": self.questions,
            "support": self.evidence.support,
            "predictions": self.evidence.predictions,
            "confidence": self.evidence.confidence,
            "is_sampled": self.evidence.is_sampled,
            "examples": [str(path) for path in self.examples],
        }


@dataclass
class _Use:
    probability: float = 0.0
    questions: set[int] = field(default_factory=set)
    examples: list[Path] = field(default_factory=list)


def used_rules(
    trained: TrainedWalker,
    relation: str,
    *,
    split: str = "",
    k: int = 20,
    most_questions: int = 200,
    answers: int = 5,
    num_paths: int = 3,
    num_examples: int = 3,
) -> list[UsedRule]:
    """The `k` rules that the walker uses most for a relation; `relation⁻¹` is its inverse.

    Looked at are the best paths of the best answers of its dev questions, or of its training questions where dev has none or
    `split` says "train"; the fact that is asked is not walked.
    """
    dataset = trained.dataset
    relation_id = directed_relation_id(trained, relation)
    name, is_inverse = relation_in_words(dataset, relation_id)
    asked = _questions(trained, relation_id, is_inverse, split, most_questions)
    uses: dict[Rule, _Use] = {}
    at_once = min(QUESTIONS_AT_ONCE, trained.decoder.questions_at_once)
    for first in range(0, len(asked), at_once):
        part = asked[first : first + at_once]
        questions = training_questions(trained.walker.graph, part.heads, part.relations, part.tails)
        found = trained.decoder.reached(questions, num_paths=num_paths, blocks_known=False)
        paths = PathsInWords(dataset, found)
        for row, head in enumerate(part.heads.tolist()):
            best = range(int(found.offsets[row]), min(int(found.offsets[row + 1]), int(found.offsets[row]) + answers))
            for place in best:
                for path in paths.to(place, head):
                    rule = Rule(name, tuple((edge.relation, edge.is_inverse) for edge in path.edges), is_inverse)
                    use = uses.setdefault(rule, _Use())
                    use.probability += float(np.exp(path.log_prob))
                    use.questions.add(first + row)
                    if len(use.examples) < num_examples:
                        use.examples.append(path)
    total, counter = sum(use.probability for use in uses.values()) or 1.0, RuleCounter(dataset.facts, dataset)
    most = sorted(uses.items(), key=lambda item: -item[1].probability)[:k]
    return [
        UsedRule(rule, counter.count(rule), use.probability / total, len(use.questions), tuple(use.examples))
        for rule, use in most
    ]


def _questions(trained: TrainedWalker, relation_id: int, is_inverse: bool, split: str, most: int) -> Triples:
    """Some questions of the relation, the same ones every time."""
    dataset = trained.dataset
    plain = dataset.relation_ids.inverse(relation_id) if is_inverse else relation_id
    for name in [split] if split else ["valid", "train"]:
        facts = dataset.splits[name]
        rows = np.flatnonzero(facts.relations == plain)
        if len(rows):
            facts = facts[np.sort(np.random.default_rng(0).permutation(rows)[:most])]
            turned = Triples(facts.tails, dataset.relation_ids.inverse(facts.relations), facts.heads)
            return turned if is_inverse else facts
    raise DataError(f"there are no questions about {dataset.relations.name(plain)!r} to look at", remedy="Try another relation.")
