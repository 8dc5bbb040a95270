"""What the API takes and gives, as OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hopwalk.web.limits import MOST_ANSWERS, MOST_CHARACTERS, MOST_OF_RUN, MOST_PATHS


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 5.0 is a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Count = Annotated[int, BeforeValidator(_whole)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run: str | None = Field(
        default=None, min_length=1, max_length=MOST_OF_RUN, description="The run to ask; the first one if not said."
    )
    head: Name = Field(description="The entity that the question begins with.")
    relation: Name = Field(description="The relation asked for; with ⁻¹ at its end, its inverse.")


class AskRequest(_Request):
    """A question `(head, relation, ?)`."""

    k: Count = Field(default=10, ge=1, le=MOST_ANSWERS, description="How many answers.")
    paths: Count = Field(default=3, ge=1, le=MOST_PATHS, description="How many paths of each, at most.")
    only_new: bool = Field(default=False, description="Leave facts of the graph out.")


class ExplainRequest(_Request):
    """Why `tail` answers `(head, relation, ?)`, or why not."""

    tail: Name = Field(description="The answer to explain.")
    paths: Count = Field(default=5, ge=1, le=MOST_PATHS, description="How many paths, at most.")


class EdgeBody(BaseModel):
    """A step of a path."""

    relation: str
    entity: str
    is_inverse: bool = Field(description="Whether the step goes against the arrow of the relation.")


class PathBody(BaseModel):
    """A walk from the head of the question."""

    text: str
    log_prob: float
    edges: list[EdgeBody]


class AnswerBody(BaseModel):
    """An entity that may complete the question; without paths it is a guess of the scorer."""

    entity: str = Field(description="Its name for people.")
    key: str = Field(description="Its key, to explain it with.")
    rank: int
    score: float = Field(description="What answers are ranked by.")
    is_known: bool = Field(description="Whether it is a fact of the graph.")
    probability: float | None = Field(description="What the scorer thinks; null without a scorer.")
    path_probability: float | None = Field(description="That of the walks that reach it; null if none does.")
    paths: list[PathBody]


class AskBody(BaseModel):
    """The answers of a question, best first."""

    run: str
    head: str = Field(description="Its key.")
    name: str = Field(description="The head's name for people.")
    relation: str = Field(description="Its key, with ⁻¹ for the inverse.")
    relation_name: str = Field(description="The relation's name for people, with ⁻¹ for the inverse.")
    answers: list[AnswerBody]


class ReasonBody(PathBody):
    """A path to the answer with the rule it stands for."""

    rule: str
    support: int = Field(description="Known facts that the rule gives.")
    predictions: int = Field(description="Pairs that the body of the rule connects.")
    confidence: float
    is_sampled: bool = Field(description="Whether it was counted from a random part of the graph.")


class ExplainBody(BaseModel):
    """Why an entity is an answer, or why not."""

    run: str
    head: str
    relation: str
    tail: str
    is_known: bool
    rank: int | None = Field(description="Its place by the probability of its paths; null if no path in the beam reaches it.")
    path_probability: float | None
    probability: float | None
    why_not: str = Field(description="Where the walk loses it; empty if it is reached.")
    reasons: list[ReasonBody]
    drawing: str | None = Field(description="The paths as a layered drawing: an SVG text without scripts; null without paths.")


class EntityBody(BaseModel):
    """An entity that a search found."""

    entity: str = Field(description="Its key, to ask with.")
    name: str = Field(description="Its name for people.")


class EntitiesBody(BaseModel):
    """What a search found."""

    entities: list[EntityBody]


class RelationBody(BaseModel):
    """A relation, in one of its directions."""

    relation: str = Field(description="To ask with: the key of the relation, with ⁻¹ for its inverse.")
    name: str = Field(description="Its name for people, without ⁻¹.")
    is_inverse: bool
    facts: int = Field(description="How many facts of the graph answer it for the entity, or without one for all.")


class RelationsBody(BaseModel):
    """Relations, those that have most facts first."""

    relations: list[RelationBody]


class ExampleBody(BaseModel):
    """A question to begin with."""

    head: str
    name: str
    relation: str
    relation_name: str


class RunBody(BaseModel):
    """What a run is: its data, its size, how it walks."""

    run: str
    dataset: str
    entities: int
    relations: int
    facts: int
    hops: int
    beam: int
    fan_out: int
    has_scorer: bool
    valid_mrr: float | None = Field(description="Of tails, by paths, on the dev questions.")
    examples: list[ExampleBody]
    card: str = Field(description="The run's card, in Markdown.")


class RunsBody(BaseModel):
    """The runs that are served; the first one is asked if a request names none."""

    runs: list[RunBody]


class HealthBody(BaseModel):
    """That the server lives, and how much waits."""

    status: str
    version: str
    runs: int
    waiting: int
