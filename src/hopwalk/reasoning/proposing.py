"""Missing facts about an entity or of a relation, the likeliest first: a quick look, where `complete` asks the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids
from hopwalk.errors import HopwalkError
from hopwalk.reasoning.asking import PathLabels, may_be_itself, reasons
from hopwalk.reasoning.models import AnswerModel, FactIds, QueryIds
from hopwalk.reasoning.probabilities import by_probability, pool_size, probabilities
from hopwalk.reasoning.profiles import Profiler
from hopwalk.reasoning.values import ReasoningPath, fact_text

NUM_SIMILAR = 10  # entities whose relations are asked about too
ANSWERS_EACH = 10  # of a query


@dataclass(frozen=True, repr=False)
class ProposedFact:
    """A fact that the graph does not have, its probability, and the paths behind it.

    Head, relation, tail are labels in the data, `names` their readable names. A path leads from `asked` to the other end: the
    fact may have been found from either.
    """

    head: str
    relation: str
    tail: str
    probability: float
    asked: str
    paths: tuple[ReasoningPath, ...]
    names: tuple[str, str, str]

    @property
    def text(self) -> str:
        """The fact in one line, by readable names."""
        return fact_text(*self.names)

    def __repr__(self) -> str:
        return f"ProposedFact({self.text}, {100 * self.probability:.1f} %)"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "relation", "tail", "text", "probability", "asked")
        return {name: getattr(self, name) for name in names} | {"paths": [path.to_dict() for path in self.paths]}


@dataclass(frozen=True)
class Proposals:
    """Proposed facts, the likeliest first, of `total` that were likely enough; `num_asked` of `num_queries` were asked."""

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
    found = _likely(model, chosen, above)
    best = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:k]
    paths = _paths(model, [(query, answer) for _, (_, query, answer) in best], num_paths)
    labels, relations = model.dataset.entities, model.dataset.relations
    facts = tuple(
        ProposedFact(
            labels[head],
            relations[way],
            labels[tail],
            probability,
            asked=labels[query[0]],
            paths=paths[query, answer],
            names=(labels.name(head), relations.name(way), labels.name(tail)),
        )
        for (head, way, tail), (probability, query, answer) in best
    )
    return Proposals(facts, len(found), len(chosen), len(queries))


def _likely(model: AnswerModel, queries: Sequence[QueryIds], above: float) -> dict[FactIds, tuple[float, QueryIds, int]]:
    """The new facts of at least that probability, each with the query and the answer that it was found by."""
    ids, found = model.dataset.relation_ids, dict[FactIds, tuple[float, QueryIds, int]]()
    for first in range(0, len(queries), model.queries_at_once):
        part = queries[first : first + model.queries_at_once]
        ranking = model.rank(part, only_new=True, k=pool_size(ANSWERS_EACH) + 1)  # one more, since the head may be among them
        chances = probabilities(model, part, ranking.candidates)
        if chances is None:
            raise HopwalkError("the run has no calibrated probabilities", remedy="Train it again with this version.")
        for (head, way), candidates, own in zip(part, ranking.candidates, chances, strict=True):
            order = by_probability(candidates, own)
            answers = zip(candidates.entities[order].tolist(), own[order].tolist(), strict=True)
            others = [pair for pair in answers if pair[0] != head or may_be_itself(model.dataset, way)]
            for answer, probability in others[:ANSWERS_EACH]:
                is_inverse = bool(ids.is_inverse(way))
                fact = (answer, int(ids.inverse(way)), head) if is_inverse else (head, way, answer)
                if probability >= above and (fact not in found or found[fact][0] < probability):
                    found[fact] = probability, (head, way), answer
    return found


def _paths(
    model: AnswerModel, chosen: Sequence[tuple[QueryIds, int]], num_paths: int
) -> dict[tuple[QueryIds, int], tuple[ReasoningPath, ...]]:
    """The paths of chosen answers: they cost more than ranking, so nothing else gets any."""
    by_query = dict[QueryIds, list[int]]()
    for query, answer in chosen:
        by_query.setdefault(query, []).append(answer)
    labels, queries, found = PathLabels(model.dataset), list(by_query), dict[tuple[QueryIds, int], tuple[ReasoningPath, ...]]()
    for first in range(0, len(queries), model.queries_at_once):
        part = queries[first : first + model.queries_at_once]
        of_queries = model.rank(part, only_new=True, k=ANSWERS_EACH + 1).paths([by_query[query] for query in part], num_paths)
        for query, of_answers in zip(part, of_queries, strict=True):
            for answer, paths in zip(by_query[query], of_answers, strict=True):
                found[query, answer] = labels.paths(query[0], reasons(*query, answer, paths))
    return found


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
    is_inverse = bool(ids.is_inverse(relation))
    near = facts.tails if is_inverse else facts.heads
    heads: list[int] = np.unique(near[facts.relations == (ids.inverse(relation) if is_inverse else relation)]).tolist()
    return heads
