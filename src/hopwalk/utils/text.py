"""Text for people: counts, durations, shortened text, and names that are compared loosely."""

from __future__ import annotations

import json
import re
from typing import Any

# C1 controls, marks and overrides of direction, line and paragraph separators, tags, and others that cannot be seen
UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON for machines, in which characters that steer a terminal or turn the direction of text are escaped.

    >>> json_text({"name": "é \u202egnp.exe"})
    '{"name": "é \\\\u202egnp.exe"}'
    """
    return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], json.dumps(value, indent=indent, ensure_ascii=False))


def counted(count: int, noun: str) -> str:
    """The count with its noun.

    >>> counted(1, "fact"), counted(1200, "fact"), counted(2, "entity"), counted(2, "query")
    ('1 fact', '1,200 facts', '2 entities', '2 queries')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def ordinal(number: int) -> str:
    """The number as a place.

    >>> ordinal(1), ordinal(22), ordinal(113), ordinal(1028)
    ('1st', '22nd', '113th', '1,028th')
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def shorten(text: str, most: int = 60) -> str:
    """The text on one line, cut to `most` characters."""
    flat = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: most + 1])
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def duration(seconds: float | None) -> str:
    """A duration for people.

    >>> duration(48), duration(600), duration(9000)
    ('48 s', '10 min', '2.5 h')
    """
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def fold_name(name: str) -> str:
    """The name without case, hyphens, underscores and blanks."""
    return re.sub(r"[\s_-]", "", name).lower()
