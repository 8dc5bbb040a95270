"""Answers and the paths that lead to them, as values for people: labels, scores, and one-line pictures."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

INVERSE = "⁻¹"  # at the end of a relation: asked the other way round


def in_one_line(head: str, relation: str, tail: str = "?") -> str:
    """A question, or a fact, in one line; an inverse relation is an arrow the other way.

    >>> in_one_line("steroid", "affects"), in_one_line("cell", "affects⁻¹", "steroid")
    ('steroid —affects→ ?', 'cell ←affects— steroid')
    """
    stem = relation.removesuffix(INVERSE)
    return f"{head} —{relation}→ {tail}" if stem == relation else f"{head} ←{stem}— {tail}"


@dataclass(frozen=True)
class Edge:
    """A step of a path: along a relation to an entity, or against the arrow of the relation."""

    relation: str
    entity: str
    is_inverse: bool = False

    def __str__(self) -> str:
        return f"←{self.relation}— {self.entity}" if self.is_inverse else f"—{self.relation}→ {self.entity}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a server makes thousands a second, so not by `asdict`, which copies deeply."""
        return {"relation": self.relation, "entity": self.entity, "is_inverse": self.is_inverse}


@dataclass(frozen=True)
class Path:
    """A walk from the head of a question; steps that stay where they are are left out.

    >>> print(Path("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), -0.5))
    steroid —affects→ cell ←affects— eicosanoid
    """

    head: str
    edges: tuple[Edge, ...]
    log_prob: float

    def __str__(self) -> str:
        return " ".join([self.head, *(str(edge) for edge in self.edges)]) if self.edges else f"{self.head} (the walk stays there)"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"text": str(self), "log_prob": self.log_prob, "edges": [edge.to_dict() for edge in self.edges]}


@dataclass(frozen=True, repr=False)
class Answer:
    """An entity that may complete a question, with its best paths; without any, it is a guess of the scorer alone.

    `score` is what answers are ranked by. `log_prob` is that of the walk that reaches it, `probability` what the scorer thinks.
    `entity` is its name for people, `key` the label that stands in the facts; most data has one for both.

    >>> Answer("hormone", 1, 0.9, False, None, 0.711, ())
    Answer(1. hormone, predicted, 71.1 %: no path, the scorer's guess)
    """

    entity: str
    rank: int
    score: float
    is_known: bool
    log_prob: float | None
    probability: float | None
    paths: tuple[Path, ...]
    key: str = ""

    @property
    def kind(self) -> str:
        """Whether it is a fact of the graph: "known" or "predicted"."""
        return "known" if self.is_known else "predicted"

    @property
    def path_probability(self) -> float | None:
        """That of the walks that reach it; None if none does."""
        return None if self.log_prob is None else exp(self.log_prob)

    @property
    def confidence(self) -> float | None:
        """The scorer's probability; that of the walk where there is no scorer."""
        return self.path_probability if self.probability is None else self.probability

    @property
    def reason(self) -> str:
        """The best path, or that there is none."""
        return str(self.paths[0]) if self.paths else "no path, the scorer's guess"

    def __str__(self) -> str:
        return f"{self.rank}. {self.entity} ({self.kind}): {self.reason}"

    def __repr__(self) -> str:
        chance = "" if self.probability is None else f", {100 * self.probability:.1f} %"
        return f"Answer({self.rank}. {self.entity}, {self.kind}{chance}: {self.reason})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("entity", "key", "rank", "score", "is_known", "probability", "path_probability")
        return {name: getattr(self, name) for name in names} | {"paths": [path.to_dict() for path in self.paths]}
