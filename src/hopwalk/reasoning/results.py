"""Answers and explanations that display themselves: in the terminal, in a notebook, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.explaining import Explanation
from hopwalk.reasoning.html import answers_fragment, explanation_fragment, for_notebook
from hopwalk.reasoning.values import Answer, fact_text
from hopwalk.utils.text import shorten

if TYPE_CHECKING:
    import polars as pl


class Answers(list[Answer]):
    """The answers of `(head, relation, ?)`, best first: a list that knows its query and displays itself.

    >>> Answers([Answer("hormone", 1, 0.9, False, 0.711, ())], "steroid", "interacts_with", hops=0)
    steroid —interacts_with→ ?
    An embedding model ranked these: it gives no paths.
      1. hormone  predicted   71.1 %  (no path)
    """

    def __init__(self, answers: Iterable[Answer], head: str, relation: str, *, hops: int, doubt: str = "") -> None:
        super().__init__(replace(one, threshold=2.0) for one in answers) if doubt else super().__init__(answers)
        self.head, self.relation, self.hops, self.doubt = head, relation, hops, doubt

    @property
    def query(self) -> str:
        """The query in one line."""
        return fact_text(self.head, self.relation)

    @property
    def note(self) -> str:
        """A sentence about the whole list: that the query makes little sense, that there are no answers or paths; or empty."""
        if self.doubt:
            return self.doubt
        if not self.hops:
            return "An embedding model ranked these: it gives no paths."
        return "" if self else f"No path of ≤ {self.hops} hops reaches an answer."

    def with_paths(self, most: int) -> Answers:
        """The same with at most so many paths each."""
        cut = (replace(answer, paths=answer.paths[:most]) for answer in self)
        return Answers(cut, self.head, self.relation, hops=self.hops, doubt=self.doubt)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> Answers: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Answer | Answers:
        found = super().__getitem__(place)
        return found if isinstance(found, Answer) else Answers(found, self.head, self.relation, hops=self.hops, doubt=self.doubt)

    def __repr__(self) -> str:
        lines = [self.query, *([self.note] if self.note else [])]
        names = [shorten(answer.entity) for answer in self]
        width = max(map(len, names), default=0)
        for name, answer in zip(names, self, strict=True):
            if self.doubt and not answer.is_known:
                continue
            start = f"{answer.rank:3}. {name:<{width}}  {answer.kind:<9}  {self._chance(answer)}"
            paths = [str(path) for path in answer.paths] or ["(no other path)" if answer.is_known else "(no path)"]
            lines += [f"{start}{paths[0]}", *(f"{'':{len(start)}}{path}" for path in paths[1:])]
        return "\n".join(lines)

    def _chance(self, answer: Answer) -> str:
        """The probability as text; blank for a known answer among others that have one."""
        if answer.probability is not None:
            return f"{100 * answer.probability:5.1f} %  "
        return " " * 9 if any(other.probability is not None for other in self) else ""

    def __str__(self) -> str:
        return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"head": self.head, "relation": self.relation, "note": self.note, "answers": [answer.to_dict() for answer in self]}

    def to_frame(self) -> pl.DataFrame:
        """A polars table with one row per answer; `path` is the best path, null where there is none."""
        import polars as pl

        types: dict[str, Any] = {
            "rank": pl.Int64,
            "entity": pl.String,
            "key": pl.String,
            "is_known": pl.Boolean,
            "score": pl.Float64,
            "probability": pl.Float64,
        }
        rows = [[*(getattr(one, name) for name in types), str(one.paths[0]) if one.paths else None] for one in self]
        return pl.DataFrame(rows, schema=types | {"path": pl.String}, orient="row")

    def to_html(self) -> str:
        """An HTML fragment: the query, its answers with bars and marks, and drawings of their paths."""
        return answers_fragment(self.query, self.note, self, self.relation)

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())

    def _repr_svg_(self) -> str:
        return draw_paths([path for answer in self for path in answer.paths[:1]])


class ShownExplanation(Explanation):
    """An explanation that displays itself in a notebook."""

    def to_html(self) -> str:
        """An HTML fragment: sentences about the answer, drawings of its paths, and their rules."""
        return explanation_fragment(self.title, self.lines, [(reason.path, reason.rule_text) for reason in self.reasons])

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())
