"""A single fact that would change an answer's rank: one edge that a good rule lacks, added and scored before it is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids, Triples
from hopwalk.reasoning.asking import PathLabels, may_be_itself, reasons
from hopwalk.reasoning.models import AnswerModel, FactIds, Ranking
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.probabilities import by_probability, pool_size, probabilities
from hopwalk.reasoning.rule_groups import group_paths
from hopwalk.reasoning.rules import Rule
from hopwalk.reasoning.values import fact_text
from hopwalk.utils.text import ordinal

NUM_ANSWERS, NUM_PATHS = 3, 2  # whose rules are tried
MOST_RULES, MOST_TRIED = 4, 6
MOST_FACTS_READ = 4_000_000  # of all graphs that are made to try a fact: fewer are tried on large ones
LEAST_GAIN = 2  # the rank must at least halve
Body = tuple[int, ...]


@dataclass(frozen=True)
class MissingFact:
    """A fact that the graph lacks, and the rank that an answer would have with it, by a rule that it completes."""

    head: str
    relation: str
    tail: str
    head_key: str
    tail_key: str
    rank: int
    rule: Rule

    def __str__(self) -> str:
        return f"With the fact {fact_text(self.head, self.relation, self.tail)} it would be {ordinal(self.rank)}."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "head_key", "tail_key", "rank")
        return {name: getattr(self, name) for name in names} | {"rule": str(self.rule)}


@dataclass(frozen=True)
class Standing:
    """Where an answer stands among others as `ask` ranks them: the entities before it, the best first, and its probability."""

    better: list[int]
    probability: float | None


def standing_of(model: AnswerModel, fact: FactIds, ranking: Ranking, k: int) -> Standing | None:
    """The standing of the tail of a fact in the ranking of its query, as if the fact were not known; None if it is not in it.

    The best by score are ranked by probability, as many as for a list of `k` new answers; whatever comes after them, by score.
    The head is left out unless the relation has facts about an entity and itself.
    """
    head, relation, tail = fact
    found = ranking.candidates[0]
    if not may_be_itself(model.dataset, relation) and tail != head:
        found = found.part(found.entities != head)
    places = np.flatnonzero(found.entities == tail)
    if not len(places):
        return None
    place, size = int(places[0]), min(pool_size(k), len(found.entities))
    pool = found.part(np.union1d(np.arange(size), [place]))
    chances = probabilities(model, [(head, relation)], [pool], hidden=Triples.of([fact]))
    if chances is None:
        return Standing(found.entities[:place].tolist(), None)
    probability = float(chances[0][np.flatnonzero(pool.entities == tail)[0]])
    in_order = [entity for entity in pool.entities[by_probability(pool, chances[0])].tolist() if place < size or entity != tail]
    better = in_order[: in_order.index(tail)] if place < size else in_order + found.entities[size:place].tolist()
    return Standing(better, probability)


def find_missing_fact(model: AnswerModel, fact: FactIds, ranking: Ranking, rank: int | None, k: int) -> MissingFact | None:
    """The fact with which the tail of another would have the best rank; None if none is found that at least halves it.

    The rules are those behind the best answers of the same query, and both ends of the fact occur in such facts already.
    """
    dataset, tried = model.dataset, dict[FactIds, Rule]()
    most = min(MOST_TRIED, max(1, MOST_FACTS_READ // max(len(dataset.facts), 1)))
    for rule, body in _good_rules(model, fact, ranking):
        for candidate in _completing_facts(dataset, fact, body):
            tried.setdefault(candidate, rule)
    best: tuple[int, FactIds, Rule] | None = None
    for candidate, rule in list(tried.items())[:most]:
        changed = _rank_with(model, fact, candidate, k)
        if changed is not None and (rank is None or changed <= rank / LEAST_GAIN) and (best is None or changed < best[0]):
            best = changed, candidate, rule
    return None if best is None else _named(dataset, *best)


def _named(dataset: Dataset, rank: int, fact: FactIds, rule: Rule) -> MissingFact:
    head, relation, tail = fact
    names, keys = dataset.entities.name, dataset.entities
    return MissingFact(names(head), Names(dataset).relation_name(relation), names(tail), keys[head], keys[tail], rank, rule)


def _good_rules(model: AnswerModel, fact: FactIds, ranking: Ranking) -> list[tuple[Rule, Body]]:
    """The rules behind the best answers of the query that hold in the graph, by use × confidence."""
    head, relation, tail = fact
    best = [entity for entity in ranking.candidates[0].entities[: NUM_ANSWERS + 1].tolist() if entity not in (head, tail)]
    paths = ranking.paths([best[:NUM_ANSWERS]], NUM_PATHS)[0]
    labels, name = PathLabels(model.dataset), Names(model.dataset).relation_name(relation)
    found: dict[Rule, tuple[float, Body]] = {}
    for entity, own in zip(best, paths, strict=False):
        for steps, share in reasons(head, relation, entity, own):
            (group,) = group_paths(name, labels.paths(head, [(steps, share)]), model.rule_counter.count)
            body, before = tuple(step[0] for step in steps), found.get(group.rule, (0.0, ()))[0]
            found[group.rule] = before + max(share, 0.0) * group.evidence.confidence, body
    ordered = sorted(((use, rule, body) for rule, (use, body) in found.items() if use > 0), key=lambda one: -one[0])
    return [(rule, body) for _, rule, body in ordered[:MOST_RULES]]


def _completing_facts(dataset: Dataset, fact: FactIds, body: Body) -> Iterator[FactIds]:
    """Facts, one for each step of the rule's body, with which the body leads from the head to the tail of a fact."""
    head, relation, tail = fact
    facts, ids = _Directed(dataset), dataset.relation_ids
    before = [np.array([head])]
    for step in body[:-1]:
        before.append(facts.follow(before[-1], step))
    after = [np.array([tail])]
    for step in reversed(body[1:]):
        after.insert(0, facts.follow(after[0], ids.inverse(step)))
    asked = {(head, relation, tail), (tail, ids.inverse(relation), head)}
    for step, sources, targets in zip(body, before, after, strict=True):
        ends = facts.ends(step)
        sources, targets = (
            facts.rarest(some[np.isin(some, own) & (some != other)])
            for some, own, other in zip((sources, targets), ends, (tail, head), strict=True)
        )
        if not len(sources) or not len(targets) or sources[0] == targets[0]:
            continue
        found = int(sources[0]), step, int(targets[0])
        if found not in asked and not facts.has(*found):
            yield (found[2], int(ids.inverse(step)), found[0]) if ids.is_inverse(step) else found


