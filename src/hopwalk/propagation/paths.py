"""The paths behind a score: candidates by the derivatives of the score, then each is taken away to see what it carries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.learning.scorer import ScoredPath, Step
from hopwalk.learning.shares import scored_paths
from hopwalk.propagation.graph import Floats, Int64s, RunGraph
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.queries import hidden_positions, plain_tasks

NUM_CANDIDATES = 8  # paths of an entity that are taken away one by one


def paths_behind(
    model: Propagation,
    engine: Engine,
    head: int,
    relation: int,
    entities: Sequence[int],
    *,
    num_paths: int,
    hidden: Triples | None = None,
) -> list[list[ScoredPath]]:
    """The simple paths without which the scores of some entities fall furthest, for each the best first.

    Every path is looked for where those before it are taken away already: together they carry more than the best ones by
    themselves, which are often variants of one another. They have no fact in common. A path without which the score does not
    fall is given only if an entity has no other. The query does not see the facts `hidden`.
    """
    search = _Search(model, engine, head, relation, entities, hidden)
    for _ in range(num_paths):
        search.add_paths()
    return search.shared_out()


class _Search:
    """The paths found so far of N answers of one query, and the scores that the answers have without them."""

    def __init__(
        self, model: Propagation, engine: Engine, head: int, relation: int, entities: Sequence[int], hidden: Triples | None
    ) -> None:
        self._engine, self._head, self._relation = engine, head, relation
        self._relation_ids = RelationIds(model.num_relations // 2)
        self._arrays = model.arrays(np.array([relation], dtype=np.int32))
        self._entities = np.array(entities, dtype=np.int32)
        nothing = np.empty(0, dtype=np.int64)
        self._hidden = nothing if hidden is None else hidden_positions(engine.graph, [hidden], self._relation_ids)[0]
        first = engine.explain(self._tasks([self._hidden]), *self._arrays, self._entities, NUM_CANDIDATES)
        self._candidates = [_listed(paths) for paths in first.paths]
        self._paths: list[list[Int64s]] = [[] for _ in entities]
        self._floor = float(first.floors[0])
        self._scores = [[score] for score in first.scores.tolist()]  # without none, the first, the first two, … of the paths

    def add_paths(self) -> None:
        """Find the next path of every answer that has one."""
        owners = [owner for owner, candidates in enumerate(self._candidates) for _ in candidates]
        paths = [path for candidates in self._candidates for path in candidates]
        scores = self._scores_without(owners, [[*self._paths[owner], path] for owner, path in zip(owners, paths, strict=True)])
        first = 0
        for owner, candidates in enumerate(self._candidates):
            if candidates:
                row = first + int(np.argmin(scores[first : first + len(candidates)]))
                first += len(candidates)
                self._candidates[owner] = self._take(owner, paths[row], float(scores[row]))

    def _take(self, owner: int, path: Int64s, score: float) -> list[Int64s]:
        """Note a path of an answer; give the candidates for the next."""
        falls = score < self._scores[owner][-1]
        if falls or not self._paths[owner]:
            self._paths[owner].append(path)
            self._scores[owner].append(score)
        if not falls:
            return []
        tasks = self._tasks([self._without(self._paths[owner])])
        found = self._engine.explain(tasks, *self._arrays, self._entities[owner : owner + 1], NUM_CANDIDATES)
        return _listed(found.paths[0])

    def shared_out(self) -> list[list[ScoredPath]]:
        """The paths of each answer. The fall of the score without all of them is shared out among them."""
        owners = [owner for owner, paths in enumerate(self._paths) for _ in paths[1:]]
        ends = [paths[first:] for paths in self._paths for first in range(1, len(paths))]
        scores = self._scores_without(owners, ends).tolist()
        found = []
        for paths, forward in zip(self._paths, self._scores, strict=True):
            count = max(len(paths) - 1, 0)
            backward = [forward[-1], *scores[:count], forward[0]]
            del scores[:count]
            steps = [steps_of(self._engine.graph, path) for path in paths]
            found.append(scored_paths(steps, forward, backward, self._floor))
        return found

    def _scores_without(self, owners: list[int], paths: list[list[Int64s]]) -> Floats:
        """The score of each answer without the paths beside it, that of no walk at all if it is out of reach [N]."""
        tasks = self._tasks([self._without(some) for some in paths])
        scores = self._engine.score_entities(tasks, *self._arrays, self._entities[owners])
        return np.where(np.isinf(scores), np.float32(self._floor), scores)

    def _without(self, paths: list[Int64s]) -> Int64s:
        """The sorted edges that a query does not see if some paths are taken away, in both directions."""
        return np.union1d(self._hidden, with_inverses(self._engine.graph, self._relation_ids, np.concatenate(paths)))

    def _tasks(self, hidden: list[Int64s]) -> Tasks:
        return plain_tasks(np.full(len(hidden), self._head), np.full(len(hidden), self._relation), hidden)


def _listed(paths: Int64s) -> list[Int64s]:
    """The edges of each path of an array that is filled up with -1."""
    return [path[path >= 0] for path in paths if path[0] >= 0]


def with_inverses(graph: RunGraph, relation_ids: RelationIds, edges: Int64s) -> Int64s:
    """The sorted positions of some edges and of their inverses."""
    runs = _runs_of(graph, edges)
    sources = np.searchsorted(graph.run_offsets, runs, side="right") - 1
    facts = Triples(sources.astype(np.int32), graph.run_relations[runs], graph.tails[edges])
    return hidden_positions(graph, [facts], relation_ids)[0]


def steps_of(graph: RunGraph, path: Int64s) -> tuple[Step, ...]:
    """The relations of some edges and the entities that they lead to."""
    return tuple(zip(graph.run_relations[_runs_of(graph, path)].tolist(), graph.tails[path].tolist(), strict=True))


def _runs_of(graph: RunGraph, edges: Int64s) -> NDArray[np.int64]:
    return np.searchsorted(graph.run_starts, edges, side="right") - 1
