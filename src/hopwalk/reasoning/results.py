"""The answers of a question as a list that shows itself: in the terminal, in a notebook, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from hopwalk.data.findings import shorten
from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.html import answers_fragment, for_notebook
from hopwalk.reasoning.values import Answer, in_one_line

if TYPE_CHECKING:
    import polars as pl


class Answers(list[Answer]):
    """The answers of `(head, relation, ?)`, best first: a list that knows its question and shows itself.

    >>> Answers([Answer("hormone", 1, 0.9, False, None, 0.711, ())], "steroid", "interacts_with", hops=2)
    steroid —interacts_with→ ?
    No path of ≤ 2 hops reaches an answer: these are guesses of the scorer.
      1. hormone  predicted   71.1 %  (no path: the scorer's guess)
    """

    def __init__(self, answers: Iterable[Answer], head: str, relation: str, *, hops: int) -> None:
        super().__init__(answers)
        self.head, self.relation, self.hops = head, relation, hops

    @property
    def question(self) -> str:
        """The question in one line."""
        return in_one_line(self.head, self.relation)

    @property
    def note(self) -> str:
        """What must be said of all of them: that no path reaches an answer; or nothing."""
        if any(path.edges for answer in self for path in answer.paths):
            return ""
        are_guesses = any(answer.probability is not None for answer in self)
        return f"No path of ≤ {self.hops} hops reaches an answer" + (": these are guesses of the scorer." if are_guesses else ".")

    def with_paths(self, most: int) -> Answers:
        """The same with at most so many paths of each."""
        cut = (replace(answer, paths=answer.paths[:most]) for answer in self)
        return Answers(cut, self.head, self.relation, hops=self.hops)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> Answers: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Answer | Answers:
        found = super().__getitem__(place)
        return found if isinstance(found, Answer) else Answers(found, self.head, self.relation, hops=self.hops)

    def __repr__(self) -> str:
        lines = [self.question, *([self.note] if self.note else [])]
        names = [shorten(answer.entity) for answer in self]
        width = max(map(len, names), default=0)
        for name, answer in zip(names, self, strict=True):
            chance = "" if answer.probability is None else f"{100 * answer.probability:5.1f} %  "
            start = f"{answer.rank:3}. {name:<{width}}  {answer.kind:<9}  {chance}"
            paths = [str(path) for path in answer.paths] or ["(no path: the scorer's guess)"]
            lines += [f"{start}{paths[0]}", *(f"{'':{len(start)}}{path}" for path in paths[1:])]
        return "\n".join(lines)

    def __str__(self) -> str:
        return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"head": self.head, "relation": self.relation, "answers": [answer.to_dict() for answer in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars table with a row for each answer; `path` is the best one, null where there is none."""
        import polars as pl

        types: dict[str, Any] = {
            "rank": pl.Int64,
            "entity": pl.String,
            "key": pl.String,
            "is_known": pl.Boolean,
            "score": pl.Float64,
            "probability": pl.Float64,
            "path_probability": pl.Float64,
        }
        rows = [[*(getattr(one, name) for name in types), str(one.paths[0]) if one.paths else None] for one in self]
        return pl.DataFrame(rows, schema=types | {"path": pl.String}, orient="row")

    def to_html(self) -> str:
        """A piece of HTML: the question, its answers with bars and marks, and their paths drawn."""
        return answers_fragment(self.question, self.note, self)

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())

    def _repr_svg_(self) -> str:
        return draw_paths([path for answer in self for path in answer.paths[:1]])
