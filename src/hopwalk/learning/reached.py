"""Scores of the entities that walks reach, without a number for every entity: the size is that of the walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ReachedScores:
    """The scores of the entities that walks reach; those of query i are at `offsets[i]:offsets[i + 1]`.

    All other entities have the score `unreached` of the query [Q].
    """

    offsets: NDArray[np.int64]
    entities: NDArray[np.int32]
    scores: NDArray[np.float32]
    unreached: NDArray[np.float32]

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.unreached)

    @property
    def num_reached(self) -> NDArray[np.int64]:
        """The number of entities that each query reaches [Q]."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The query of each reached entity."""
        return np.repeat(np.arange(len(self)), self.num_reached)

    def of_query(self, row: int) -> ReachedScores:
        """The scores of one query."""
        own = slice(self.offsets[row], self.offsets[row + 1])
        ends = np.array([0, own.stop - own.start])
        return ReachedScores(ends, self.entities[own], self.scores[own], self.unreached[row : row + 1])

    def find(self, rows: NDArray[np.integer[Any]], entities: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """The place of each entity among those that the query in its row reaches, -1 if it is not among them [N]."""
        found = np.full(len(rows), -1)
        if not len(self.entities) or not len(rows):
            return found
        # Zeros cost nothing until they are touched, so this is no work for every entity.
        places = np.zeros(max(int(self.entities.max()), int(entities.max())) + 1, dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(len(self) + 1))
        for row in np.flatnonzero(np.diff(starts)).tolist():
            first, end = self.offsets[row], self.offsets[row + 1]
            own = order[starts[row] : starts[row + 1]]
            places[self.entities[first:end]] = np.arange(first + 1, end + 1)
            found[own] = places[entities[own]] - 1
            places[self.entities[first:end]] = 0
        return found

    def scores_of(self, rows: NDArray[np.integer[Any]], entities: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The score of each entity for the query in its row, reached or not [N]."""
        places = self.find(rows, entities)
        return np.where(places >= 0, np.append(self.scores, np.float32(0))[places], self.unreached[rows])

    def floors(self, num_entities: int) -> NDArray[np.float32]:
        """The score that stands for no walk at all: of entities out of reach, or if there are none, the mean of all [Q].

        Where all entities are reached, training never sees the score of entities out of reach.
        """
        sums = np.bincount(self.rows, self.scores, minlength=len(self))
        means = sums / np.maximum(self.num_reached, 1)
        return np.where(self.num_reached < num_entities, self.unreached, means).astype(np.float32)

    def log_normalisers(self, num_entities: int) -> NDArray[np.float64]:
        """log Σ exp(score) over all entities, for every query [Q]."""
        rows, unreached = self.rows, self.unreached.astype(np.float64)
        largest = unreached.copy()
        np.maximum.at(largest, rows, self.scores)
        sums = np.bincount(rows, np.exp(self.scores - largest[rows]), minlength=len(self))
        sums += (num_entities - self.num_reached) * np.exp(unreached - largest)
        return largest + np.log(sums)

    @staticmethod
    def concatenate(parts: Sequence[ReachedScores]) -> ReachedScores:
        """The queries of all parts, in order."""
        counts = [part.num_reached for part in parts]
        return ReachedScores(
            np.append(0, np.cumsum(np.concatenate([*counts, np.empty(0, dtype=np.int64)]))),
            np.concatenate([*(part.entities for part in parts), np.empty(0, dtype=np.int32)]),
            np.concatenate([*(part.scores for part in parts), np.empty(0, dtype=np.float32)]),
            np.concatenate([*(part.unreached for part in parts), np.empty(0, dtype=np.float32)]),
        )

    def dense(self, num_entities: int, unreached: float | None = None) -> NDArray[np.float32]:
        """The score of every entity for every query [Q, E]; `unreached` is that of entities out of reach, if it is given."""
        others = self.unreached if unreached is None else np.full(len(self), unreached, dtype=np.float32)
        every = np.repeat(others[:, None], num_entities, axis=1)
        every[self.rows, self.entities] = self.scores
        return every
