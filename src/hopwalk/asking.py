"""Questions in words to answers in words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from hopwalk.answers import Answer, Edge, Path
from hopwalk.config import fold_name
from hopwalk.data.dataset import Dataset
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import UnknownNameError, did_you_mean
from hopwalk.walker.beam import Reached
from hopwalk.walker.decoding import blend
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
    dataset = trained.dataset
    head_id, relation_id = entity_id(dataset, head), directed_relation_id(dataset, relation)
    questions = Questions(torch.tensor([head_id]), torch.tensor([relation_id]))
    reached = trained.decoder.reached(questions, num_paths=ROOM * num_paths, blocks_known=only_new)
    by_paths = np.full((1, len(dataset.entities)), -np.inf, dtype=np.float32)
    by_paths[0, reached.entities.numpy()] = reached.scores.numpy()
    scores, probabilities = by_paths[0], None
    if trained.opinions is not None:
        log_odds = trained.opinions.log_odds(questions.heads, questions.relations)
        probabilities = torch.sigmoid(log_odds)[0].numpy()
        scores = blend(by_paths, log_odds.numpy(), trained.blend_weight or 0.0)[0]
    places = {entity: place for place, entity in enumerate(reached.entities.tolist())}
    known = set(trained.walker.known.answers(_ids(head_id), _ids(relation_id))[1].tolist())
    if only_new:
        scores = scores.copy()
        scores[list(known)] = -np.inf
    best = np.argsort(-scores, kind="stable")[:k]
    answers = []
    for rank, entity in enumerate((found for found in best.tolist() if scores[found] > -np.inf), start=1):
        place = places.get(entity)
        paths = () if place is None else paths_to(dataset, head_id, reached, place)[:num_paths]
        answers.append(
            Answer(
                entity=dataset.entities.name(entity),
                rank=rank,
                score=float(scores[entity]),
                is_known=entity in known,
                log_prob=None if place is None else float(reached.scores[place]),
                probability=None if probabilities is None else float(probabilities[entity]),
                paths=paths,
            )
        )
    return answers


def _ids(id_: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array([id_], dtype=np.int32)


def paths_to(dataset: Dataset, head_id: int, reached: Reached, place: int) -> tuple[Path, ...]:
    """The paths to the entity at a place among those reached, likeliest first; of those that differ in their stays, one."""
    rows = range(int(reached.path_offsets[place]), int(reached.path_offsets[place + 1]))
    found = (path_of(dataset, head_id, reached.paths[row].tolist(), float(reached.path_scores[row])) for row in rows)
    distinct: dict[tuple[Edge, ...], Path] = {}
    for path in found:
        distinct.setdefault(path.edges, path)
    return tuple(distinct.values())


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


def entity_id(dataset: Dataset, text: str) -> int:
    """The entity that the text names: exactly, or but for case, blanks and underscores."""
    return _found(dataset.entities, text, "entity", "entities")


def directed_relation_id(dataset: Dataset, text: str) -> int:
    """The relation that the text names, or with ⁻¹ at its end the inverse of it."""
    stem = text.removesuffix(INVERSE)
    found = _found(dataset.relations, stem, "relation", "relations")
    return found if stem == text else dataset.relation_ids.inverse(found)


def _found(vocabulary: Vocabulary, text: str, kind: str, kinds: str) -> int:
    if text in vocabulary:
        return vocabulary.id(text)
    wanted = fold_name(text)
    names = [vocabulary.name(id_) for id_ in range(len(vocabulary))] if vocabulary.has_names else None
    same = [id_ for id_, label in enumerate(vocabulary) if fold_name(label) == wanted]
    if not same and names:
        same = [id_ for id_, name in enumerate(names) if fold_name(name) == wanted]
    if len(same) == 1:
        return same[0]
    if same:
        raise UnknownNameError(
            f"{text!r} may be any of several {kinds}", remedy=f"Which one: {_listed(vocabulary[id_] for id_ in same[:5])}?"
        )
    remedy = did_you_mean(text, names or vocabulary, most=5, cutoff=0.5)
    if not remedy and len(vocabulary) <= 60:
        remedy = f"There are: {_listed(vocabulary)}."
    raise UnknownNameError(f"there is no {kind} {text!r}", remedy=remedy)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
