"""Independent pieces of work, one on each thread.

Where a piece is many small operations, all threads on one operation at a time wait for each other more than they work; a piece
for each of them keeps all busy. It also makes results the same whatever the number of threads: pieces are cut the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def on_all_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """What the work makes of every piece, in their order. Threads that are left over help with the operations of the pieces."""
    threads = torch.get_num_threads()
    workers = min(threads, len(pieces))
    if workers <= 1:
        return [work(piece) for piece in pieces]
    torch.set_num_threads(threads // workers)  # which the threads of the pool take over
    try:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, pieces))
    finally:
        torch.set_num_threads(threads)
