"""The paths behind a score: candidates by the derivatives of the score, then each is taken away to see what it carries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.relation_ids import RelationIds
from hopwalk.data.triples import Triples
from hopwalk.learning.scorer import ScoredPath, Step
from hopwalk.propagation.graph import Int32s, Int64s, RunGraph, hidden_edges
from hopwalk.propagation.model import Engine, Propagation
from hopwalk.propagation.parameters import PerQuery, Shared
from hopwalk.propagation.queries import plain_tasks

NUM_CANDIDATES = 12  # paths of an entity that are taken away one by one


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

    Paths without which the score rises are left out, unless an entity has no other. The query does not see the facts `hidden`.
    """
    graph, relation_ids = engine.graph, RelationIds(model.num_relations // 2)
    unseen = np.empty(0, dtype=np.int64) if hidden is None else edges_of_facts(graph, relation_ids, hidden)
    ends = np.array(entities, dtype=np.int32)
    arrays = model.arrays(np.array([relation], dtype=np.int32))
    tasks = plain_tasks(np.array([head]), np.array([relation]), [unseen])
    scores, paths = engine.explain(tasks, *arrays, ends, max(NUM_CANDIDATES, num_paths))
    owners, numbers = np.nonzero(paths[:, :, 0] >= 0)
    candidates = [path[path >= 0] for path in paths[owners, numbers]]
    removed = [np.union1d(unseen, with_inverses(graph, relation_ids, path)) for path in candidates]
    left = _scores_without(engine, arrays, head, relation, ends[owners], removed)
    found: list[list[ScoredPath]] = [[] for _ in entities]
    for owner, path, score in zip(owners.tolist(), candidates, left.tolist(), strict=True):
        total = float(scores[owner] - arrays[1].unreached[0])
        drop = float(scores[owner]) - score
        share = min(drop / total, 1.0) if total > 0 else 0.0
        found[owner].append(ScoredPath(steps_of(graph, path), drop, share))
    return [_best(paths, num_paths) for paths in found]


def _best(paths: list[ScoredPath], count: int) -> list[ScoredPath]:
    """The paths that carry most; one that carries nothing only if there is no other."""
    ordered = sorted(paths, key=lambda path: -path.drop)
    return [path for path in ordered if path.drop > 0][:count] or ordered[:1]


def _scores_without(
    engine: Engine, arrays: tuple[Shared, PerQuery], head: int, relation: int, entities: Int32s, removed: list[Int64s]
) -> NDArray[np.float32]:
    """The score of each entity if the edges beside it were not there [N]."""
    count = len(entities)
    tasks = plain_tasks(np.full(count, head), np.full(count, relation), removed)
    return engine.score_entities(tasks, *arrays, entities)


def edges_of_facts(graph: RunGraph, relation_ids: RelationIds, facts: Triples) -> Int64s:
    """The sorted positions of the edges of facts and of their inverses, without facts that the graph does not have."""
    offsets = np.arange(len(facts) + 1, dtype=np.int64)
    inverses = relation_ids.inverse(facts.relations).astype(np.int32)
    columns = facts.heads.astype(np.int32), facts.relations.astype(np.int32), inverses
    return np.unique(hidden_edges(graph, *columns, offsets, facts.tails.astype(np.int32), all_between=False)[1])


def with_inverses(graph: RunGraph, relation_ids: RelationIds, path: Int64s) -> Int64s:
    """The sorted positions of some edges and of their inverses."""
    runs = _runs_of(graph, path)
    sources = np.searchsorted(graph.run_offsets, runs, side="right") - 1
    return edges_of_facts(graph, relation_ids, Triples(sources.astype(np.int32), graph.run_relations[runs], graph.tails[path]))


def steps_of(graph: RunGraph, path: Int64s) -> tuple[Step, ...]:
    """The relations of some edges and the entities that they lead to."""
    return tuple(zip(graph.run_relations[_runs_of(graph, path)].tolist(), graph.tails[path].tolist(), strict=True))


def _runs_of(graph: RunGraph, edges: Int64s) -> NDArray[np.int64]:
    return np.searchsorted(graph.run_starts, edges, side="right") - 1
