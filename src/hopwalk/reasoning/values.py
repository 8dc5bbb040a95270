"""Answers, the paths that lead to them and their explanations, as plain values: labels, scores, one-line texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INVERSE = "⁻¹"  # at the end of a relation: its inverse


def fact_text(head: str, relation: str, tail: str = "?") -> str:
    """A query, or a fact, in one line; an inverse relation is an arrow the other way.

    >>> fact_text("steroid", "affects"), fact_text("cell", "affects⁻¹", "steroid")
    ('steroid —affects→ ?', 'cell ←affects— steroid')
    """
    stem = relation.removesuffix(INVERSE)
    return f"{head} —{relation}→ {tail}" if stem == relation else f"{head} ←{stem}— {tail}"


@dataclass(frozen=True)
class Edge:
    """A step of a path: along a relation to an entity, or against its arrow. `key` is the entity's label in the facts."""

    relation: str
    entity: str
    is_inverse: bool = False
    key: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"←{self.relation}— {self.entity}" if self.is_inverse else f"—{self.relation}→ {self.entity}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a server makes thousands a second, so not by `asdict`, which copies deeply."""
        return {"relation": self.relation, "entity": self.entity, "is_inverse": self.is_inverse, "key": self.key}


@dataclass(frozen=True)
class ReasoningPath:
    """A walk from the head of a query, without the steps that stay in place. `share` is its part in the answer's score.

    >>> print(ReasoningPath("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), 0.5))
    steroid —affects→ cell ←affects— eicosanoid
    """

    head: str
    edges: tuple[Edge, ...]
    share: float

    def __str__(self) -> str:
        return " ".join([self.head, *(str(edge) for edge in self.edges)]) if self.edges else f"{self.head} (the walk stays there)"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"text": str(self), "share": self.share, "edges": [edge.to_dict() for edge in self.edges]}


@dataclass(frozen=True, repr=False)
class Answer:
    """An entity that may complete a query, with the paths behind its score.

    Answers are ranked by `probability`, that of a new fact to be true, calibrated on dev, the same asked from either end; it is
    None for known facts. `score` is that of the walks from the head. Below `threshold` an answer is unlikely.
    `entity` is its readable name, `key` its label in the facts; in most data the two are the same.

    >>> Answer("hormone", 1, 0.9, False, 0.711, ())
    Answer(1. hormone, predicted, 71.1 %: no path)
    """

    entity: str
    rank: int
    score: float
    is_known: bool
    probability: float | None
    paths: tuple[ReasoningPath, ...]
    key: str = ""
    threshold: float = 0.0

    @property
    def kind(self) -> str:
        """Whether it is a fact of the graph: "known", "predicted", or "unlikely" if its probability is below the threshold."""
        if self.is_known:
            return "known"
        return "unlikely" if self.probability is not None and self.probability < self.threshold else "predicted"

    @property
    def reason(self) -> str:
        """The best path as text."""
        return str(self.paths[0]) if self.paths else "no other path" if self.is_known else "no path"

    def __str__(self) -> str:
        return f"{self.rank}. {self.entity} ({self.kind}): {self.reason}"

    def __repr__(self) -> str:
        chance = "" if self.probability is None else f", {100 * self.probability:.1f} %"
        return f"Answer({self.rank}. {self.entity}, {self.kind}{chance}: {self.reason})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("entity", "key", "rank", "score", "is_known", "kind", "probability")
        return {name: getattr(self, name) for name in names} | {"paths": [path.to_dict() for path in self.paths]}
