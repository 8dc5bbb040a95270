"""What one request may ask for, and how much may wait. More is refused with an error that says what the limit is."""

from __future__ import annotations

from dataclasses import dataclass

MOST_ANSWERS = 100  # k
MOST_PATHS = 20  # of an answer
MOST_FOUND = 100  # names found by a search
MOST_CHARACTERS = 12_000  # of the name of an entity or a relation
MOST_OF_RUN = 255  # characters of the name of a run: that of a folder
MOST_BODY_BYTES = 512 * 1024  # three names of that length fit, each letter written as \uXXXX\uXXXX
MOST_TYPED = 1_000  # characters of what is searched for
MOST_URL_BYTES = 48 * 1024  # a label of 10,000 characters, percent-encoded, fits
MOST_HEADER_BYTES = 80 * 1024  # the request line and all headers together


@dataclass(frozen=True)
class Limits:
    """What the one who starts a server can choose: seconds a request may take, and how many may wait for the engine."""

    seconds: float = 30.0
    waiting: int = 256
