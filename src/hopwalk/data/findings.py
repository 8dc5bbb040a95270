"""What the readers and the doctor have to say about data: errors, warnings and notes, each with a count and a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found in the data. `code` names its kind and does not change between versions."""

    level: Level
    code: str
    message: str
    count: int = 0
    examples: tuple[str, ...] = ()
    remedy: str = ""

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Finding:
        """What `to_dict` gave."""
        return cls(**{**fields, "examples": tuple(fields["examples"])})

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"examples": list(self.examples)}


def counted(count: int, noun: str) -> str:
    """The count with its noun.

    >>> counted(1, "fact"), counted(1200, "fact"), counted(2, "entity")
    ('1 fact', '1,200 facts', '2 entities')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def shorten(text: str, most: int = 60) -> str:
    """The text on one line, cut to `most` characters."""
    flat = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: most + 1])
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
