"""Tasks of the engine: answer queries, many at once; explain answers, mine rules and describe runs, one at a time."""

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
    k: int
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
        """The explanation of each answer."""
        return [self.run.reasoner.explain(*fact, num_paths=self.num_paths, k=self.k).to_dict() for fact in inputs]


@dataclass(frozen=True)
class Describing:
    """Describe a run, once: its examples are queries that are asked."""

    run: RunView
    most_at_once: ClassVar[int] = 64

    def results(self, inputs: Sequence[None]) -> list[dict[str, Any]]:
        """The description, for each who asked for it."""
        return [self.run.about for _ in inputs]


@dataclass(frozen=True)
class AskingMany:
    """Answer the queries of a batch with the same options; they are ranked together, and other batches wait."""

    run: RunView
    k: int
    num_paths: int
    only_new: bool
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[Sequence[tuple[str, str]]]) -> list[list[list[dict[str, Any]]]]:
        """The answers of each query of each batch."""
        return [Asking(self.run, self.k, self.num_paths, self.only_new).results(batch) for batch in inputs]


@dataclass(frozen=True)
class MiningRules:
    """Mine the rules of relations, one at a time: each asks up to 200 queries."""

    run: RunView
    k: int
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[str]) -> list[list[dict[str, Any]]]:
        """The rules of each relation."""
        return [[used.to_dict() for used in self.run.reasoner.rules(relation, k=self.k)] for relation in inputs]


@dataclass(frozen=True)
class Connecting:
    """Find the paths between two entities, one pair at a time."""

    run: RunView
    hops: int
    k: int
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """The paths between each pair."""
        return [self.run.reasoner.paths_between(*pair, hops=self.hops, k=self.k).to_dict() for pair in inputs]
