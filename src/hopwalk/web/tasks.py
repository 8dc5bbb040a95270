"""Tasks of the engine: answer queries, many at once, and explain answers, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hopwalk.reasoning.drawing import draw_paths
from hopwalk.web.runs import RunView


@dataclass(frozen=True)
class Asking:
    """Answer queries `(head, relation)` with the same options."""

    run: RunView
    k: int
    num_paths: int
    only_new: bool
    most_at_once: ClassVar[int] = 64

    def results(self, inputs: Sequence[tuple[str, str]]) -> list[list[dict[str, Any]]]:
        """The answers of each query."""
        found = self.run.reasoner.ask_many(inputs, k=self.k, num_paths=self.num_paths, only_new=self.only_new)
        return [[answer.to_dict() for answer in answers] for answers in found]


@dataclass(frozen=True)
class Explaining:
    """Explain answers `(head, relation, tail)`, one at a time: each counts rules."""

    run: RunView
    num_paths: int
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
        """The explanation of each answer, with the drawing of its paths."""
        return [self._explain(*fact) for fact in inputs]

    def _explain(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        found = self.run.reasoner.explain(head, relation, tail, num_paths=self.num_paths)
        paths = [reason.path for reason in found.reasons]
        return found.to_dict() | {"drawing": draw_paths(paths) if paths else None}
