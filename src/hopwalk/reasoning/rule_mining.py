"""The rules that a model uses for a relation: those that its paths are instances of, over many queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError
from hopwalk.propagation.rule_scorer import RuleScorer, soft_rules
from hopwalk.reasoning.asking import PathLabels, reasons
from hopwalk.reasoning.models import AnswerModel, ScorerModel
from hopwalk.reasoning.names import Names, relation_label
from hopwalk.reasoning.probabilities import one_direction
from hopwalk.reasoning.rule_groups import rule_of
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import ReasoningPath
from hopwalk.scorers.ntp.model import NtpScorer
from hopwalk.scorers.ntp.rules import decoded_rules

MORE = 3  # times as many rules of a model that consists of rules are counted as are listed


@dataclass(frozen=True)
class UsedRule:
    """A rule, how often it holds in the graph, and how much the model uses it.

    `weight` is its part in the shares of all paths, each times the probability of its answer, so that unlikely answers count
    little; `queries` is the number of queries it helps to answer. A model that consists of rules, NeuralLP or DRUM, has its own
    weight for each, and NTP-λ its confidence; then there are neither queries nor examples.
    """

    rule: Rule
    evidence: Evidence
    weight: float
    queries: int
    examples: tuple[ReasoningPath, ...]

    @property
    def strength(self) -> float:
        """Use × confidence, by which rules are listed."""
        return self.weight * self.evidence.confidence

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rule": str(self.rule),
            "weight": self.weight,
            "queries": self.queries,
            "support": self.evidence.support,
            "predictions": self.evidence.predictions,
            "confidence": self.evidence.confidence,
            "is_sampled": self.evidence.is_sampled,
            "examples": [str(path) for path in self.examples],
        }


@dataclass
class _Use:
    share: float = 0.0
    queries: set[int] = field(default_factory=set)
    examples: list[ReasoningPath] = field(default_factory=list)


def used_rules(
    model: AnswerModel,
    relation_id: int,
    *,
    split: str = "",
    k: int = 20,
    most_queries: int = 200,
    answers: int = 5,
    num_paths: int = 3,
    num_examples: int = 3,
) -> list[UsedRule]:
    """The `k` rules for a relation with the largest use × confidence, where use is the weight; none that never holds.

    They come from the paths of the best answers of its dev queries, or of its training queries where dev has none or `split` is
    "train". The fact behind a query is hidden from its walks.
    """
    dataset = model.dataset
    if isinstance(model, ScorerModel) and isinstance(model.scorer, RuleScorer):
        return _learnt_rules(model.scorer, dataset, relation_id, k)
    if isinstance(model, ScorerModel) and isinstance(model.scorer, NtpScorer):
        return _proving_rules(model.scorer, dataset, relation_id, k)
    if not model.max_hops:
        raise DataError("an embedding model has no paths, so it uses no rules", remedy="Ask a propagation model or a walker.")
    name, is_inverse = Names(dataset).relation_name(relation_id), bool(dataset.relation_ids.is_inverse(relation_id))
    facts, labels = _queries(dataset, relation_id, is_inverse, split, most_queries), PathLabels(dataset)
    uses: dict[Rule, _Use] = {}
    for first in range(0, len(facts), model.queries_at_once):
        part = facts[first : first + model.queries_at_once]
        ranking = model.rank_facts(part)
        chosen = [found.entities[:answers].tolist() for found in ranking.candidates]
        for row, of_entities in enumerate(ranking.paths(chosen, num_paths)):
            chances = one_direction(model, ranking.candidates[row])
            for place, (entity, found) in enumerate(zip(chosen[row], of_entities, strict=True)):
                chance = float(chances[place])
                head = int(part.heads[row])
                for path in labels.paths(head, reasons(head, relation_id, entity, found)):
                    use = uses.setdefault(rule_of(name, path), _Use())
                    use.share += max(path.share, 0.0) * chance
                    use.queries.add(first + row)
                    if len(use.examples) < num_examples:
                        use.examples.append(path)
    total = sum(use.share for use in uses.values()) or 1.0
    weighted = sorted(((use.share / total, rule, use) for rule, use in uses.items()), key=lambda one: -one[0])
    best = _best([(weight, rule) for weight, rule, _ in weighted], model.rule_counter, k)
    return [replace(used, queries=len(uses[used.rule].queries), examples=tuple(uses[used.rule].examples)) for used in best]


def _best(weighted: Sequence[tuple[float, Rule]], counter: RuleCounter, k: int) -> list[UsedRule]:
    """The `k` rules with the largest weight × confidence, given rules by falling weight; counted are those that may be such."""
    found: list[UsedRule] = []
    for weight, rule in weighted:
        if len(found) >= k and weight <= found[k - 1].strength:
            break
        used = UsedRule(rule, counter.count(rule), weight, 0, ())
        if used.evidence.holds:
            found.append(used)
            found.sort(key=lambda one: -one.strength)
    return found[:k]


def _learnt_rules(scorer: RuleScorer, dataset: Dataset, relation_id: int, k: int) -> list[UsedRule]:
    """The best of the rules that a model consists of."""
    found = soft_rules(scorer, dataset.relations, relation_id, num_rules=MORE * k)
    weighted = [(soft.weight, Rule(soft.head[0], soft.body, soft.head[1])) for soft in found]
    return _best(weighted, RuleCounter(dataset.facts, dataset), k)


def _proving_rules(scorer: NtpScorer, dataset: Dataset, relation_id: int, k: int) -> list[UsedRule]:
    """The best rules of a prover, by the relations nearest to their predicates."""
    weighted = []
    for decoded in decoded_rules(scorer, relation_id, num_rules=MORE * k):
        name, is_inverse = relation_label(dataset, decoded.head)
        rule = Rule(name, tuple(relation_label(dataset, step) for step in decoded.body), is_inverse)
        weighted.append((decoded.confidence, rule))
    return _best(weighted, RuleCounter(dataset.facts, dataset), k)


def _queries(dataset: Dataset, relation_id: int, is_inverse: bool, split: str, most: int) -> Triples:
    """At most `most` facts of the relation to ask for, the same ones every time."""
    plain = dataset.relation_ids.inverse(relation_id) if is_inverse else relation_id
    for name in [split] if split else ["valid", "train"]:
        facts = dataset.splits[name]
        rows = np.flatnonzero(facts.relations == plain)
        if len(rows):
            facts = facts[np.sort(np.random.default_rng(0).permutation(rows)[:most])]
            turned = Triples(facts.tails, dataset.relation_ids.inverse(facts.relations), facts.heads)
            return turned if is_inverse else facts
    raise DataError(f"there are no queries about {dataset.relations.name(plain)!r}", remedy="Try another relation.")
