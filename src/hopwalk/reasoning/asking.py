"""Answers of queries: the best entities by the blend of paths and scorer, each with its best paths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.dataset import Dataset
from hopwalk.reasoning.names import relation_label
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, Reached
from hopwalk.walker.decoding import Decoder, blend
from hopwalk.walker.environment import Queries

SPARE = 4  # times as many paths are decoded as are shown, because some differ only in where they stay
QueryIds = tuple[int, int]  # head, relation


def answer_queries(
    decoder: Decoder, dataset: Dataset, queries: Sequence[QueryIds], *, k: int, num_paths: int, only_new: bool
) -> list[list[Answer]]:
    """The `k` best answers of each query, decoded together, which is much faster than one by one.

    They are ranked by the blend of paths and scorer; by paths alone without a scorer. Known answers are marked as known; with
    `only_new` they are left out, and walks do not end at them.
    """
    distinct = sorted({*queries})  # walks from the same head share their encodings
    at_once = decoder.queries_at_once
    batches = [distinct[first : first + at_once] for first in range(0, len(distinct), at_once)]

    def answer(batch: list[QueryIds]) -> list[list[Answer]]:
        return _answer_batch(decoder, dataset, Queries(*torch.tensor(batch).unbind(dim=1)), k, num_paths, only_new)

    found = [answers for batch in on_all_threads(answer, batches) for answers in batch]
    by_query = dict(zip(distinct, found, strict=True))
    return [by_query[query] for query in queries]


def _answer_batch(
    decoder: Decoder, dataset: Dataset, queries: Queries, k: int, num_paths: int, only_new: bool
) -> list[list[Answer]]:
    scorer_logits = decoder.logits(queries)
    beam = decoder.search(queries, scorer_logits, blocks_known=only_new)
    known_offsets, known = decoder.environment.known.answers(queries.heads.numpy(), queries.relations.numpy())
    if only_new:
        hidden = torch.from_numpy(np.repeat(np.arange(len(queries)), np.diff(known_offsets))), torch.from_numpy(known).long()
        beam = beam.without(*hidden)
        if scorer_logits is not None:
            scorer_logits[hidden] = -torch.inf
    entities, scores, is_chosen = _best(beam, scorer_logits, decoder.blend_weight or 0.0, k)
    reached = beam.reached(is_chosen, num_paths=SPARE * num_paths)
    probabilities = None if scorer_logits is None else torch.sigmoid(scorer_logits.gather(1, entities)).numpy().tolist()
    bounds, log_probs, paths = reached.offsets.numpy().tolist(), reached.scores.numpy().tolist(), PathLabels(dataset, reached)
    answers: list[list[Answer]] = []
    for row, (head, best, best_scores) in enumerate(
        zip(queries.heads.tolist(), entities.numpy().tolist(), scores.numpy().tolist(), strict=True)
    ):
        own = set(known[known_offsets[row] : known_offsets[row + 1]].tolist())
        span = range(bounds[row], bounds[row + 1])
        places = dict(zip(reached.entities[span.start : span.stop].tolist(), span, strict=True))
        of_query = []
        for column, (entity, score) in enumerate(zip(best, best_scores, strict=True)):
            if score == -np.inf:
                break
            place = places.get(entity)
            of_query.append(
                Answer(
                    entity=dataset.entities.name(entity),
                    rank=column + 1,
                    score=score,
                    is_known=entity in own,
                    log_prob=None if place is None else log_probs[place],
                    probability=None if probabilities is None else probabilities[row][column],
                    paths=() if place is None else paths.to(place, head, most=num_paths),
                    key=dataset.entities[entity],
                )
            )
        answers.append(of_query)
    return answers


def _best(beam: Beam, scorer_logits: Tensor | None, weight: float, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `k` best entities of each query and their scores [Q, k], and which of the beam's entities they are [Q, B].

    Paths only add to the scorer's logit, so only entities of the beam and the scorer's best can be among the best of the blend.
    """
    entities, scores = beam.entities, beam.scores
    if scorer_logits is not None:
        is_reached = scores > -torch.inf
        blended = blend(scores, scorer_logits.gather(1, entities), weight).masked_fill(~is_reached, -torch.inf)
        top = torch.topk(scorer_logits, min(k, scorer_logits.shape[1]), dim=1)
        is_in_beam = ((top.indices[:, :, None] == entities[:, None, :]) & is_reached[:, None, :]).any(dim=2)
        entities = torch.cat([entities, top.indices], dim=1)
        scores = torch.cat([blended, top.values.masked_fill(is_in_beam, -torch.inf)], dim=1)
    order = torch.from_numpy(np.lexsort((entities.numpy(), -scores.numpy()), axis=1)[:, :k].copy())
    is_chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True)[:, : beam.entities.shape[1]]
    return entities.gather(1, order), scores.gather(1, order), is_chosen


class PathLabels:
    """The paths to the entities that were reached, as labels."""

    def __init__(self, dataset: Dataset, reached: Reached) -> None:
        # By way of numpy, whose `tolist` takes a hundredth of the time of torch's.
        self._offsets, self._paths = reached.path_offsets.numpy().tolist(), reached.paths.numpy().tolist()
        self._log_probs: list[float] = reached.path_log_probs.numpy().tolist()
        self._stay_id = dataset.relation_ids.stay_id
        self._dataset, self._edge = dataset, cache(self._label_edge)  # the same edges come again and again

    def to(self, place: int, head_id: int, *, most: int | None = None) -> tuple[ReasoningPath, ...]:
        """The paths to the entity at a place, likeliest first; of paths that differ only in where they stay, one."""
        distinct: dict[tuple[int, ...], float] = {}
        for row in range(self._offsets[place], self._offsets[place + 1]):
            steps = self._paths[row]
            if self._stay_id in steps[::2]:
                moves = (step for step in zip(steps[::2], steps[1::2], strict=True) if step[0] != self._stay_id)
                steps = [id_ for step in moves for id_ in step]
            distinct.setdefault(tuple(steps), self._log_probs[row])
            if len(distinct) == most:
                break
        head = self._dataset.entities.name(head_id)
        return tuple(
            ReasoningPath(head, tuple(map(self._edge, steps[::2], steps[1::2])), log_prob) for steps, log_prob in distinct.items()
        )

    def _label_edge(self, relation_id: int, entity_id: int) -> Edge:
        name, is_inverse = relation_label(self._dataset, relation_id)
        return Edge(name, self._dataset.entities.name(entity_id), is_inverse)
