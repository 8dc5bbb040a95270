"""A run as the server shows it: its reasoner under a name, its relations by frequency, and example queries."""

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
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.values import INVERSE

NUM_EXAMPLES, MOST_TRIED = 3, 12  # example queries, and those that are tried
LARGE = 200_000  # entities
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RunView:
    """A reasoner under the name by which requests address it."""

    name: str
    reasoner: Reasoner

    @property
    def dataset(self) -> Dataset:
        """The data set of the run."""
        return self.reasoner.dataset

    @property
    def entities(self) -> NameIndex:
        """The index of the entities' names."""
        return self.reasoner.names.entities

    @property
    def relations(self) -> NameIndex:
        """The index of the relations' names."""
        return self.reasoner.names.relations

    def warm_up(self) -> None:
        """Build the indexes and compile what answers now, not with the first request, which would take too long."""
        self.entities.search(" ")
        self.relations.search(" ")
        self.entities.near("zzzz")
        _ = self.about  # asks its examples

    async def look_up(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function that searches names or facts: directly, or in a thread if the graph is large."""
        is_large = len(self.dataset.entities) > LARGE or len(self.dataset.facts) > 10 * LARGE
        return await asyncio.to_thread(function, *arguments, **options) if is_large else function(*arguments, **options)

    def relations_by_use(self, text: str, entity_id: int | None, limit: int) -> list[dict[str, Any]]:
        """Relations and inverses that the text finds: first those with most facts of the entity, then those with most facts."""
        ids, stem = self.dataset.relation_ids, text.removesuffix(INVERSE)
        found = self.relations.search(stem, len(self.dataset.relations))
        directed = [way for one in found for way in ((one, ids.inverse(one)) if stem == text else (ids.inverse(one),))]
        own = self._facts_by_relation if entity_id is None else self._count_facts(entity_id)
        directed.sort(key=lambda way: (-own[way], -self._facts_by_relation[way]))
        return [
            {
                "relation": self.reasoner.names.relation_key(way),
                "name": self.dataset.relations.name(ids.inverse(way) if ids.is_inverse(way) else way),
                "is_inverse": bool(ids.is_inverse(way)),
                "facts": int(own[way]),
            }
            for way in directed[:limit]
        ]

    @cached_property
    def _facts_by_relation(self) -> NDArray[np.int64]:
        """The number of facts of each relation, then of each inverse."""
        counts = np.bincount(self.dataset.facts.relations, minlength=len(self.dataset.relations))
        return np.concatenate([counts, counts])

    def _count_facts(self, entity_id: int) -> NDArray[np.int64]:
        """The number of facts of each relation with the entity as head, then as tail."""
        facts, num = self.dataset.facts, len(self.dataset.relations)
        sides = (facts.heads, facts.tails)
        return np.concatenate([np.bincount(facts.relations[side == entity_id], minlength=num) for side in sides])

    @cached_property
    def about(self) -> dict[str, Any]:
        """The description of the run for the API."""
        dataset, run = self.dataset, self.reasoner.run
        mrr = run.about.get("valid_mrr")
        return {
            "run": self.name,
            "dataset": dataset.name,
            "entities": len(dataset.entities),
            "relations": len(dataset.relations),
            "facts": len(dataset.facts),
            "hops": self.reasoner.model.max_hops,
            "ranks_by": self.reasoner.model.ranks_by,
            "valid_mrr": mrr if isinstance(mrr, float) else None,
            "keeps_underscores": self.reasoner.keeps_underscores,
            "basis": self.reasoner.basis,
            "examples": self._examples(),
            "card": self.reasoner.card,
        }

    def _examples(self) -> list[dict[str, Any]]:
        """Queries with answers about the most frequent relations; those with a path to a new answer come first.

        From dev where there is one: answers to its queries are true and not in the graph.
        """
        tried = list(self._tried_queries())
        found = self.reasoner.ask_many(tried, k=5, num_paths=1) if tried else []
        examples: list[dict[str, Any]] = []
        for (head, relation), answers in zip(tried, found, strict=True):
            ranked = sorted(answers, key=lambda answer: (not answer.paths, answer.is_known, answer.rank))
            if ranked:
                example: dict[str, Any] = {
                    "head": head,
                    "name": self.dataset.entities.name(self.dataset.entities.id(head)),
                    "relation": relation,
                }
                best = answers.answer_dict(ranked[0])
                examples.append(example | {"relation_name": answers.relation, "answer": best})
        examples.sort(key=lambda one: (not one["answer"]["paths"], one["answer"]["is_known"]))
        return examples[:NUM_EXAMPLES]

    def _tried_queries(self) -> Iterable[tuple[str, str]]:
        """A query of each of the most frequent relations; two of each where there are few."""
        facts: Triples = self.dataset.valid if len(self.dataset.valid) else self.dataset.facts
        counts = np.bincount(facts.relations, minlength=len(self.dataset.relations))
        often = [relation for relation in np.argsort(-counts, kind="stable").tolist() if counts[relation]]
        each = 1 if len(often) >= NUM_EXAMPLES else NUM_EXAMPLES
        for relation in often[: MOST_TRIED // each]:
            heads = np.unique(facts.heads[facts.relations == relation])
            for part in range(1, min(each, len(heads)) + 1):
                head = int(heads[(len(heads) * part) // (each + 1)])
                yield self.dataset.entities[head], self.reasoner.names.relation_key(relation)


def load_runs(folders: Sequence[str | Path]) -> dict[str, RunView]:
    """The runs of folders, by the folder's name, with a number if several have the same."""
    runs: dict[str, RunView] = {}
    for folder in folders:
        reasoner = Reasoner.load(folder)
        stem, number = Path(folder).resolve().name or "run", 1
        name = stem
        while name in runs:
            number += 1
            name = f"{stem}-{number}"
        runs[name] = RunView(name, reasoner)
    return runs
