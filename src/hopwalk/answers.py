"""Answers and the paths that lead to them, as values for people: labels, scores, and one-line pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp
from typing import Any


@dataclass(frozen=True)
class Edge:
    """A step of a path: along a relation to an entity, or against the arrow of the relation."""

    relation: str
    entity: str
    is_inverse: bool = False

    def __str__(self) -> str:
        return f"←{self.relation}— {self.entity}" if self.is_inverse else f"—{self.relation}→ {self.entity}"


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
        return " ".join([self.head, *(str(edge) for edge in self.edges)])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"text": str(self), "log_prob": self.log_prob, "edges": [asdict(edge) for edge in self.edges]}


@dataclass(frozen=True)
class Answer:
    """An entity that may complete a question, with its best paths; without any, it is a guess of the scorer alone.

    `score` is what answers are ranked by. `log_prob` is that of the walk that reaches it, `probability` what the scorer thinks.
    """

    entity: str
    rank: int
    score: float
    is_known: bool
    log_prob: float | None
    probability: float | None
    paths: tuple[Path, ...]

    def __str__(self) -> str:
        kind = "known" if self.is_known else "predicted"
        reason = str(self.paths[0]) if self.paths else "no path, the scorer's guess"
        return f"{self.rank}. {self.entity} ({kind}): {reason}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: getattr(self, name) for name in ("entity", "rank", "score", "is_known", "probability")}
        walked = None if self.log_prob is None else exp(self.log_prob)
        return own | {"path_probability": walked, "paths": [path.to_dict() for path in self.paths]}
