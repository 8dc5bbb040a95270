"""Findings of the readers and the diagnostics: errors, warnings and notes, each with a count and a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = get_args(Level)  # the most severe first


@dataclass(frozen=True)
class Finding:
    """One observation about the data. `code` identifies its kind and does not change between versions."""

    level: Level
    code: str
    message: str
    count: int = 0
    examples: tuple[str, ...] = ()
    remedy: str = ""

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Finding:
        """The finding that `to_dict` made this from; a `ValueError` if its level is unknown."""
        if fields["level"] not in LEVELS:
            raise ValueError(f"there is no level {fields['level']!r}")
        return cls(**{**fields, "examples": tuple(fields["examples"])})

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"examples": list(self.examples)}