class _Directed:
    """The facts of the graph in both directions."""

    def __init__(self, dataset: Dataset) -> None:
        self._facts, self._ids = dataset.facts, dataset.relation_ids
        self._degrees = np.bincount(np.append(self._facts.heads, self._facts.tails), minlength=len(dataset.entities))

    def ends(self, relation: int) -> tuple[Ids, Ids]:
        """The heads and tails of the facts of a relation or an inverse [N]."""
        is_inverse = bool(self._ids.is_inverse(relation))
        rows = self._facts.relations == (self._ids.inverse(relation) if is_inverse else relation)
        heads, tails = self._facts.heads[rows], self._facts.tails[rows]
        return (tails, heads) if is_inverse else (heads, tails)

    def follow(self, entities: Sequence[int] | Ids, relation: int) -> Ids:
        """The entities one step behind some."""
        heads, tails = self.ends(relation)
        found: Ids = np.unique(tails[np.isin(heads, entities)])
        return found

    def has(self, head: int, relation: int, tail: int) -> bool:
        """Whether there is the fact."""
        heads, tails = self.ends(relation)
        return bool(((heads == head) & (tails == tail)).any())

    def rarest(self, entities: Ids) -> Ids:
        """The entities, those with the fewest facts first."""
        found: Ids = entities[np.argsort(self._degrees[entities], kind="stable")]
        return found


def _rank_with(model: AnswerModel, fact: FactIds, added: FactIds, k: int) -> int | None:
    """The rank of the tail of a fact if the graph had another one more."""
    more = Triples.of([added])
    changed = model.with_data(model.dataset.with_facts(more), more)
    standing = standing_of(changed, fact, changed.rank_facts(Triples.of([fact])), k)
    return None if standing is None else len(standing.better) + 1
