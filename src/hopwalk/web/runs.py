"""A run in memory, as the server needs it: its walker, its names, its relations by use, and questions to begin with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.names import NameIndex
from hopwalk.data.triples import Triples
from hopwalk.reasoning.asking import INVERSE
from hopwalk.walker.runs import TrainedWalker, load_walker

NUM_EXAMPLES = 4
LARGE = 200_000  # entities
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ServedRun:
    """A trained walker under the name by which requests ask for it."""

    name: str
    trained: TrainedWalker

    @property
    def dataset(self) -> Dataset:
        """The data of the run."""
        return self.trained.dataset

    @property
    def entities(self) -> NameIndex:
        """Finds entities."""
        return self.trained.entity_names

    @property
    def relations(self) -> NameIndex:
        """Finds relations."""
        return self.trained.relation_names

    def warm_up(self) -> None:
        """Make what the first request would have to wait for."""
        self.entities.search(" ")
        self.relations.search(" ")
        self.entities.near("a")
        _ = self.about

    async def look_up(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """What a function finds among names and facts, in a few milliseconds; in a large graph it is more, so in a thread."""
        is_large = len(self.dataset.entities) > LARGE or len(self.dataset.facts) > 10 * LARGE
        return await asyncio.to_thread(function, *arguments, **options) if is_large else function(*arguments, **options)

    def relation_key(self, directed_id: int) -> str:
        """The relation as it is asked for."""
        ids = self.dataset.relation_ids
        is_inverse = bool(ids.is_inverse(directed_id))
        return self.dataset.relations[ids.inverse(directed_id)] + INVERSE if is_inverse else self.dataset.relations[directed_id]

    def relation_name(self, directed_id: int) -> str:
        """The relation for people."""
        ids = self.dataset.relation_ids
        is_inverse = bool(ids.is_inverse(directed_id))
        name = self.dataset.relations.name(ids.inverse(directed_id) if is_inverse else directed_id)
        return name + INVERSE if is_inverse else name

    def relations_by_use(self, text: str, entity_id: int | None, limit: int) -> list[dict[str, Any]]:
        """Relations and inverses that the text finds: first those with most facts of the entity, then those with most facts."""
        ids, stem = self.dataset.relation_ids, text.removesuffix(INVERSE)
        found = self.relations.search(stem, len(self.dataset.relations))
        directed = [way for one in found for way in ((one, ids.inverse(one)) if stem == text else (ids.inverse(one),))]
        own = self._facts_by_relation if entity_id is None else self._count_facts(entity_id)
        directed.sort(key=lambda way: (-own[way], -self._facts_by_relation[way]))
        return [
            {
                "relation": self.relation_key(way),
                "name": self.dataset.relations.name(ids.inverse(way) if ids.is_inverse(way) else way),
                "is_inverse": bool(ids.is_inverse(way)),
                "facts": int(own[way]),
            }
            for way in directed[:limit]
        ]

    @cached_property
    def _facts_by_relation(self) -> NDArray[np.int64]:
        """How many facts each relation has; an inverse has as many."""
        counts = np.bincount(self.dataset.facts.relations, minlength=len(self.dataset.relations))
        return np.concatenate([counts, counts])

    def _count_facts(self, entity_id: int) -> NDArray[np.int64]:
        """How many facts of each relation begin at the entity, then how many of each end there."""
        facts, num = self.dataset.facts, len(self.dataset.relations)
        sides = (facts.heads, facts.tails)
        return np.concatenate([np.bincount(facts.relations[side == entity_id], minlength=num) for side in sides])

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the run is, for its card."""
        dataset, settings, card = self.dataset, self.trained.settings, self.trained.run.path / "card.md"
        mrr = self.trained.run.about.get("valid_mrr")
        return {
            "run": self.name,
            "dataset": dataset.name,
            "entities": len(dataset.entities),
            "relations": len(dataset.relations),
            "facts": len(dataset.facts),
            "hops": settings.walk.hops,
            "beam": settings.walk.beam,
            "fan_out": settings.graph.fan_out,
            "has_scorer": self.trained.opinions is not None,
            "valid_mrr": mrr if isinstance(mrr, float) else None,
            "examples": list(self._examples()),
            "card": card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "",
        }

    def _examples(self) -> Iterable[dict[str, str]]:
        """Questions about the most frequent relations; where there are any, dev questions, whose answers the graph lacks."""
        asked: Triples = self.dataset.valid if len(self.dataset.valid) else self.dataset.facts
        counts = np.bincount(asked.relations, minlength=len(self.dataset.relations))
        for relation in np.argsort(-counts, kind="stable")[:NUM_EXAMPLES].tolist():
            rows = np.flatnonzero(asked.relations == relation)
            if len(rows):
                head = int(asked.heads[rows[len(rows) // 2]])
                yield {
                    "head": self.dataset.entities[head],
                    "name": self.dataset.entities.name(head),
                    "relation": self.relation_key(relation),
                    "relation_name": self.relation_name(relation),
                }


def load_runs(folders: Sequence[str | Path]) -> dict[str, ServedRun]:
    """The walkers of run folders by name: that of the folder, with a number where several are called the same."""
    runs: dict[str, ServedRun] = {}
    for folder in folders:
        trained = load_walker(folder)
        stem, number = Path(folder).resolve().name or "run", 1
        name = stem
        while name in runs:
            number += 1
            name = f"{stem}-{number}"
        runs[name] = ServedRun(name, trained)
    return runs
