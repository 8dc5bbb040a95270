"""How long something takes, in words."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """Time for people.

    >>> duration(48), duration(600), duration(9000)
    ('48 s', '10 min', '2.5 h')
    """
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
