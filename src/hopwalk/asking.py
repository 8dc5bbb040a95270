"""Questions in words to answers in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hopwalk.answers import Answer, Edge, Path
from hopwalk.data.dataset import Dataset
from hopwalk.walker.beam import Beam, Reached
from hopwalk.walker.runs import TrainedWalker
from hopwalk.walker.steps import Questions

INVERSE = "⁻¹"
ROOM = 4  # how many times as many paths are looked at as are shown: some differ only in where they stay


def ask(
    trained: TrainedWalker, head: str, relation: str, *, k: int = 10, num_paths: int = 3, only_new: bool = False
) -> list[Answer]:
    """The best answers of `(head, relation, ?)`, best first; `relation⁻¹` asks the other way round.

    They are ranked by the blend of paths and scorer; by paths alone where the walker has no scorer. Facts of the graph are among
    them, marked as known; with `only_new` they are left out, and walks do not end there.
    """
    return ask_many(trained, [(head, relation)], k=k, num_paths=num_paths, only_new=only_new)[0]


def ask_many(
    trained: TrainedWalker, questions: Sequence[tuple[str, str]], *, k: int = 10, num_paths: int = 3, only_new: bool = False
) -> list[list[Answer]]:
    """The best answers of many questions `(head, relation)`, decoded together, which is much faster than one after the other."""
    ids = [question_ids(trained, head, relation) for head, relation in questions]
    answers: list[list[Answer]] = []
    for first in range(0, len(ids), trained.decoder.questions_at_once):
        part = torch.tensor(ids[first : first + trained.decoder.questions_at_once])
        answers += _answered(trained, Questions(part[:, 0], part[:, 1]), k, num_paths, only_new)
    return answers


def question_ids(trained: TrainedWalker, head: str, relation: str) -> tuple[int, int]:
    """The entity and the relation of a question, or its inverse."""
    return entity_id(trained, head), directed_relation_id(trained, relation)


def _answered(trained: TrainedWalker, questions: Questions, k: int, num_paths: int, only_new: bool) -> list[list[Answer]]:
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
    chances = None if log_odds is None else torch.sigmoid(log_odds.gather(1, entities)).tolist()
    answers: list[list[Answer]] = []
    for row, head in enumerate(questions.heads.tolist()):
        own = set(known[known_offsets[row] : known_offsets[row + 1]].tolist())
        first, last = int(reached.offsets[row]), int(reached.offsets[row + 1])
        places = dict(zip(reached.entities[first:last].tolist(), range(first, last), strict=True))
        listed: list[Answer] = []
        for column, (entity, score) in enumerate(zip(entities[row].tolist(), scores[row].tolist(), strict=True)):
            if score == -np.inf:
                break
            place = places.get(entity)
            listed.append(
                Answer(
                    entity=dataset.entities.name(entity),
                    rank=column + 1,
                    score=score,
                    is_known=entity in own,
                    log_prob=None if place is None else float(reached.scores[place]),
                    probability=None if chances is None else chances[row][column],
                    paths=() if place is None else paths_to(dataset, head, reached, place, most=num_paths),
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


def paths_to(dataset: Dataset, head_id: int, reached: Reached, place: int, *, most: int | None = None) -> tuple[Path, ...]:
    """The paths to the entity at a place among those reached, likeliest first; of those that differ in their stays, one."""
    stay_id, distinct = dataset.relation_ids.stay_id, dict[tuple[int, ...], tuple[list[int], float]]()
    rows = slice(int(reached.path_offsets[place]), int(reached.path_offsets[place + 1]))
    for steps, log_prob in zip(reached.paths[rows].tolist(), reached.path_scores[rows].tolist(), strict=True):
        edges = (edge for edge in zip(steps[::2], steps[1::2], strict=True) if edge[0] != stay_id)
        distinct.setdefault(tuple(id_ for edge in edges for id_ in edge), (steps, log_prob))
        if len(distinct) == most:
            break
    return tuple(path_of(dataset, head_id, steps, log_prob) for steps, log_prob in distinct.values())


def path_of(dataset: Dataset, head_id: int, steps: list[int], log_prob: float) -> Path:
    """A path of alternating relation and entity ids in words."""
    ids, edges = dataset.relation_ids, []
    for relation, entity in zip(steps[::2], steps[1::2], strict=True):
        if relation == ids.stay_id:
            continue
        is_inverse = bool(ids.is_inverse(relation))
        name = dataset.relations.name(ids.inverse(relation) if is_inverse else relation)
        edges.append(Edge(name, dataset.entities.name(entity), is_inverse))
    return Path(dataset.entities.name(head_id), tuple(edges), log_prob)


def entity_id(trained: TrainedWalker, text: str) -> int:
    """The entity that the text names: exactly, or but for case, blanks and underscores."""
    return trained.entity_names.id(text)


def directed_relation_id(trained: TrainedWalker, text: str) -> int:
    """The relation that the text names, or with ⁻¹ at its end the inverse of it."""
    stem = text if text in trained.dataset.relations else text.removesuffix(INVERSE)
    found = trained.relation_names.id(stem)
    return found if stem == text else trained.dataset.relation_ids.inverse(found)
