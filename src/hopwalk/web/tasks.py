"""Tasks of the engine: answer queries, many at once; explain answers and describe runs, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
        return [answers.to_dict()["answers"] for answers in found]


@dataclass(frozen=True)
class Explaining:
    """Explain answers `(head, relation, tail)`, one at a time: each counts rules."""

    run: RunView
    num_paths: int
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
        """The explanation of each answer."""
        return [self.run.reasoner.explain(*fact, num_paths=self.num_paths).to_dict() for fact in inputs]


@dataclass(frozen=True)
class Describing:
    """Describe a run, once: its examples are queries that are asked."""

    run: RunView
    most_at_once: ClassVar[int] = 64

    def results(self, inputs: Sequence[None]) -> list[dict[str, Any]]:
        """The description, for each who asked for it."""
        return [self.run.about for _ in inputs]
