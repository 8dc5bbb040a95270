"""The outcome of a case, and what every error of ours must be like."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hopwalk.errors import HopwalkError

MOST_OF_MESSAGE = 2500  # characters: a path, a problem and a remedy, each cut
REFUSED, ACCEPTED, FAILED = "refused", "accepted", "failed"


@dataclass
class Outcome:
    """What a case did: it was refused with an error of ours, accepted, or failed in a way it must not."""

    what: str
    outcome: str = ACCEPTED
    problem: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class WrongError(Exception):
    """What a case found is not what is promised."""


Case = Callable[[Random, Path, Outcome], Any]


@contextmanager
def judged(outcome: Outcome) -> Iterator[None]:
    """Within the block an error of ours is a refusal; any other is a failure, with its traceback."""
    start = time.process_time()  # of the processor: a busy machine is not a failure
    try:
        yield
    except HopwalkError as error:
        outcome.outcome = REFUSED
        text = str(error)
        if not error.problem or len(text) > MOST_OF_MESSAGE:
            outcome.outcome, outcome.problem = FAILED, f"a message of {len(text)} characters: {text[:500]}"
    except Exception:
        outcome.outcome, outcome.problem = FAILED, traceback.format_exc()[-6000:]
    outcome.seconds = round(time.process_time() - start, 3)
