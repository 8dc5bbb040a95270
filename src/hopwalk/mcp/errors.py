"""Errors that tell the model what to try next."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field, ValidationError

from hopwalk.mcp.labels import shown


class Mistake(BaseModel):
    """The structured content of a call that failed."""

    error: str
    try_next: str
    suggestions: list[str] = Field(default_factory=list)


class ToolError(Exception):
    """A call that cannot be answered: what is wrong, what to try next, and labels that may be meant."""

    def __init__(self, error: str, try_next: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(error)
        self.mistake = Mistake(error=error, try_next=try_next, suggestions=[shown(label) for label in suggestions])


def invalid_arguments(error: ValidationError, known: Sequence[str]) -> ToolError:
    """The mistake in the arguments of a call, without the arguments themselves."""
    found = []
    for one in error.errors(include_url=False, include_input=False)[:5]:
        place = ".".join(shown(str(part)) for part in one["loc"]) or "arguments"
        message = "there is no such argument" if one["type"] == "extra_forbidden" else one["msg"]
        found.append(f"{place}: {message}")
    return ToolError("; ".join(found), f"Call the tool again. Its arguments are {', '.join(known)}.")
