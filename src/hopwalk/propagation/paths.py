"""The walks behind a score: candidates by the derivatives of the score, then each is taken away to see what it carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopwalk.propagation.graph import Int64s, hidden_edges
from hopwalk.propagation.model import EdgeGradients
from hopwalk.propagation.queries import plain_tasks
from hopwalk.propagation.scorer import PropagationScorer

Step = tuple[int, int]  # relation, entity
MOST_EDGES = 400  # of a layer: those of largest derivative
MOST_PARTIAL = 6  # walks kept at a node


@dataclass(frozen=True)
class ScoredPath:
    """A simple path from the head, and how far the score falls without its edges."""

    steps: tuple[Step, ...]
    drop: float


def paths_behind(
    scorer: PropagationScorer, head: int, relation: int, entity: int, *, num_paths: int, hidden: Int64s, num_candidates: int = 12
) -> tuple[float, list[ScoredPath]]:
    """The score of an entity above that of entities out of reach, and the paths without which it falls furthest.

    `hidden` are edges that the query does not see.
    """
    tasks = plain_tasks(np.array([head]), np.array([relation]), [hidden])
    gradients = scorer.model.explain(scorer.engine, tasks, entity)
    if gradients is None:
        return 0.0, []
    candidates = best_paths(gradients, head, entity, num_candidates)
    removed = [np.union1d(hidden, edges_of_path(scorer, head, steps)) for steps in candidates]
    count = len(removed) + 1
    tasks = plain_tasks(np.full(count, head), np.full(count, relation), [hidden, *removed])
    scores = scorer.model.score_all(scorer.engine, tasks)[0][:, entity]
    found = [ScoredPath(steps, float(scores[0] - without)) for steps, without in zip(candidates, scores[1:], strict=True)]
    unreached = float(scorer.model.unreached[relation].detach())
    return float(scores[0]) - unreached, sorted(found, key=lambda path: -path.drop)[:num_paths]


def edges_of_path(scorer: PropagationScorer, head: int, steps: tuple[Step, ...]) -> Int64s:
    """The positions of a path's edges and of their inverses, sorted."""
    entities = np.array([head, *(entity for _, entity in steps)], dtype=np.int32)
    relations = np.array([relation for relation, _ in steps], dtype=np.int32)
    inverses = scorer.relation_ids.inverse(relations).astype(np.int32)
    offsets = np.arange(len(steps) + 1, dtype=np.int64)
    graph = scorer.engine.graph
    return np.unique(hidden_edges(graph, entities[:-1], relations, inverses, offsets, entities[1:], all_between=False)[1])


def best_paths(gradients: EdgeGradients, head: int, entity: int, count: int) -> list[tuple[Step, ...]]:
    """The simple paths from head to entity with the largest sums of derivatives; layers may be skipped, as states persist."""
    partial: dict[int, list[tuple[float, tuple[Step, ...]]]] = {head: [(0.0, ())]}
    for layer in range(len(gradients.offsets) - 1):
        rows = np.arange(gradients.offsets[layer], gradients.offsets[layer + 1])
        rows = rows[gradients.values[rows] > 0]
        rows = rows[np.argsort(-gradients.values[rows], kind="stable")[:MOST_EDGES]]
        added: dict[int, list[tuple[float, tuple[Step, ...]]]] = {}
        columns = (gradients.sources, gradients.relations, gradients.targets, gradients.values)
        for source, relation, target, value in zip(*(column[rows].tolist() for column in columns), strict=True):
            for weight, steps in partial.get(source, ()):
                if target != head and all(target != passed for _, passed in steps):
                    added.setdefault(target, []).append((weight + value, (*steps, (relation, target))))
        for target, walks in added.items():
            best = {steps: weight for weight, steps in sorted([*partial.get(target, ()), *walks], key=lambda walk: walk[0])}
            most = count if target == entity else MOST_PARTIAL
            partial[target] = sorted(((weight, steps) for steps, weight in best.items()), key=lambda walk: -walk[0])[:most]
    return [steps for _, steps in partial.get(entity, ()) if steps]
