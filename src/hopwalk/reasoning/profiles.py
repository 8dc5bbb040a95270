"""An entity as the graph knows it: its facts by relation, page by page, and the entities that share most of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids
from hopwalk.reasoning.names import Names

MOST_PAIRS = 1_000  # of an entity that are compared with those of others
MOST_SHARED = 100_000  # entities that are counted, those with the rarest pairs first


@dataclass(frozen=True)
class Neighbour:
    """An entity by its label in the data and its readable name."""

    key: str
    name: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"entity": self.key, "name": self.name}


@dataclass(frozen=True)
class RelationFacts:
    """Some of an entity's facts of one relation, or of its inverse: `total` in all, those from `offset` on here."""

    relation: str
    name: str
    is_inverse: bool
    total: int
    offset: int
    neighbours: tuple[Neighbour, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("relation", "name", "is_inverse", "total", "offset")
        return {name: getattr(self, name) for name in names} | {"entities": [one.to_dict() for one in self.neighbours]}


@dataclass(frozen=True)
class Similar:
    """An entity that shares facts with another: the same relation to the same neighbour. `facts` are its own in all."""

    key: str
    name: str
    shared: int
    facts: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"entity": self.key, "name": self.name, "shared": self.shared, "facts": self.facts}


@dataclass(frozen=True)
class Profile:
    """An entity: its facts by relation, most frequent first, the first few of each, and similar entities."""

    key: str
    name: str
    total: int
    relations: tuple[RelationFacts, ...]
    similar: tuple[Similar, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.total:,} facts"]
        for facts in self.relations:
            arrow = f"←{facts.name}—" if facts.is_inverse else f"—{facts.name}→"
            more = f", … ({facts.total:,})" if facts.total > len(facts.neighbours) else ""
            lines.append(f"  {arrow} {', '.join(one.name for one in facts.neighbours)}{more}")
        return "\n".join(lines + [f"  similar: {one.name} (shares {one.shared:,} facts)" for one in self.similar])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "entity": self.key,
            "name": self.name,
            "facts": self.total,
            "relations": [facts.to_dict() for facts in self.relations],
            "similar": [one.to_dict() for one in self.similar],
        }


class Profiler:
    """Profiles of a graph's entities, read off its known answers: the cost grows with an entity's facts, not with the graph."""

    def __init__(self, dataset: Dataset, known: KnownAnswers) -> None:
        self._dataset, self._known, self._names = dataset, known, Names(dataset)

    def profile(self, entity: int, *, num_facts: int, num_similar: int) -> Profile:
        """The profile of an entity, with the first `num_facts` of each relation."""
        ways = np.arange(2 * len(self._dataset.relations), dtype=np.int32)
        counts = self._known.counts(np.full_like(ways, entity), ways)
        order = [int(way) for way in np.argsort(-counts, kind="stable") if counts[way]]
        labels = self._dataset.entities
        return Profile(
            labels[entity],
            labels.name(entity),
            int(counts.sum()),
            tuple(self.facts(entity, way, offset=0, limit=num_facts) for way in order),
            self.similar(entity, num_similar),
        )

    def facts(self, entity: int, relation: int, *, offset: int, limit: int) -> RelationFacts:
        """The entity's facts of a relation or inverse, by the order of labels, `limit` from `offset` on."""
        _, tails = self._known.answers(np.array([entity], dtype=np.int32), np.array([relation], dtype=np.int32))
        labels, ids = self._dataset.entities, self._dataset.relation_ids
        is_inverse = bool(ids.is_inverse(relation))
        shown = tails[offset : offset + limit].tolist()
        return RelationFacts(
            self._names.relation_key(relation),
            self._dataset.relations.name(ids.inverse(relation) if is_inverse else relation),
            is_inverse,
            len(tails),
            offset,
            tuple(Neighbour(labels[one], labels.name(one)) for one in shown),
        )

    def similar(self, entity: int, limit: int) -> tuple[Similar, ...]:
        """The entities that share most pairs of relation and neighbour; of equal ones, those with fewer facts of their own.

        A hub is compared by `MOST_PAIRS` of its pairs, spread evenly; rare pairs come first, until `MOST_SHARED` entities are
        counted.
        """
        ways, neighbours = self._pairs(entity)
        back = self._dataset.relation_ids.inverse(ways)
        sizes = self._known.counts(neighbours, back)
        order = np.argsort(sizes, kind="stable")
        chosen = order[np.cumsum(sizes[order]) <= MOST_SHARED]
        if not len(chosen):
            return ()
        _, others = self._known.answers(neighbours[chosen], back[chosen])
        found, shared = np.unique(others[others != entity], return_counts=True)
        facts = self._known.degrees(found)
        best = np.lexsort((found, facts, -shared))[:limit]
        labels = self._dataset.entities
        return tuple(
            Similar(labels[one], labels.name(one), count, total)
            for one, count, total in zip(found[best].tolist(), shared[best].tolist(), facts[best].tolist(), strict=True)
        )

    def _pairs(self, entity: int) -> tuple[Ids, Ids]:
        """The relations and neighbours of the entity's facts, in both directions, at most `MOST_PAIRS` [N]."""
        ways = np.arange(2 * len(self._dataset.relations), dtype=np.int32)
        offsets, tails = self._known.answers(np.full_like(ways, entity), ways)
        relations = np.repeat(ways, np.diff(offsets))
        if len(tails) > MOST_PAIRS:
            rows = np.linspace(0, len(tails) - 1, MOST_PAIRS).astype(np.int64)
            return relations[rows], tails[rows]
        return relations, tails
