"""Independent pieces of work, one on each thread.

If a piece consists of many small operations, threads that share one operation at a time mostly wait for each other; a piece for
each thread keeps all busy. Results do not depend on the number of threads, because the pieces do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def on_all_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """The result of `work` for every piece, in order. Spare threads share the operations of the pieces."""
    threads = torch.get_num_threads()
    workers = min(threads, len(pieces))
    if workers <= 1:
        return [work(piece) for piece in pieces]
    torch.set_num_threads(threads // workers)  # inherited by the threads of the pool
    try:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, pieces))
    finally:
        torch.set_num_threads(threads)
