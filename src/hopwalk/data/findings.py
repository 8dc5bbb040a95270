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
