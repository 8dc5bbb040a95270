"""The tools: what each does with a graph, and how it is described to a model that has never seen one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hopwalk.mcp import labels, limits, schemas
from hopwalk.mcp.errors import ToolError
from hopwalk.mcp.fact_sets import FactSets
from hopwalk.mcp.view import View
from hopwalk.reasoning.facts import LabelledFact
from hopwalk.reasoning.profiles import RelationFacts

MOST_GROUPS, MOST_OF_GROUP = 15, 5  # of an overview of an entity's facts


def find_entities(view: View, given: schemas.FindEntities) -> schemas.Result:
    """Entities by name."""
    ids = np.array(view.names.entities.search(given.text, given.limit), dtype=np.int32)
    degrees = view.reasoner.model.known.degrees(ids)
    entities = [
        schemas.FoundEntity(entity=view.entity(id_), facts=facts)
        for id_, facts in zip(ids.tolist(), degrees.tolist(), strict=True)
    ]
    note = "" if entities else "Nothing matches. Try a shorter part of the name, or another word for it."
    return view.result(schemas.FoundEntities, entities=entities, note=note)


def list_relations(view: View, given: schemas.ListRelations) -> schemas.Result:
    """Relations by name, with the number of their facts and an example."""
    dataset, known = view.reasoner.dataset, view.reasoner.model.known
    ids = np.array(view.names.relations.search(given.text, len(dataset.relations)), dtype=np.int32)
    counts = np.bincount(dataset.facts.relations, minlength=len(dataset.relations))[ids]
    own = np.zeros((2, len(ids)), dtype=np.int64)
    if given.entity is not None:
        entity = np.full(len(ids), view.entity_id(given.entity, "entity"), dtype=np.int32)
        own = np.stack([known.counts(entity, ids), known.counts(entity, dataset.relation_ids.inverse(ids))])
    found = []
    for row in np.lexsort((-counts, -own.sum(axis=0)))[: given.limit].tolist():
        relation = int(ids[row])
        where = int((dataset.facts.relations == relation).argmax()) if counts[row] else None
        example = None if where is None else view.fact(int(dataset.facts.heads[where]), relation, int(dataset.facts.tails[where]))
        found.append(
            schemas.FoundRelation(
                relation=view.relation(relation),
                name=view.relation_name(relation),
                facts=int(counts[row]),
                as_head=int(own[0, row]) if given.entity is not None else None,
                as_tail=int(own[1, row]) if given.entity is not None else None,
                example=example,
            )
        )
    note = "" if found else "Nothing matches. Leave text empty to list all relations."
    return view.result(schemas.FoundRelations, relations=found, total=len(ids), note=note)


def ask(view: View, given: schemas.Ask) -> schemas.Result:
    """The best answers of a question, with their paths."""
    if (given.head is None) == (given.tail is None):
        raise ToolError("Give either head or tail, not both and not neither.", "To check a whole fact, call explain.")
    relation, is_inverse = view.directed(given.relation)
    from_tail = (given.head is None) != is_inverse  # the relation's own arrow leads away from what is asked for
    text, field = (given.tail, "tail") if given.head is None else (given.head, "head")
    entity = view.entity_id(text or "", field)
    found, total = ([], 0) if given.only_new else _stated(view, entity, relation, from_tail, given.limit)
    answers = view.ask(entity, relation, from_tail, given.limit, given.paths)
    for answer in answers:
        found.append(
            schemas.FoundAnswer(
                entity=view.label(answer.key, answer.entity),
                status="inferred",
                probability=None if answer.probability is None else round(answer.probability, 4),
                paths=[view.path(entity, path) for path in answer.paths],
            )
        )
    question = view.fact(None, relation, entity) if from_tail else view.fact(entity, relation, None)
    nothing = "No answer was found. list_relations with this entity shows which relations it has facts of."
    note = answers.note if found and not answers.hops else "" if found else nothing
    return view.result(schemas.FoundAnswers, question=question, answers=found, stated_total=total, note=note)


def _stated(view: View, entity: int, relation: int, from_tail: bool, most: int) -> tuple[list[schemas.FoundAnswer], int]:
    """The answers that are facts of the graph, each its own path, and their number. A model may rank them anywhere."""
    label, way = view.reasoner.dataset.entities[entity], view.names.relation_key(view.way(relation, from_tail))
    facts, found = view.reasoner.facts(label, way, limit=most), []
    for one in facts.neighbours:
        other = view.reasoner.dataset.entities.id(one.key)
        fact = (other, relation, entity) if from_tail else (entity, relation, other)
        path = [view.fact(*fact)]
        found.append(schemas.FoundAnswer(entity=view.entity(other), status=view.status(fact), probability=None, paths=[path]))
    return found, facts.total


def explain(view: View, given: schemas.Explain) -> schemas.Result:
    """Why a fact is likely, or why not."""
    fact = view.fact_ids(given.head, given.relation, given.tail)
    found = view.explain(fact, given.paths)
    reasons = [
        schemas.FoundReason(path=view.path(fact[0], path), rule=view.rule(group.rule, group.evidence))
        for group in found.reasons
        for path in group.paths
    ]
    return view.result(
        schemas.FoundExplanation,
        fact=view.fact(*fact),
        status=view.status(fact) if found.is_known else "inferred",
        rank=found.rank,
        probability=None if found.probability is None else round(found.probability, 4),
        why_not=_why_not(found.rank, found.why_not),
        reasons=reasons,
    )


def _why_not(rank: int | None, sentence: str) -> str:
    """Why it is not the first answer. Labels have fields of their own, so the answers before it are not named."""
    if rank is None:
        return labels.shown(sentence)
    return "" if rank == 1 else f"{rank - 1:,} other answers are more likely; ask lists the first of them."


def list_facts(view: View, given: schemas.ListFacts) -> schemas.Result:
    """Facts of an entity: an overview by relation, or those of one relation, page by page."""
    entity = view.entity_id(given.entity, "entity")
    label = view.reasoner.dataset.entities[entity]
    if given.relation is None:
        profile = view.reasoner.profile(label, num_facts=min(given.limit, MOST_OF_GROUP), num_similar=1)
        groups = [_group(view, entity, facts) for facts in profile.relations[:MOST_GROUPS]]
        more = len(profile.relations) - len(groups)
        note = f"{more} more relations: list_relations with this entity names them." if more else ""
        return view.result(schemas.FoundFacts, groups=groups, note=note if groups else "The graph has no fact about it.")
    relation, is_inverse = view.directed(given.relation)
    way = view.way(relation, (given.role == "tail") != is_inverse)
    found = view.reasoner.facts(label, view.names.relation_key(way), offset=given.offset, limit=given.limit)
    end = given.offset + len(found.neighbours)
    note = "" if found.total else "There are none. Try the other role, or leave out the relation for an overview."
    next_offset = end if found.neighbours and end < found.total else None
    return view.result(schemas.FoundFacts, groups=[_group(view, entity, found)], next_offset=next_offset, note=note)


def _group(view: View, entity: int, facts: RelationFacts) -> schemas.FactGroup:
    relation, _ = view.directed(facts.relation, is_shown=False)
    others = [view.reasoner.dataset.entities.id(one.key) for one in facts.neighbours]
    whole = [(other, relation, entity) if facts.is_inverse else (entity, relation, other) for other in others]
    return schemas.FactGroup(
        pattern=view.fact(None, relation, entity) if facts.is_inverse else view.fact(entity, relation, None),
        entities=[view.entity(other) for other in others],
        added=[view.entity(other) for other, fact in zip(others, whole, strict=True) if view.status(fact) == "added"],
        total=facts.total,
    )


def find_paths(view: View, given: schemas.FindPaths) -> schemas.Result:
    """Paths of facts between two entities."""
    start, end = view.entity_id(given.start, "start"), view.entity_id(given.end, "end")
    if start == end:
        raise ToolError("start and end are the same entity.", "Give two different entities.")
    labels = view.reasoner.dataset.entities
    found = view.reasoner.paths_between(labels[start], labels[end], hops=given.hops, k=given.limit)
    paths = [view.path(start, path) for path in found.paths]
    more = f" Try more hops, at most {limits.MOST_HOPS}." if given.hops < limits.MOST_HOPS else ""
    note = "" if paths else f"No path of at most {given.hops} facts connects them.{more}"
    return view.result(schemas.FoundPaths, paths=paths, total=found.total, is_complete=found.is_complete, note=note)


def propose_facts(view: View, given: schemas.ProposeFacts) -> schemas.Result:
    """Facts that the graph does not have, and that are likely to be true."""
    if given.entity is None and given.relation is None:
        raise ToolError("Give an entity, a relation, or both.", "find_entities and list_relations find their labels.")
    entity = None if given.entity is None else view.reasoner.dataset.entities[view.entity_id(given.entity, "entity")]
    relation = None
    if given.relation is not None:
        own, is_inverse = view.directed(given.relation)
        relation = view.names.relation_key(view.way(own, (given.role == "tail") != is_inverse))
    found = view.reasoner.propose(entity, relation, above=given.min_probability, k=given.limit, most_queries=limits.MOST_QUERIES)
    facts = []
    for fact in found.facts:
        ids = view.fact_ids(fact.head, fact.relation, fact.tail, is_shown=False)
        asked = view.reasoner.dataset.entities.id(fact.asked)
        path = view.path(asked, fact.paths[0]) if fact.paths else []
        facts.append(schemas.FoundProposal(fact=view.fact(*ids), probability=round(fact.probability, 4), path=path))
    note = "" if facts else "Nothing is that likely. Try a lower min_probability."
    counts = {"total": found.total, "asked": found.num_asked, "questions": found.num_queries}
    return view.result(schemas.FoundProposals, facts=facts, note=note, **counts)


def add_facts(view: View, given: schemas.AddFacts) -> schemas.Result:
    """Add facts for this client."""
    facts = [_canonical(view, fact, f"facts.{number}") for number, fact in enumerate(given.facts)]
    if len(view.graph.added | {*facts}) > limits.MOST_IN_SET:
        problem = f"That would be more than {limits.MOST_IN_SET:,} added facts."
        raise ToolError(problem, "Leave out facts_id to begin a new set." if given.facts_id else "Add fewer facts.")
    before = view.graph.reasoner.new_entities
    graph = view.sets.add(view.graph, facts, view.connection)
    shown = View(graph, view.sets, view.connection)
    new = [shown.label(label) for label in graph.reasoner.new_entities[len(before) :]]
    send = "Later calls on this connection take them into account." if view.connection else "Send facts_id with later calls."
    return shown.result(schemas.FactsAdded, facts_id=graph.facts_id, new_entities=new, note=send)


def _canonical(view: View, fact: schemas.NewFact, field: str) -> LabelledFact:
    """The fact by labels, along the arrow; a name that is not known is a new entity, if the model takes those."""
    relation, is_inverse = view.directed(fact.relation, f"{field}.relation")
    ends = [view.end_label(text, f"{field}.{end}") for end, text in (("head", fact.head), ("tail", fact.tail))]
    head, tail = reversed(ends) if is_inverse else ends
    return head, view.reasoner.dataset.relations[relation], tail


@dataclass(frozen=True)
class Tool:
    """A tool: its name, what a model is told about it, its arguments and its result."""

    name: str
    title: str
    description: str
    arguments: type[schemas.Arguments]
    result: type[schemas.Result]
    run: Callable[..., schemas.Result]


def call(tool: Tool, given: schemas.Arguments, sets: FactSets, connection: str | None) -> schemas.Result:
    """The result of a call; a `ToolError` or an error of hopwalk if there is none."""
    graph = sets.graph(given.facts_id, connection)
    if graph is None:
        raise ToolError("This facts_id is not known, or its facts are forgotten.", "Call add_facts again, without facts_id.")
    return tool.run(View(graph, sets, connection), given)


TOOLS: Sequence[Tool] = (
    Tool(
        "find_entities",
        "Find entities by name",
        "Find the entities of the graph whose name begins with a text, or has a word that does. Start here: other tools need the "
        "label of an entity as this one returns it. An empty text gives examples.",
        schemas.FindEntities,
        schemas.FoundEntities,
        find_entities,
    ),
    Tool(
        "list_relations",
        "List relations",
        "List the relations of the graph, each with the number of its facts and an example fact that shows its direction "
        "(head, relation, tail). With an entity, its own relations come first.",
        schemas.ListRelations,
        schemas.FoundRelations,
        list_relations,
    ),
    Tool(
        "ask",
        "Ask for the missing end of a fact",
        "Answer (head, relation, ?) or (?, relation, tail): give the relation and one end. First come facts of the graph (status "
        "'stated'), then predictions ('inferred'), the best first, each with its probability and the path of facts behind it.",
        schemas.Ask,
        schemas.FoundAnswers,
        ask,
    ),
    Tool(
        "explain",
        "Explain a fact",
        "Check one fact (head, relation, tail): whether it is stated, how likely it is, by which paths, and how often the rules "
        "behind these paths hold; or why no path leads to it.",
        schemas.Explain,
        schemas.FoundExplanation,
        explain,
    ),
    Tool(
        "list_facts",
        "List the facts of an entity",
        "List what the graph states about an entity: an overview by relation, or with a relation all its facts, page by page. "
        "Nothing here is predicted.",
        schemas.ListFacts,
        schemas.FoundFacts,
        list_facts,
    ),
    Tool(
        "find_paths",
        "Find paths between two entities",
        "Find how two entities are connected: chains of stated facts from one to the other, shortest first. Nothing here is "
        "predicted.",
        schemas.FindPaths,
        schemas.FoundPaths,
        find_paths,
    ),
    Tool(
        "propose_facts",
        "Propose missing facts",
        "Propose facts that the graph lacks and that are likely to be true, about an entity, of a relation, or both; each with "
        "its probability and its best path. They are predictions, not facts.",
        schemas.ProposeFacts,
        schemas.FoundProposals,
        propose_facts,
    ),
    Tool(
        "add_facts",
        "Add facts for yourself",
        "Add facts that you know to the graph, for your own later calls only: nothing is saved and nobody else sees them. They "
        "are walked like other facts and marked 'added'. Returns a facts_id to send with later calls.",
        schemas.AddFacts,
        schemas.FactsAdded,
        add_facts,
    ),
)
BY_NAME: dict[str, Tool] = {tool.name: tool for tool in TOOLS}
