"""Proposed facts: queries in both directions, and one probability for each fact that they find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.kinds import Kinds
from hopwalk.data.triples import Triples
from hopwalk.learning.probability import FLOOR, EndScores, scores_from_one_end
from hopwalk.reasoning.asking import PathLabels, may_be_itself, reasons
from hopwalk.reasoning.models import AnswerModel, Candidates, Floats, QueryIds
from hopwalk.reasoning.names import Names
from hopwalk.reasoning.probabilities import one_direction, probabilities_of_facts
from hopwalk.reasoning.rule_groups import rule_of
from hopwalk.reasoning.rules import Evidence, Rule
from hopwalk.reasoning.values import ReasoningPath
from hopwalk.reasoning.walker_model import WalkerModel

MOST_ANSWERS = 100  # of a query that are looked at from the other end
SURELY, PART = 5, 0.1  # the best few are, and others if one direction alone gives them a tenth of the probability asked for
MOST_RULES = 10_000  # whose evidence is remembered
FOUND = np.dtype(  # of a query
    [("relation", np.int32), ("head", np.int32), ("tail", np.int32), ("score", np.float32), ("relative", np.float32)]
)
Found = NDArray[np.void]


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
        self._labels, self._relation_name = PathLabels(model.dataset), Names(model.dataset).relation_name
        self._evidence = lru_cache(maxsize=MOST_RULES)(model.rule_counter.count)
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
        """The new answers of queries that may be probable enough, at most `MOST_ANSWERS` of each, with their scores."""
        ids, parts = self.dataset.relation_ids, []
        ranking = self.model.rank(queries, only_new=True, k=MOST_ANSWERS)
        for (head, relation), found in zip(queries, ranking.candidates, strict=True):
            could_be = self._could_be_head(ids.inverse(relation))[found.entities]
            if not may_be_itself(self.dataset, relation):
                could_be &= found.entities != head
            found = found.part(could_be)
            is_likely = one_direction(self.model, found) >= PART * self._above
            is_likely[:SURELY] = True
            parts.append(_rows(relation, head, found.part(is_likely)))
        return np.concatenate(parts)

    def other_direction(self, found: Found) -> QueryGroups:
        """The facts, turned round, that were found in one direction only."""
        facts, from_head, from_tail = self._by_fact(found)
        ids = self.dataset.relation_ids
        forward, backward = facts[np.isnan(from_head[0])], facts[np.isnan(from_tail[0])]
        turned = Triples(backward.tails, ids.inverse(backward.relations), backward.heads)
        return QueryGroups.of(Triples.concatenate([forward, turned]))

    def look_up(self, queries: Sequence[QueryIds], tails: Sequence[Sequence[int]]) -> Found:
        """The scores of the given answers of queries."""
        counts = [len(own) for own in tails]
        heads, relations = (np.repeat(np.array(ids, dtype=np.int32), counts) for ids in zip(*queries, strict=True))
        answers = np.array([tail for own in tails for tail in own], dtype=np.int32)
        model, num_entities = self.model, len(self.dataset.entities)
        seen = scores_from_one_end(model.score_all_tails, model.known.counts, heads, relations, answers, num_entities)
        found = np.empty(len(answers), dtype=FOUND)
        for name, values in zip(FOUND.names or (), (relations, heads, answers, seen.scores, seen.relative), strict=True):
            found[name] = values
        return found

    def proposals(self, found: Found) -> tuple[QueryGroups, Floats]:
        """The proposed facts, each once, in the order of queries from the head, and their probabilities."""
        facts, from_head, from_tail = self._by_fact(found)
        ids, known = self.dataset.relation_ids, self.model.known
        ends = (
            EndScores(from_head[0], from_head[1], known.counts(facts.heads, facts.relations).astype(np.float64)),
            EndScores(from_tail[0], from_tail[1], known.counts(facts.tails, ids.inverse(facts.relations)).astype(np.float64)),
        )
        probabilities = probabilities_of_facts(self.model, facts.relations, *ends)
        chosen = np.flatnonzero(probabilities >= self._above)
        chosen = chosen[np.lexsort((facts.tails[chosen], facts.heads[chosen], facts.relations[chosen]))]
        return QueryGroups.of(facts[chosen]), probabilities[chosen]

    def _by_fact(self, found: Found) -> tuple[Triples, Floats, Floats]:
        """Every fact that was found once, with score and relative score from the head and from the tail [2, N]; NaN: none yet."""
        ids, packing = self.dataset.relation_ids, self.dataset.packing
        is_inverse = ids.is_inverse(found["relation"])
        heads, tails = (np.where(is_inverse, found[one], found[other]) for one, other in (("tail", "head"), ("head", "tail")))
        relations = np.where(is_inverse, ids.inverse(found["relation"]), found["relation"])
        keys, rows = np.unique(packing.pack(heads, relations, tails), return_inverse=True)
        ends = np.full((2, 2, len(keys)), np.nan)
        for end, own in ((0, ~is_inverse), (1, is_inverse)):
            ends[end][:, rows[own]] = found["score"][own], found["relative"][own]
        return packing.unpack(keys), ends[0], ends[1]

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
        shown = self._labels.paths(head, reasons(head, relation, tail, paths)[:1])
        if not shown:
            return None
        rule = rule_of(self._relation_name(relation), shown[0])
        return Reason(shown[0], rule, self._evidence(rule))

    def _reason_from_tail(self, head: int, relation: int, tail: int) -> Reason | None:
        inverse = int(self.dataset.relation_ids.inverse(relation))
        (paths,) = self.model.rank([(tail, inverse)], only_new=True, k=1).paths([[head]], 1)
        return self._reason(tail, inverse, head, paths[0])


def labels_of(dataset: Dataset, query: QueryIds, tail: int) -> tuple[str, str, str]:
    """A fact by its labels."""
    return dataset.entities[query[0]], dataset.relations[query[1]], dataset.entities[tail]


def _rows(relation: int, head: int, answers: Candidates) -> Found:
    found = np.empty(len(answers.entities), dtype=FOUND)
    values = (relation, head, answers.entities, np.maximum(answers.scores, FLOOR), np.maximum(answers.relative, FLOOR))
    for name, value in zip(FOUND.names or (), values, strict=True):
        found[name] = value
    return found
