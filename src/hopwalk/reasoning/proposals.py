"""Proposed facts: queries in both directions, and one probability for each fact that they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import HopwalkError
from hopwalk.reasoning.asking import PathLabels, may_be_itself, reasons
from hopwalk.reasoning.kinds import Kinds
from hopwalk.reasoning.models import AnswerModel, Floats, QueryIds
from hopwalk.reasoning.names import relation_label
from hopwalk.reasoning.rules import Evidence, Rule, RuleCounter
from hopwalk.reasoning.values import ReasoningPath
from hopwalk.reasoning.walker_model import WalkerModel

MOST_ANSWERS = 1_000  # of a query that are proposed
MOST_RULES = 10_000  # whose evidence is remembered
FOUND = np.dtype([("relation", np.int32), ("head", np.int32), ("tail", np.int32), ("log_odds", np.float32)])  # of a query
Found = NDArray[np.void]


def joint_log_odds(from_head: Floats, from_tail: Floats) -> Floats:
    """The log-odds of facts, given those of both directions, NaN where a direction does not reach the other end [N].

    The mean of the two, or the one that there is.
    """
    only_one = np.where(np.isnan(from_head), from_tail, from_head)
    return np.where(np.isnan(from_head) | np.isnan(from_tail), only_one, (from_head + from_tail) / 2)


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Facts in the order of their queries, relation by relation; those of query i are at `offsets[i]:offsets[i + 1]`."""

    facts: Triples
    offsets: NDArray[np.int64]

    @staticmethod
    def of(facts: Triples) -> QueryGroups:
        """Distinct facts, or if their tails do not matter queries, in order."""
        facts = facts[np.lexsort((facts.tails, facts.heads, facts.relations))]
        is_first = np.ones(len(facts), dtype=np.bool_)
        is_first[1:] = (facts.heads[1:] != facts.heads[:-1]) | (facts.relations[1:] != facts.relations[:-1])
        return QueryGroups(facts, np.append(np.flatnonzero(is_first), len(facts)).astype(np.int64))

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    def batch(self, first: int, last: int) -> tuple[list[QueryIds], list[list[int]]]:
        """Some of the queries, and the tails of each."""
        starts, ends = self.offsets[first:last], self.offsets[first + 1 : last + 1]
        heads, relations = self.facts.heads[starts].tolist(), self.facts.relations[starts].tolist()
        tails = [self.facts.tails[start:end].tolist() for start, end in zip(starts, ends, strict=True)]
        return list(zip(heads, relations, strict=True)), tails


@dataclass(frozen=True)
class Reason:
    """The path that carries most of a fact's score, its rule, and how often that holds."""

    path: ReasoningPath
    rule: Rule
    evidence: Evidence


