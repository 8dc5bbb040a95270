"""Requests and responses of the API, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hopwalk.web.limits import (
    MOST_ANSWERS,
    MOST_CHARACTERS,
    MOST_DRAWN,
    MOST_EDGES,
    MOST_OF_RUN,
    MOST_PATHS,
    MOST_QUERIES,
    MOST_RELATIONS,
    WIDTHS,
)


def _whole(value: Any) -> Any:
    """The value, as an int if it is a whole float: JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Count = Annotated[int, BeforeValidator(_whole)]


RunField = Annotated[
    str | None, Field(min_length=1, max_length=MOST_OF_RUN, description="The run to ask. Default: the first run.")
]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run: RunField = None
    head: Name = Field(description="The head entity of the query.")
    relation: Name = Field(description="The relation of the query; with ⁻¹ at its end, its inverse.")


class AskRequest(_Request):
    """A query `(head, relation, ?)`."""

    k: Count = Field(default=10, ge=1, le=MOST_ANSWERS, description="Maximum number of answers.")
    paths: Count = Field(default=3, ge=1, le=MOST_PATHS, description="Maximum number of paths per answer.")
    only_new: bool = Field(default=False, description="Only answers that are not facts of the graph.")


class ExplainRequest(_Request):
    """Why `tail` answers `(head, relation, ?)`, or why not."""

    tail: Name = Field(description="The answer to explain.")
    paths: Count = Field(default=5, ge=1, le=MOST_PATHS, description="Maximum number of paths.")
    k: Count = Field(default=10, ge=1, le=MOST_ANSWERS, description="The length of the list of new answers that ranks are of.")


class DrawnEdge(BaseModel):
    """A step of a path to draw."""

    model_config = ConfigDict(extra="ignore", strict=True)

    relation: str = Field(max_length=MOST_CHARACTERS)
    entity: str = Field(max_length=MOST_CHARACTERS)
    is_inverse: bool = False
    key: str = Field(default="", max_length=MOST_CHARACTERS)


class DrawnPath(BaseModel):
    """A path to draw, as `ask` and `explain` give it."""

    model_config = ConfigDict(extra="ignore", strict=True)

    share: float = Field(default=1.0, allow_inf_nan=False, description="Paths with a larger share are thicker.")
    edges: list[DrawnEdge] = Field(max_length=MOST_EDGES)


