"""Questions in words to answers in words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from hopwalk.data.dataset import Dataset
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.values import INVERSE as INVERSE
from hopwalk.reasoning.values import Answer, Edge, Path
from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.beam import Beam, Reached
from hopwalk.walker.environment import Questions
from hopwalk.walker.runs import TrainedWalker

ROOM = 4  # how many times as many paths are looked at as are shown: some differ only in where they stay


def ask(trained: TrainedWalker, head: str, relation: str, *, k: int = 10, num_paths: int = 3, only_new: bool = False) -> Answers:
    """The best answers of `(head, relation, ?)`, best first; `relation⁻¹` asks the other way round.

    They are ranked by the blend of paths and scorer; by paths alone where the walker has no scorer. Facts of the graph are among
    them, marked as known; with `only_new` they are left out, and walks do not end there.
    """
    return ask_many(trained, [(head, relation)], k=k, num_paths=num_paths, only_new=only_new)[0]


def ask_many(
    trained: TrainedWalker, questions: Sequence[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
) -> list[Answers]:
    """The best answers of many questions `(head, relation)`, decoded together, which is much faster than one after the other."""
    ids = [question_ids(trained, head, relation) for head, relation in questions]
    distinct = sorted({*ids})  # walks from the same head share what they read
    at_once = trained.decoder.questions_at_once
    parts = [distinct[first : first + at_once] for first in range(0, len(distinct), at_once)]

    def answered(part: list[tuple[int, int]]) -> list[Answers]:
        return _answered(trained, Questions(*torch.tensor(part).unbind(dim=1)), k, num_paths, only_new)

    found = [answers for listed in on_all_threads(answered, parts) for answers in listed]
    of_question = dict(zip(distinct, found, strict=True))
    return [of_question[question] for question in ids]


def question_ids(trained: TrainedWalker, head: str, relation: str) -> tuple[int, int]:
    """The entity and the relation of a question, or its inverse."""
    return entity_id(trained, head), directed_relation_id(trained, relation)


def _answered(trained: TrainedWalker, questions: Questions, k: int, num_paths: int, only_new: bool) -> list[Answers]:
    dataset = trained.dataset
    log_odds = trained.opinions.log_odds(questions.heads, questions.relations) if trained.opinions is not None else None
    found = trained.decoder.searched(questions, log_odds, blocks_known=only_new)
    known_offsets, known = trained.walker.known.answers(questions.heads.numpy(), questions.relations.numpy())
    if only_new:
        hidden = torch.from_numpy(np.repeat(np.arange(len(questions)), np.diff(known_offsets))), torch.from_numpy(known).long()
        found = found.without(*hidden)
        if log_odds is not None:
            log_odds[hidden] = -torch.inf
    entities, scores, is_chosen = _best(found, log_odds, trained.blend_weight or 0.0, k)
    reached = found.reached(is_chosen, num_paths=ROOM * num_paths)
    chances = None if log_odds is None else torch.sigmoid(log_odds.gather(1, entities)).numpy().tolist()
    answers: list[Answers] = []
    bounds, log_probs, paths = reached.offsets.numpy().tolist(), reached.scores.numpy().tolist(), PathsInWords(dataset, reached)
    listed_entities, listed_scores = entities.numpy().tolist(), scores.numpy().tolist()
    for row, (head, relation) in enumerate(zip(questions.heads.tolist(), questions.relations.tolist(), strict=True)):
        own = set(known[known_offsets[row] : known_offsets[row + 1]].tolist())
        places = dict(
            zip(reached.entities[bounds[row] : bounds[row + 1]].tolist(), range(bounds[row], bounds[row + 1]), strict=True)
        )
        name = dataset.entities.name(head), directed_relation_name(dataset, relation)
        listed = Answers([], *name, hops=trained.settings.walk.hops)
        for column, (entity, score) in enumerate(zip(listed_entities[row], listed_scores[row], strict=True)):
            if score == -np.inf:
                break
            place = places.get(entity)
            listed.append(
                Answer(
                    entity=dataset.entities.name(entity),
                    rank=column + 1,
                    score=score,
                    is_known=entity in own,
                    log_prob=None if place is None else log_probs[place],
                    probability=None if chances is None else chances[row][column],
                    paths=() if place is None else paths.to(place, head, most=num_paths),
                    key=dataset.entities[entity],
                )
            )
        answers.append(listed)
    return answers


def _best(found: Beam, log_odds: Tensor | None, weight: float, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `k` best entities of each question and their scores [Q, k], and which of the beam's they are [Q, B].

    That is by the blend of `walker.decoding`. Paths only add to the scorer's log-odds, so only those reached and those that the
    scorer likes best can be among the best.
    """
    entities, scores = found.entities, found.scores
    if log_odds is not None:
        least = scores.masked_fill(scores == -torch.inf, 0.0).amin(dim=1, keepdim=True)
        is_reached = scores > -torch.inf
        above = (weight * (scores - least)).masked_fill(~is_reached, 0.0)
        blended = (log_odds.gather(1, entities) + above).masked_fill(~is_reached, -torch.inf)
        liked = torch.topk(log_odds, min(k, log_odds.shape[1]), dim=1)
        is_twice = ((liked.indices[:, :, None] == entities[:, None, :]) & is_reached[:, None, :]).any(dim=2)
        entities = torch.cat([entities, liked.indices], dim=1)
        scores = torch.cat([blended, liked.values.masked_fill(is_twice, -torch.inf)], dim=1)
    order = torch.from_numpy(np.lexsort((entities.numpy(), -scores.numpy()), axis=1)[:, :k].copy())
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True)[:, : found.entities.shape[1]]
    return entities.gather(1, order), scores.gather(1, order), chosen


