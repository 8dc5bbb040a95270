"""Missing facts about an entity or of a relation, the likeliest first: a quick look, where `complete` asks the whole graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids
from hopwalk.errors import HopwalkError
from hopwalk.reasoning.asking import answer_queries
from hopwalk.reasoning.models import AnswerModel, QueryIds
from hopwalk.reasoning.profiles import Profiler
from hopwalk.reasoning.values import ReasoningPath, fact_text

NUM_SIMILAR = 10  # entities whose relations are asked about too
ANSWERS_EACH = 10  # of a query


@dataclass(frozen=True, repr=False)
class ProposedFact:
    """A fact that the graph does not have, its probability, and the paths behind it; labels in the data, not readable names.

    A path leads from `asked` to the other end: the fact may have been found from either.
    """

    head: str
    relation: str
    tail: str
    probability: float
    asked: str
    paths: tuple[ReasoningPath, ...]

    def __repr__(self) -> str:
        return f"ProposedFact({fact_text(self.head, self.relation, self.tail)}, {100 * self.probability:.1f} %)"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "probability", "asked")
        return {name: getattr(self, name) for name in names} | {"paths": [path.to_dict() for path in self.paths]}


@dataclass(frozen=True)
class Proposals:
    """Proposed facts, the likeliest first, from `num_asked` queries of `num_queries` that there are; `total` facts were likely."""

    facts: tuple[ProposedFact, ...]
    total: int
    num_asked: int
    num_queries: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("total", "num_asked", "num_queries")
        return {name: getattr(self, name) for name in names} | {"facts": [fact.to_dict() for fact in self.facts]}


def propose(
    model: AnswerModel,
    *,
    entity: int | None,
    relation: int | None,
    above: float,
    k: int,
    num_paths: int,
    most_queries: int,
) -> Proposals:
    """The `k` likeliest new facts of at least that probability, of an entity, of a relation, or of both.

    An entity is asked about the relations that it or the entities most like it have, in both directions. A relation is asked
    for the heads of its facts; of more than `most_queries` those spread evenly.
    """
    queries = _queries(model, entity, relation)
    chosen = queries
    if len(queries) > most_queries:
        chosen = [queries[row] for row in np.linspace(0, len(queries) - 1, most_queries).astype(np.int64).tolist()]
    found: dict[tuple[str, str, str], ProposedFact] = {}
    labels, relations, ids = model.dataset.entities, model.dataset.relations, model.dataset.relation_ids
    answered = answer_queries(model, chosen, k=ANSWERS_EACH, num_paths=num_paths, only_new=True) if chosen else []
    for (head, way), answers in zip(chosen, answered, strict=True):
        for answer in answers:
            if answer.probability is None:
                raise HopwalkError("the run has no calibrated probabilities", remedy="Train it again with this version.")
            if answer.probability < above:
                continue
            is_inverse, asked = bool(ids.is_inverse(way)), labels[head]
            ends = (answer.key, asked) if is_inverse else (asked, answer.key)
            fact = (ends[0], relations[int(ids.inverse(way)) if is_inverse else way], ends[1])
            if fact not in found or found[fact].probability < answer.probability:
                found[fact] = ProposedFact(*fact, answer.probability, asked, answer.paths)
    ranked = sorted(found.values(), key=lambda fact: (-fact.probability, fact.head, fact.relation, fact.tail))
    return Proposals(tuple(ranked[:k]), len(ranked), len(chosen), len(queries))


def _queries(model: AnswerModel, entity: int | None, relation: int | None) -> list[QueryIds]:
    """The queries to ask, sorted."""
    if relation is not None:
        heads = _heads(model.dataset, relation) if entity is None else [entity]
        return [(head, relation) for head in heads]
    if entity is None:
        raise HopwalkError("there is neither an entity nor a relation", remedy="Give one of them.")
    similar = Profiler(model.dataset, model.known).similar(entity, NUM_SIMILAR)
    like = [entity, *(model.dataset.entities.id(one.key) for one in similar)]
    ways: Ids = np.unique(model.known.edges(np.array(like, dtype=np.int32))[1].relations)
    return [(entity, way) for way in ways.tolist()]


def _heads(dataset: Dataset, relation: int) -> list[int]:
    """The entities at the near end of the relation's facts."""
    ids, facts = dataset.relation_ids, dataset.facts
    if ids.is_inverse(relation):
        return np.unique(facts.tails[facts.relations == ids.inverse(relation)]).tolist()
    return np.unique(facts.heads[facts.relations == relation]).tolist()
