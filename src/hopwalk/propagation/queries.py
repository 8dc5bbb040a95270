"""Training queries: which answers are asked together, and which edges are hidden from the query that asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.propagation.graph import Int32s, Int64s, RunGraph, edges_of_queries, hidden_edges
from hopwalk.propagation.parameters import Tasks
from hopwalk.utils.randomness import scattered

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
MOST_PERMUTED = 1 << 22  # queries in a pass whose order is kept in memory; that of more is computed


class QuerySampler:
    """Training queries in both directions, every one once in a pass, in an order that depends on seed and pass only.

    `propagation.hiding` says which edges a query does not see. "fact": those of the fact that is asked and its inverse.
    "between": all between head and answer, for data whose held-out facts have none (FB15k-237). "query": those of all known
    answers of the query, which are then asked together, for data whose held-out queries have no known answer. "head": the
    fact's head is held out, for data that hold out heads (NELL-995): half of the queries miss its facts of all relations that
    training asks for, the others those of the fact's relation.
    """

    def __init__(self, graph: RunGraph, dataset: Dataset, settings: PropagationSettings) -> None:
        self._graph, self._settings = graph, settings
        self._ids, self._train = dataset.relation_ids, dataset.train
        self._known: KnownAnswers | None = None
        if dataset.has_own_facts or len(graph.tails) != 2 * len(dataset.facts):  # else the graph knows all answers
            self._known = KnownAnswers([dataset.facts, dataset.train], len(dataset.entities), len(dataset.relations))
        self._order: tuple[int, NDArray[np.integer[Any]]] = -1, np.empty(0, dtype=np.int64)
        if settings.hiding == "head":
            asked = dataset.facts[np.isin(dataset.facts.relations, np.unique(dataset.train.relations))]
            self._asked = asked[np.argsort(asked.heads, kind="stable")]

    def __len__(self) -> int:
        """The number of training queries in a pass, both directions together."""
        return 2 * len(self._train)

    @property
    def num_known(self) -> int:
        """The number of known answers in an index of their own; 0 if the graph has them all."""
        return 0 if self._known is None else len(self._known)

    def batch(self, first: int, size: int) -> Tasks:
        """The queries from number `first` on; numbers go on through all passes."""
        heads, relations, tails = self._facts(self._rows(np.arange(first, first + size)))
        generator = np.random.default_rng([self._settings.seed, first])
        targets, filtered = [], []
        is_inverse = self._ids.is_inverse(relations).tolist()
        for known, tail, inverse in zip(self._known_answers(heads, relations), tails.tolist(), is_inverse, strict=True):
            asked = self._asked_together(known, tail, generator, is_inverse=inverse)
            targets.append(asked)
            filtered.append(known[~np.isin(known, asked)])
        target_offsets, all_targets = _ragged(targets)
        if self._settings.hiding == "head":
            hidden_offsets, hidden = self._facts_of_heads(
                np.where(is_inverse, tails, heads),
                np.where(is_inverse, self._ids.inverse(relations), relations),
                generator.random(size) < 0.5,
            )
        else:
            hidden_offsets, hidden = hidden_edges(
                self._graph,
                heads,
                relations,
                self._ids.inverse(relations).astype(np.int32),
                target_offsets,
                all_targets,
                all_between=self._settings.hiding == "between",
            )
        seeds = generator.integers(0, 1 << 62, size)
        return Tasks(heads, relations, hidden_offsets, hidden, target_offsets, all_targets, *_ragged(filtered), seeds)

    def _rows(self, numbers: Int64s) -> Int64s:
        """The rows of queries, given their numbers."""
        passes, places = np.divmod(numbers, len(self))
        if len(self) > MOST_PERMUTED:
            return np.concatenate(
                [scattered(places[passes == one], len(self), [self._settings.seed, one]) for one in np.unique(passes).tolist()]
            )
        return np.concatenate([self._permutation(one)[places[passes == one]] for one in np.unique(passes).tolist()])

    def _facts(self, rows: Int64s) -> tuple[Int32s, Int32s, Int32s]:
        """Heads, relations and tails of queries: row i of the training facts, then row i of their inverses."""
        facts, is_inverse = self._train[rows % len(self._train)], rows >= len(self._train)
        return (
            np.where(is_inverse, facts.tails, facts.heads),
            np.where(is_inverse, self._ids.inverse(facts.relations), facts.relations).astype(np.int32),
            np.where(is_inverse, facts.heads, facts.tails),
        )

    def _known_answers(self, heads: Int32s, relations: Int32s) -> list[Int32s]:
        """The known answers of each query, sorted."""
        if self._known is not None:
            offsets, answers = self._known.answers(heads, relations)
            return np.split(answers, offsets[1:-1])
        starts, ends = edges_of_queries(self._graph, heads, relations)
        return [self._graph.tails[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _permutation(self, number: int) -> NDArray[np.integer[Any]]:
        """The order of a pass."""
        if self._order[0] != number:
            self._order = number, np.random.default_rng([self._settings.seed, 1, number]).permutation(len(self))
        return self._order[1]

    def _facts_of_heads(
        self, heads: Int32s, relations: NDArray[np.integer[Any]], has_all: NDArray[np.bool_]
    ) -> tuple[Int64s, Int64s]:
        """The edges of each head's facts and of their inverses, of one relation or of all that are asked: offsets, positions."""
        starts, ends = (np.searchsorted(self._asked.heads, heads, side) for side in SIDES)
        facts = []
        for start, end, relation, every in zip(*(one.tolist() for one in (starts, ends, relations, has_all)), strict=True):
            own = self._asked[start:end]
            facts.append(own if every else own[own.relations == relation])
        return _ragged(hidden_positions(self._graph, facts, self._ids))

    def _asked_together(self, known: Int32s, tail: int, generator: np.random.Generator, *, is_inverse: bool) -> Int32s:
        """The answers that a query asks for: the fact's, and with `num_targets` above 1 some of the other known ones."""
        if self._settings.hiding == "query" or (self._settings.hiding == "head" and not is_inverse):
            return known  # they are hidden, all of them
        if self._settings.hiding == "head":
            return np.array([tail], dtype=np.int32)
        count = 1 if self._settings.num_targets == 1 else int(generator.integers(1, self._settings.num_targets + 1))
        if count == 1 or len(known) == 1:
            return np.array([tail], dtype=np.int32)
        others = known[known != tail]
        count = min(count - 1, len(others), 1 + len(known) // 4)  # most of the known answers stay visible, as in the test
        return np.append(generator.choice(others, count, replace=False), tail).astype(np.int32)


def some_tasks(tasks: Tasks, rows: slice) -> Tasks:
    """Some of the queries of a batch, from the first of the rows to the last."""
    first, last = rows.start, rows.stop

    def part(offsets: Int64s, values: NDArray[Any]) -> tuple[Int64s, NDArray[Any]]:
        return offsets[first : last + 1] - offsets[first], values[offsets[first] : offsets[last]]

    return Tasks(
        tasks.heads[rows],
        tasks.relations[rows],
        *part(tasks.hidden_offsets, tasks.hidden),
        *part(tasks.target_offsets, tasks.targets),
        *part(tasks.filtered_offsets, tasks.filtered),
        tasks.seeds[rows],
    )


def plain_tasks(heads: NDArray[np.integer], relations: NDArray[np.integer], hidden: list[Int64s] | None = None) -> Tasks:
    """Queries to be scored, without answers; `hidden` are the sorted edges hidden from each."""
    nothing, ids = np.zeros(len(heads) + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    hidden_offsets, hidden_positions = _ragged(hidden) if hidden else (nothing, np.empty(0, dtype=np.int64))
    columns = np.array(heads, dtype=np.int32), np.array(relations, dtype=np.int32)  # copies: kernels want writable arrays
    seeds = np.zeros(len(heads), dtype=np.int64)
    return Tasks(*columns, hidden_offsets, hidden_positions.astype(np.int64), nothing, ids, nothing, ids, seeds)


def hidden_positions(graph: RunGraph, facts: Sequence[Triples], relation_ids: RelationIds) -> list[Int64s]:
    """The sorted positions of the edges of facts and of their inverses, for each query whose facts are given."""
    every, ends = Triples.concatenate(facts), np.cumsum([len(part) for part in facts])
    columns = [np.array(column, dtype=np.int32) for column in (every.heads, every.relations, every.tails)]
    inverses = relation_ids.inverse(columns[1]).astype(np.int32)
    offsets, positions = hidden_edges(
        graph, columns[0], columns[1], inverses, np.arange(len(every) + 1), columns[2], all_between=False
    )
    return [np.unique(part) for part in np.split(positions, offsets[ends[:-1]])]


def _ragged(parts: Sequence[NDArray[Any]]) -> tuple[Int64s, NDArray[Any]]:
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.concatenate(parts)