class DrawRequest(BaseModel):
    """Paths from one entity, and the width that their drawing may have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    head: str = Field(max_length=MOST_CHARACTERS, description="The readable name of the entity where the paths begin.")
    key: str = Field(default="", max_length=MOST_CHARACTERS, description="Its label in the data.")
    paths: list[DrawnPath] = Field(min_length=1, max_length=MOST_DRAWN)
    width: Count = Field(default=720, ge=WIDTHS[0], le=WIDTHS[1], description="The most pixels from left to right.")


class DrawBody(BaseModel):
    """A drawing: SVG text without scripts, styles and references."""

    drawing: str


class EdgeBody(BaseModel):
    """A step of a path."""

    relation: str
    entity: str
    is_inverse: bool = Field(description="Whether the step goes against the arrow of the relation.")
    key: str = Field(description="The entity's label in the data, for requests.")


class PathBody(BaseModel):
    """A walk from the head of the query."""

    text: str
    share: float = Field(description="Its part in the score of the answer.")
    edges: list[EdgeBody]


class RuleEvidenceBody(BaseModel):
    """A rule that paths are instances of, and how often it is right in the graph."""

    rule: str
    support: int = Field(description="Known facts that the rule predicts.")
    predictions: int = Field(description="Pairs that the body of the rule connects.")
    confidence: float = Field(description="support / predictions; 0 if the rule never holds.")
    is_sampled: bool = Field(description="Whether it was counted in a random sample of the graph.")
    share: float = Field(description="The part of the answer's score that its paths carry together.")


class AnswerRuleBody(RuleEvidenceBody):
    """A rule behind an answer."""

    paths: list[int] = Field(description="Places of its paths in the answer's `paths`, the best first.")


class AnswerBody(BaseModel):
    """An entity that may answer the query, with the paths behind its score."""

    entity: str = Field(description="Its readable name.")
    key: str = Field(description="Its label in the data, for requests.")
    rank: int
    score: float = Field(description="The score that answers are ranked by.")
    is_known: bool = Field(description="Whether it is a fact of the graph.")
    probability: float | None = Field(description="How likely a new fact is to be true, calibrated on dev; null if it is known.")
    paths: list[PathBody]
    rules: list[AnswerRuleBody] = Field(
        description="The rules of the paths: those that carry most first, those that never hold last."
    )


class AskBody(BaseModel):
    """The answers of a query, best first."""

    run: str
    head: str = Field(description="The head's label in the data.")
    name: str = Field(description="The head's readable name.")
    relation: str = Field(description="The relation's label in the data, with ⁻¹ for the inverse.")
    relation_name: str = Field(description="The relation's readable name, with ⁻¹ for the inverse.")
    answers: list[AnswerBody]


class ReasonBody(RuleEvidenceBody):
    """A rule behind the answer, with its paths."""

    paths: list[PathBody] = Field(description="The paths that are instances of it, the best first.")


class MissingFactBody(BaseModel):
    """A fact that the graph lacks, and the rank that the answer would have with it."""

    head: str
    relation: str
    tail: str
    head_key: str = Field(description="The head's label in the data.")
    tail_key: str = Field(description="The tail's label in the data.")
    rank: int
    rule: str = Field(description="The rule that it completes.")


class ExplainBody(BaseModel):
    """Why an entity is an answer, or why not."""

    run: str
    head: str
    relation: str
    tail: str
    is_known: bool
    rank: int | None = Field(description="Its rank among all but the other known answers; null if no path reaches it.")
    probability: float | None
    why_not: str = Field(description="Why it is not the first answer, in sentences; empty if it is.")
    missing_fact: MissingFactBody | None = Field(description="A fact that would improve its rank, found by trying it.")
    reasons: list[ReasonBody] = Field(description="The rules whose paths carry its score; those that never hold come last.")


class EntityBody(BaseModel):
    """An entity that matches a search."""

    entity: str = Field(description="Its label in the data, for requests.")
    name: str = Field(description="Its readable name.")


class FactsBody(BaseModel):
    """Known facts of an entity with one relation: those from `offset` on."""

    relation: str = Field(description="The relation's label in the data, with ⁻¹ for the inverse.")
    name: str = Field(description="The relation's readable name, without ⁻¹.")
    is_inverse: bool
    total: int
    offset: int
    entities: list[EntityBody]


class SimilarBody(EntityBody):
    """An entity that shares facts with another: the same relation to the same neighbour."""

    shared: int
    facts: int = Field(description="The number of its own facts.")


class ProfileBody(EntityBody):
    """An entity: its facts by relation, the first few of each, and similar entities."""

    run: str
    facts: int
    relations: list[FactsBody]
    similar: list[SimilarBody]


class EntitiesBody(BaseModel):
    """The entities that match a search."""

    entities: list[EntityBody]


class RelationBody(BaseModel):
    """A relation, in one of its directions."""

    relation: str = Field(description="The relation's label in the data, for requests, with ⁻¹ for the inverse.")
    name: str = Field(description="The relation's readable name, without ⁻¹.")
    is_inverse: bool
    facts: int = Field(description="Number of its facts in the graph: those of the entity, or without one all.")


class RelationsBody(BaseModel):
    """Relations, most frequent first."""

    relations: list[RelationBody]


class ExampleBody(BaseModel):
    """An example query."""

    head: str
    name: str
    relation: str
    relation_name: str
    answer: AnswerBody = Field(description="Its best new answer, or its best one if all are known.")


class RunBody(BaseModel):
    """A run: its data, its size, its settings."""

    run: str
    dataset: str
    entities: int
    relations: int
    facts: int
    hops: int = Field(description="The length of the longest paths; 0 if the model has none.")
    ranks_by: str = Field(description="What the ranking is made of, in words.")
    valid_mrr: float | None = Field(description="MRR of tails on dev.")
    keeps_underscores: bool = Field(
        description="Whether names differ only in blanks and underscores, so that both must be shown."
    )
    basis: str = Field(description="What probabilities assume, in a sentence; may be empty.")
    examples: list[ExampleBody]
    card: str = Field(description="The run's card, in Markdown.")


class RunsBody(BaseModel):
    """The runs of the server; a request that names none asks the first."""

    runs: list[RunBody]


class HealthBody(BaseModel):
    """The state of the server, and the number of waiting queries."""

    status: str
    version: str
    runs: int
    waiting: int


# Many queries, rules, paths between entities, and jobs


class QueryBody(BaseModel):
    """A query of a batch."""

    model_config = ConfigDict(extra="forbid", strict=True)

    head: Name
    relation: Name


class AskManyRequest(BaseModel):
    """Queries that are answered together, with the same options."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: RunField = None
    queries: list[QueryBody] = Field(min_length=1, max_length=MOST_QUERIES)
    k: Count = Field(default=10, ge=1, le=MOST_ANSWERS, description="Maximum number of answers of each query.")
    paths: Count = Field(default=3, ge=1, le=MOST_PATHS, description="Maximum number of paths per answer.")
    only_new: bool = Field(default=False, description="Only answers that are not facts of the graph.")