class Proposer:
    """Proposes facts of some relations, by default all, whose probability is at least `above`.

    The facts of a relation are asked for from every entity that could be its head (`Kinds`), and by its inverse from every one
    that could be its tail; answers that could not are left out. With `heads`, only these are asked. A walker is asked in the
    direction of the relations given: it is trained to find tails.
    """

    def __init__(self, model: AnswerModel, relations: Sequence[int], heads: Sequence[int] | None, above: float) -> None:
        self.model, self.dataset, self._above = model, model.dataset, above
        self._relations, self._heads = relations, heads
        self._is_both_ways = not isinstance(model, WalkerModel)
        self._labels, self._counter = PathLabels(model.dataset), RuleCounter(model.dataset.facts, model.dataset)
        self._evidence = lru_cache(maxsize=MOST_RULES)(self._counter.count)
        self._heads_of_kind = Kinds(model.dataset).heads
        self._could_be_head = lru_cache(maxsize=4)(self._mask)  # queries come relation by relation

    def queries(self) -> QueryGroups:
        """The queries to ask."""
        ids, chosen = self.dataset.relation_ids, {*(self._relations or range(len(self.dataset.relations)))}
        if self._heads is None and self._is_both_ways:
            chosen |= {ids.inverse(way) for way in chosen}
        given = None if self._heads is None else np.unique(np.array(self._heads, dtype=np.int32))
        heads = {way: self._heads_of_kind(way) if given is None else given for way in sorted(chosen)}
        return QueryGroups.of(
            Triples.concatenate([Triples(own, np.full_like(own, way), np.zeros_like(own)) for way, own in heads.items()])
        )

    def _mask(self, relation: int) -> NDArray[np.bool_]:
        """Which entities could be heads of a relation [E]."""
        found = np.zeros(len(self.dataset.entities), dtype=np.bool_)
        found[self._heads_of_kind(relation)] = True
        return found

    def ask(self, queries: Sequence[QueryIds]) -> Found:
        """The new answers of queries whose probability is high enough, at most `MOST_ANSWERS` of each, with their log-odds."""
        ids, parts = self.dataset.relation_ids, []
        ranking = self.model.rank(queries, only_new=True, k=MOST_ANSWERS)
        for (head, relation), found in zip(queries, ranking.candidates, strict=True):
            probabilities = _probabilities(found.probabilities)
            is_likely = probabilities >= self._above
            is_likely &= self._could_be_head(ids.inverse(relation))[found.entities]
            if not may_be_itself(self.dataset, relation):
                is_likely &= found.entities != head
            parts.append(_rows(relation, head, found.entities[is_likely], probabilities[is_likely]))
        return np.concatenate(parts)

    def other_direction(self, found: Found) -> QueryGroups:
        """The facts, turned round, that were found in one direction only; none for a walker."""
        if not self._is_both_ways:
            found = found[:0]
        facts, from_head, from_tail = self._by_fact(found)
        ids = self.dataset.relation_ids
        needs_head, needs_tail = np.isnan(from_head), np.isnan(from_tail)
        forward, backward = facts[needs_head], facts[needs_tail]
        turned = Triples(backward.tails, ids.inverse(backward.relations), backward.heads)
        return QueryGroups.of(Triples.concatenate([forward, turned]))

    def look_up(self, queries: Sequence[QueryIds], tails: Sequence[Sequence[int]]) -> Found:
        """The log-odds of the given answers of queries; none of one that is not reached."""
        parts = []
        for (head, relation), wanted, found in zip(
            queries, tails, self.model.rank(queries, only_new=True).candidates, strict=True
        ):
            is_wanted = np.isin(found.entities, wanted)
            parts.append(_rows(relation, head, found.entities[is_wanted], _probabilities(found.probabilities)[is_wanted]))
        return np.concatenate(parts)

    def proposals(self, found: Found) -> tuple[QueryGroups, Floats]:
        """The proposed facts, each once, in the order of queries from the head, and their probabilities."""
        facts, from_head, from_tail = self._by_fact(found)
        probabilities = 1 / (1 + np.exp(-joint_log_odds(from_head, from_tail)))
        chosen = np.flatnonzero(probabilities >= self._above)
        chosen = chosen[np.lexsort((facts.tails[chosen], facts.heads[chosen], facts.relations[chosen]))]
        return QueryGroups.of(facts[chosen]), probabilities[chosen]

    def _by_fact(self, found: Found) -> tuple[Triples, Floats, Floats]:
        """Every fact that was found once, with its log-odds from the head and from the tail, NaN where there are none."""
        ids, packing = self.dataset.relation_ids, self.dataset.packing
        is_inverse = ids.is_inverse(found["relation"])
        heads, tails = (np.where(is_inverse, found[one], found[other]) for one, other in (("tail", "head"), ("head", "tail")))
        relations = np.where(is_inverse, ids.inverse(found["relation"]), found["relation"])
        keys, rows = np.unique(packing.pack(heads, relations, tails), return_inverse=True)
        from_head, from_tail = np.full((2, len(keys)), np.nan)
        from_head[rows[~is_inverse]] = found["log_odds"][~is_inverse]
        from_tail[rows[is_inverse]] = found["log_odds"][is_inverse]
        return packing.unpack(keys), from_head, from_tail

    def reasons(self, queries: Sequence[QueryIds], tails: Sequence[Sequence[int]]) -> list[list[Reason | None]]:
        """For each query and tail, the path from the head that carries most of the score; else one from the tail; else None."""
        paths = self.model.rank(queries, only_new=True, k=1).paths(tails, 1)
        found: list[list[Reason | None]] = []
        for (head, relation), own, of_tails in zip(queries, tails, paths, strict=True):
            named = [self._reason(head, relation, tail, of_tail) for tail, of_tail in zip(own, of_tails, strict=True)]
            found.append(
                [reason or self._reason_from_tail(head, relation, tail) for reason, tail in zip(named, own, strict=True)]
            )
        return found

    def _reason(
        self, head: int, relation: int, tail: int, paths: Sequence[tuple[tuple[tuple[int, int], ...], float]]
    ) -> Reason | None:
        shown = self._labels.paths(head, reasons(relation, tail, paths)[:1])
        if not shown:
            return None
        name, is_inverse = relation_label(self.dataset, relation)
        rule = Rule(name, tuple((edge.relation, edge.is_inverse) for edge in shown[0].edges), is_inverse)
        return Reason(shown[0], rule, self._evidence(rule))

    def _reason_from_tail(self, head: int, relation: int, tail: int) -> Reason | None:
        inverse = int(self.dataset.relation_ids.inverse(relation))
        (paths,) = self.model.rank([(tail, inverse)], only_new=True, k=1).paths([[head]], 1)
        return self._reason(tail, inverse, head, paths[0])


def labels_of(dataset: Dataset, query: QueryIds, tail: int) -> tuple[str, str, str]:
    """A fact by its labels."""
    return dataset.entities[query[0]], dataset.relations[query[1]], dataset.entities[tail]


def _probabilities(probabilities: Floats | None) -> Floats:
    if probabilities is None:
        raise HopwalkError("the run has no calibrated probabilities", remedy="Train it again with this version of hopwalk.")
    return probabilities


def _rows(relation: int, head: int, tails: NDArray[np.int64], probabilities: Floats) -> Found:
    found = np.empty(len(tails), dtype=FOUND)
    inside = np.clip(probabilities, 1e-12, 1 - 1e-12)
    found["relation"], found["head"], found["tail"] = relation, head, tails
    found["log_odds"] = np.log(inside) - np.log1p(-inside)
    return found
