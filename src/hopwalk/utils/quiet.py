"""Log messages of other packages, silenced for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence the logger below errors within the block."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
