"""PageRank of all entities by power iteration; it decides which edges a hub keeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pagerank(
    offsets: NDArray[np.int64],
    sources: NDArray[np.int32],
    out_degrees: NDArray[np.integer[Any]],
    *,
    damping: float = 0.85,
    tolerance: float = 1e-8,
) -> NDArray[np.float64]:
    """The PageRank of every entity [E], summing to 1.

    The edges into entity e come from `sources[offsets[e]:offsets[e+1]]`; a repeated edge counts repeatedly. The rank of entities
    without out-edges is spread over all entities. Iteration ends when the ranks change by less than `tolerance` in total.
    """
    from scipy.sparse import csr_array

    num_entities = len(offsets) - 1
    if num_entities == 0:
        return np.empty(0)
    is_dangling = out_degrees == 0
    share_out = damping / np.maximum(out_degrees, 1)
    index_dtype = np.int32 if len(sources) < 2**31 else np.int64  # scipy needs one type for both index arrays
    in_edges = csr_array(
        (np.ones(len(sources)), sources.astype(index_dtype, copy=False), offsets.astype(index_dtype)),
        shape=(num_entities, num_entities),
    )
    rank = np.full(num_entities, 1 / num_entities)
    # The error shrinks by the damping factor each round, so this many are always enough.
    for _ in range(math.ceil(math.log(tolerance / 2) / math.log(damping)) + 1):
        received: NDArray[np.float64] = in_edges @ (rank * share_out)
        received += (1 - damping + damping * rank[is_dangling].sum()) / num_entities
        moved = np.abs(received - rank).sum()
        rank = received
        if moved < tolerance:
            break
    return rank
