"""Arguments and results of the tools, as their JSON schemas describe them to a model that has never seen the graph."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hopwalk.mcp import limits

Name = Annotated[str, Field(min_length=1, max_length=limits.MOST_TYPED)]
Status = Literal["stated", "added", "inferred"]


class Arguments(BaseModel):
    """Arguments of a tool."""

    model_config = ConfigDict(extra="forbid")

    facts_id: str | None = Field(
        default=None,
        max_length=64,
        description="The facts_id that add_facts returned, to take those facts into account. Leave it out if you added none.",
    )


class FindEntities(Arguments):
    """Arguments of find_entities."""

    text: str = Field(
        default="",
        max_length=limits.MOST_TYPED,
        description="The beginning of a name, or a word of it, such as 'aspir'. Typing errors are forgiven. Empty: examples.",
    )
    limit: int = Field(default=10, ge=1, le=limits.MOST_LISTED, description="Maximum number of entities.")


class ListRelations(Arguments):
    """Arguments of list_relations."""

    text: str = Field(default="", max_length=limits.MOST_TYPED, description="Part of a relation's name. Empty: all relations.")
    entity: Name | None = Field(default=None, description="Count the facts of this entity, and list its relations first.")
    limit: int = Field(default=30, ge=1, le=limits.MOST_LISTED, description="Maximum number of relations.")


class Ask(Arguments):
    """Arguments of ask."""

    relation: Name = Field(description="The relation of the question, as list_relations names it.")
    head: Name | None = Field(default=None, description="The entity on the left: asks (head, relation, ?).")
    tail: Name | None = Field(default=None, description="The entity on the right: asks (?, relation, tail). Give head or tail.")
    only_new: bool = Field(default=False, description="Only inferred answers: leave out those that are stated.")
    limit: int = Field(default=5, ge=1, le=limits.MOST_ANSWERS, description="Maximum number of stated answers, and of inferred.")
    paths: int = Field(default=1, ge=1, le=limits.MOST_PATHS, description="Maximum number of paths per answer.")


class Explain(Arguments):
    """Arguments of explain."""

    head: Name = Field(description="The entity on the left of the fact.")
    relation: Name = Field(description="The relation of the fact.")
    tail: Name = Field(description="The entity on the right of the fact.")
    paths: int = Field(default=3, ge=1, le=limits.MOST_PATHS, description="Maximum number of paths.")


class ListFacts(Arguments):
    """Arguments of list_facts."""

    entity: Name = Field(description="The entity.")
    relation: Name | None = Field(default=None, description="Only facts of this relation. Leave it out for an overview.")
    role: Literal["head", "tail"] = Field(
        default="head", description="With a relation: whether the entity is the head or the tail of the facts."
    )
    offset: int = Field(default=0, ge=0, le=limits.MOST_OFFSET, description="With a relation: the number of facts to skip.")
    limit: int = Field(
        default=10, ge=1, le=limits.MOST_LISTED, description="Maximum number of facts; without a relation, of each relation."
    )


class FindPaths(Arguments):
    """Arguments of find_paths."""

    start: Name = Field(description="The entity where the paths begin.")
    end: Name = Field(description="The entity where they end.")
    hops: int = Field(default=3, ge=1, le=limits.MOST_HOPS, description="Maximum number of facts in a path.")
    limit: int = Field(default=5, ge=1, le=limits.MOST_LISTED, description="Maximum number of paths.")


class ProposeFacts(Arguments):
    """Arguments of propose_facts."""

    entity: Name | None = Field(default=None, description="Propose facts about this entity. Give an entity, a relation, or both.")
    relation: Name | None = Field(default=None, description="Propose facts of this relation.")
    role: Literal["head", "tail"] = Field(
        default="head", description="With an entity and a relation: whether the entity is the head or the tail."
    )
    min_probability: float = Field(default=0.5, ge=0, le=1, description="Leave out facts that are less likely.")
    limit: int = Field(default=10, ge=1, le=limits.MOST_LISTED, description="Maximum number of facts.")


class NewFact(BaseModel):
    """A fact to add."""

    model_config = ConfigDict(extra="forbid")

    head: Name = Field(description="An entity of the graph, or with most models a new one.")
    relation: Name = Field(description="A relation of the graph: new relations are refused.")
    tail: Name = Field(description="An entity of the graph, or with most models a new one.")


class AddFacts(Arguments):
    """Arguments of add_facts."""

    facts: list[NewFact] = Field(min_length=1, max_length=limits.MOST_ADDED, description="The facts to add.")


# Results


class Fact(BaseModel):
    """A fact, or in a question a fact with '?' for what is asked. Labels can be sent to any tool as they are."""

    head: str
    relation: str
    tail: str


class Result(BaseModel):
    """What every result has."""

    names: dict[str, str] = Field(
        default_factory=dict, description="Readable names of the labels in this result, where they differ from the label."
    )
    added_facts: int = Field(default=0, description="How many facts that you added are taken into account in this result.")
    note: str = Field(default="", description="A remark about the result as a whole.")


Path = Annotated[list[Fact], Field(description="Facts of the graph that lead from one end to the other, in order.")]


class FoundEntity(BaseModel):
    """An entity."""

    entity: str = Field(description="Its label, to be sent to other tools.")
    facts: int = Field(description="The number of facts in which it is head or tail.")


class FoundEntities(Result):
    """Entities that were found, the best match first."""

    entities: list[FoundEntity]


class FoundRelation(BaseModel):
    """A relation."""

    relation: str = Field(description="Its label, to be sent to other tools.")
    name: str = Field(description="Its readable name.")
    facts: int = Field(description="The number of its facts in the graph.")
    as_head: int | None = Field(default=None, description="Facts with the given entity as head.")
    as_tail: int | None = Field(default=None, description="Facts with the given entity as tail.")
    example: Fact | None = Field(description="One of its facts, which shows what stands on either side.")


class FoundRelations(Result):
    """Relations, those with most facts first."""

    relations: list[FoundRelation]
    total: int = Field(description="The number of relations that match.")


class FoundAnswer(BaseModel):
    """An answer."""

    entity: str
    status: Status = Field(
        description="'stated': a fact of the graph. 'added': a fact that you added. 'inferred': a prediction, not a fact."
    )
    probability: float | None = Field(description="How likely an inferred answer is to be true, 0 to 1; null for facts.")
    paths: list[Path] = Field(description="The reasons, the best first. Empty if there are none, or the model has no paths.")


class FoundAnswers(Result):
    """Answers: those that are stated, then those that are inferred, the best first."""

    question: Fact
    answers: list[FoundAnswer]
    stated_total: int = Field(description="The number of stated answers; list_facts lists those that are not here.")


class Rule(BaseModel):
    """A rule that a path is an instance of: if its body holds for X and Y, so may its conclusion."""

    body: list[Fact] = Field(description="Facts with variables: X and Y are the two ends.")
    conclusion: Fact
    holds: int = Field(description="How often the conclusion is stated where the body holds.")
    of: int = Field(description="How often the body holds.")


class FoundReason(BaseModel):
    """A path, and its rule."""

    path: Path
    rule: Rule


class FoundExplanation(Result):
    """Why a fact is likely, or why not."""

    fact: Fact
    status: Status
    rank: int | None = Field(
        description="Its rank among all answers of (head, relation, ?) that are not stated; null: out of reach."
    )
    probability: float | None = Field(description="How likely it would be if the graph did not have it.")
    why_not: str = Field(description="Why it is not the first answer; empty if it is.")
    reasons: list[FoundReason]


class FactGroup(BaseModel):
    """Facts of one relation with the entity on one side: each of the entities can stand for '?'."""

    pattern: Fact
    entities: list[str]
    added: list[str] = Field(default_factory=list, description="Those among them that you added.")
    total: int = Field(description="The number of such facts.")


class FoundFacts(Result):
    """Facts of the graph, all of them stated or added."""

    groups: list[FactGroup]
    next_offset: int | None = Field(default=None, description="The offset of the next page; null if this is the last.")


class FoundPaths(Result):
    """Paths of facts, shortest first."""

    paths: list[Path]
    total: int = Field(description="The number of paths found.")
    is_complete: bool = Field(description="Whether there are no others; false if the search was cut short.")


class FoundProposal(BaseModel):
    """A fact that the graph does not have."""

    fact: Fact
    status: Literal["inferred"] = "inferred"
    probability: float = Field(description="How likely it is to be true, 0 to 1.")
    path: Path


class FoundProposals(Result):
    """Proposed facts, the likeliest first."""

    facts: list[FoundProposal]
    total: int = Field(description="The number of facts found that are likely enough.")
    asked: int = Field(description="Questions that were asked to find them.")
    questions: int = Field(description="Questions that could be asked; if more than were asked, there may be other facts.")


class FactsAdded(Result):
    """The facts that hold now."""

    facts_id: str = Field(description="Send it with later calls to take the facts into account.")
    new_entities: list[str] = Field(description="Labels that the graph did not have.")