class AskManyBody(BaseModel):
    """The answers of each query, in the order of the queries."""

    results: list[AskBody]


class RuleBody(BaseModel):
    """A rule that a run uses for a relation."""

    rule: str
    weight: float = Field(description="Its part in the shares of all paths; of a model that consists of rules, its own weight.")
    queries: int = Field(description="The number of queries it helps to answer.")
    support: int = Field(description="Known facts that the rule predicts.")
    predictions: int = Field(description="Pairs that the body of the rule connects.")
    confidence: float
    is_sampled: bool = Field(description="Whether it was counted in a random sample of the graph.")
    examples: list[str]


class RulesBody(BaseModel):
    """The rules of a relation, most used first."""

    run: str
    relation: str = Field(description="The relation's label in the data, with ⁻¹ for the inverse.")
    rules: list[RuleBody]


class FactPathBody(BaseModel):
    """A path of known facts."""

    text: str
    edges: list[EdgeBody]


class PathsBody(BaseModel):
    """Paths of known facts between two entities: shortest first, then those through the least busy entities."""

    run: str
    head: str
    tail: str
    hops: int
    total: int = Field(description="The number of paths found.")
    is_complete: bool = Field(description="Whether there are no others; false if a bound on the work was reached.")
    paths: list[FactPathBody]


class CompleteRequest(BaseModel):
    """Propose missing facts of some relations, or of all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    run: RunField = None
    relations: list[Name] = Field(default_factory=list, max_length=MOST_RELATIONS, description="Default: all relations.")
    above: float = Field(default=0.5, ge=0, le=1, description="Minimum probability of a proposed fact.")


class JobBody(BaseModel):
    """A job that proposes missing facts, and how far it is."""

    job: str = Field(description="Its id.")
    run: str
    status: Literal["waiting", "running", "finished", "failed", "cancelled"]
    relations: list[str]
    above: float
    stage: str = Field(description="What it does: asking, asking from the other end, explaining; empty before it runs.")
    done: int = Field(description="Queries of the stage that were answered.")
    total: int = Field(description="Queries of the stage; 0 before it runs.")
    facts: int = Field(description="Facts that were found.")
    error: str = Field(description="Why it failed; else empty.")


class JobsBody(BaseModel):
    """The jobs of the server, oldest first."""

    jobs: list[JobBody]


class ProposedBody(BaseModel):
    """A proposed fact; columns that completing adds are here too, as text."""

    model_config = ConfigDict(extra="allow")

    head: str
    relation: str
    tail: str
    probability: float
    path: str


class ProposedFactsBody(BaseModel):
    """A page of the facts that a job found."""

    job: str
    total: int
    offset: int
    facts: list[ProposedBody]