class PathsInWords:
    """The paths to the entities that were reached, with the names of what they pass."""

    def __init__(self, dataset: Dataset, reached: Reached) -> None:
        # By way of numpy, whose `tolist` takes a hundredth of the time of torch's.
        self._offsets, self._paths = reached.path_offsets.numpy().tolist(), reached.paths.numpy().tolist()
        self._log_probs: list[float] = reached.path_scores.numpy().tolist()
        self._stay_id = dataset.relation_ids.stay_id
        self._dataset, self._edge = dataset, cache(self._edge_in_words)  # the same edges come again and again

    def to(self, place: int, head_id: int, *, most: int | None = None) -> tuple[Path, ...]:
        """The paths to the entity at a place, likeliest first; of those that differ only in their stays, one."""
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
        return tuple(Path(head, tuple(map(self._edge, way[::2], way[1::2])), log_prob) for way, log_prob in distinct.items())

    def _edge_in_words(self, relation_id: int, entity_id: int) -> Edge:
        name, is_inverse = relation_in_words(self._dataset, relation_id)
        return Edge(name, self._dataset.entities.name(entity_id), is_inverse)


def relation_in_words(dataset: Dataset, relation_id: int) -> tuple[str, bool]:
    """The name of a relation, or that of which it is the inverse, and whether it is an inverse."""
    ids = dataset.relation_ids
    is_inverse = bool(ids.is_inverse(relation_id))
    return dataset.relations.name(ids.inverse(relation_id) if is_inverse else relation_id), is_inverse


def directed_relation_name(dataset: Dataset, relation_id: int) -> str:
    """The name of a relation, with ⁻¹ at its end if it is an inverse."""
    name, is_inverse = relation_in_words(dataset, relation_id)
    return f"{name}{INVERSE}" if is_inverse else name


def entity_id(trained: TrainedWalker, text: str) -> int:
    """The entity that the text names: exactly, or but for case, blanks and underscores."""
    return trained.entity_names.id(text)


def directed_relation_id(trained: TrainedWalker, text: str) -> int:
    """The relation that the text names, or with ⁻¹ at its end the inverse of it."""
    stem = text if text in trained.dataset.relations else text.removesuffix(INVERSE)
    found = trained.relation_names.id(stem)
    return found if stem == text else trained.dataset.relation_ids.inverse(found)
