"""Answers and explanations that display themselves: in the terminal, in a notebook, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from hopwalk.reasoning.drawing import draw_paths
from hopwalk.reasoning.explaining import Explanation
from hopwalk.reasoning.html import answers_fragment, explanation_fragment, for_notebook, with_blanks
from hopwalk.reasoning.rule_groups import Count, RuleGroup, cut_groups, group_lines, group_paths, share_text
from hopwalk.reasoning.values import Answer, fact_text
from hopwalk.utils.text import shorten

if TYPE_CHECKING:
    import polars as pl


class Answers(list[Answer]):
    """The answers of `(head, relation, ?)`, best first: a list that knows its query and displays itself.

    `count` counts how often a rule holds; without it, paths are not grouped by rule. HTML shows underscores in names as blanks,
    unless `keeps_underscores`.

    >>> Answers([Answer("hormone", 1, 0.9, False, 0.711, ())], "steroid", "interacts_with", hops=0)
    steroid —interacts_with→ ?
    An embedding model ranked these: it gives no paths.
      1. hormone  predicted   71.1 %  (no path)
    """

    def __init__(
        self,
        answers: Iterable[Answer],
        head: str,
        relation: str,
        *,
        hops: int,
        count: Count | None = None,
        doubt: str = "",
        keeps_underscores: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(replace(one, threshold=2.0) for one in answers) if doubt else super().__init__(answers)
        self.head, self.relation, self.hops, self._count, self.doubt = head, relation, hops, count, doubt
        self._keeps_underscores = keeps_underscores

    def _with(self, answers: Iterable[Answer]) -> Answers:
        """Other answers of the same query."""
        return Answers(
            answers,
            self.head,
            self.relation,
            hops=self.hops,
            count=self._count,
            doubt=self.doubt,
            keeps_underscores=self._keeps_underscores,
        )

    def reasons(self, answer: Answer) -> tuple[RuleGroup, ...]:
        """The paths of an answer by their rules, with how often these are right; counted when it is called."""
        return () if self._count is None else group_paths(self.relation, answer.paths, self._count)

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
        """The same with at most so many paths each, those of rules that hold first."""
        if self._count is None:
            return self._with(replace(answer, paths=answer.paths[:most]) for answer in self)
        groups = (cut_groups(self.reasons(answer), most) for answer in self)
        paths = (tuple(path for group in some for path in group.paths) for some in groups)
        return self._with(replace(answer, paths=own) for answer, own in zip(self, paths, strict=True))

    @overload
    def __getitem__(self, place: SupportsIndex) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> Answers: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Answer | Answers:
        found = super().__getitem__(place)
        return found if isinstance(found, Answer) else self._with(found)

    def __repr__(self) -> str:
        lines = [self.query, *([self.note] if self.note else [])]
        names = [shorten(answer.entity) for answer in self]
        width = max(map(len, names), default=0)
        for name, answer in zip(names, self, strict=True):
            if self.doubt and not answer.is_known:
                continue
            start = f"{answer.rank:3}. {name:<{width}}  {answer.kind:<9}  {self._chance(answer)}"
            none = "" if answer.paths else "(no other path)" if answer.is_known else "(no path)"
            lines += [f"{start}{none}".rstrip(), *(f"       {line}" for line in self._reason_lines(answer))]
        return "\n".join(lines)

    def _reason_lines(self, answer: Answer) -> list[str]:
        if self._count is None:
            return [f"{share_text(path.share)}  {path}" for path in answer.paths]
        return group_lines(self.reasons(answer))

    def _chance(self, answer: Answer) -> str:
        """The probability as text; blank for a known answer among others that have one."""
        if answer.probability is not None:
            return f"{100 * answer.probability:5.1f} %  "
        return " " * 9 if any(other.probability is not None for other in self) else ""

    def __str__(self) -> str:
        return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """For JSON. The `rules` of an answer have the places of their paths in its `paths`."""
        return {
            "head": self.head,
            "relation": self.relation,
            "note": self.note,
            "answers": [self.answer_dict(answer) for answer in self],
        }

    def answer_dict(self, answer: Answer) -> dict[str, Any]:
        """One of the answers for JSON, with its rules."""
        places = {id(path): place for place, path in enumerate(answer.paths)}
        groups = [(group.to_dict(), group.paths) for group in self.reasons(answer)]
        return answer.to_dict() | {"rules": [made | {"paths": [places[id(path)] for path in paths]} for made, paths in groups]}

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
        found = answers_fragment(self.query, self.note, self, [self.reasons(answer) for answer in self])
        return found if self._keeps_underscores() else with_blanks(found)

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())

    def _repr_svg_(self) -> str:
        return draw_paths([path for answer in self for path in answer.paths[:1]])


@dataclass(frozen=True, repr=False)
class ShownExplanation(Explanation):
    """An explanation that displays itself in a notebook."""

    keeps_underscores: Callable[[], bool] = field(default=lambda: False, compare=False)

    def to_html(self) -> str:
        """An HTML fragment: sentences about the answer, a drawing of its paths, and their rules."""
        found = explanation_fragment(self.title, self.lines, self.reasons)
        return found if self.keeps_underscores() else with_blanks(found)

    def _repr_html_(self) -> str:
        return for_notebook(self.to_html())
