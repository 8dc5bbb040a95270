"""Answers of queries: the best candidates of a model, each with the paths behind its score."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.learning.scorer import Step
from hopwalk.reasoning.models import AnswerModel, Candidates, PathIds, QueryIds
from hopwalk.reasoning.names import relation_label
from hopwalk.reasoning.probabilities import by_probability, pool_size, probabilities
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath


def answer_queries(
    model: AnswerModel, queries: Sequence[QueryIds], *, k: int, num_paths: int, only_new: bool
) -> list[list[Answer]]:
    """The `k` best answers of each query, ranked together, which is much faster than one by one.

    The best candidates by score are ranked by their probability, which sees facts from both ends. Known answers are marked as
    known, and have no probability; with `only_new` they are left out. A head is not an answer to itself, unless the relation has
    facts that say so.
    """
    distinct = sorted({*queries})  # queries about the same head share work
    labels = PathLabels(model.dataset)
    found: list[list[Answer]] = []
    for first in range(0, len(distinct), model.queries_at_once):
        found += _answer_batch(model, labels, distinct[first : first + model.queries_at_once], k, num_paths, only_new)
    by_query = dict(zip(distinct, found, strict=True))
    return [by_query[query] for query in queries]


def _answer_batch(
    model: AnswerModel, labels: PathLabels, queries: Sequence[QueryIds], k: int, num_paths: int, only_new: bool
) -> list[list[Answer]]:
    entities = model.dataset.entities
    ranking = model.rank(queries, only_new=only_new, k=pool_size(k) + 1)  # one more, since the head may be among them
    candidates: list[Candidates] = []
    for (head, relation), found in zip(queries, ranking.candidates, strict=True):
        left_out = -1 if may_be_itself(model.dataset, relation) else head
        candidates.append(found.part(found.entities != left_out).part(slice(pool_size(k))))
    chances = probabilities(model, queries, candidates)
    if chances is not None:
        orders = [by_probability(found, own)[:k] for found, own in zip(candidates, chances, strict=True)]
        chances = [own[order] for own, order in zip(chances, orders, strict=True)]
        candidates = [found.part(order) for found, order in zip(candidates, orders, strict=True)]
    candidates = [found.part(slice(k)) for found in candidates]
    chosen = [found.entities.tolist() for found in candidates]
    paths = ranking.paths(chosen, num_paths)
    known_offsets, known = model.known.answers(*(np.array(ids, dtype=np.int32) for ids in zip(*queries, strict=True)))
    answers = []
    for row, (head, relation) in enumerate(queries):
        own, found = set(known[known_offsets[row] : known_offsets[row + 1]].tolist()), candidates[row]
        answers.append(
            [
                Answer(
                    entity=entities.name(entity),
                    rank=number,
                    score=float(found.scores[number - 1]),
                    is_known=entity in own,
                    probability=None if chances is None or entity in own else float(chances[row][number - 1]),
                    paths=labels.paths(head, reasons(head, relation, entity, paths[row][number - 1])),
                    key=entities[entity],
                    threshold=0.0 if model.probability is None else model.probability.threshold,
                )
                for number, entity in enumerate(chosen[row], start=1)
            ]
        )
    return answers


def may_be_itself(dataset: Dataset, relation: int) -> bool:
    """Whether a head can be its own answer: whether the relation, or the one it is the inverse of, has such facts."""
    ids = dataset.relation_ids
    return int(ids.inverse(relation) if ids.is_inverse(relation) else relation) in dataset.loop_relations


def reasons(head: int, relation: int, entity: int, paths: Sequence[PathIds]) -> list[PathIds]:
    """The paths that are reasons: a fact is none for itself, nor is one that is found by going there and back before it.

    Loops are taken out of walks, and walks that are then the same are one.
    """
    found: dict[tuple[Step, ...], float] = {}
    for steps, share in paths:
        plain = steps if entity == head else _without_loops(head, steps)
        if plain != ((relation, entity),):
            found[plain] = found.get(plain, 0.0) + share
    return list(found.items())


def _without_loops(head: int, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The walk without what lies between two visits of the same entity."""
    visited, kept = [head], list[Step]()
    for step in steps:
        if step[1] in visited:
            place = visited.index(step[1])
            del visited[place + 1 :], kept[place:]
        else:
            visited.append(step[1])
            kept.append(step)
    return tuple(kept)


class PathLabels:
    """Paths of ids as paths of readable names."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._edge = dataset, cache(self._label_edge)  # the same edges come again and again

    def paths(self, head_id: int, paths: Sequence[PathIds]) -> tuple[ReasoningPath, ...]:
        """The paths that leave a head."""
        head = self._dataset.entities.name(head_id)
        return tuple(ReasoningPath(head, tuple(self._edge(step) for step in steps), share) for steps, share in paths)

    def _label_edge(self, step: Step) -> Edge:
        name, is_inverse = relation_label(self._dataset, step[0])
        return Edge(name, self._dataset.entities.name(step[1]), is_inverse, self._dataset.entities[step[1]])
