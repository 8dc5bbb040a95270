"""PageRank of all entities by power iteration: which neighbours a hub keeps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pagerank(
    offsets: NDArray[np.int64],
    tails: NDArray[np.int32],
    *,
    damping: float = 0.85,
    tolerance: float = 1e-9,
    most_iterations: int = 200,
) -> NDArray[np.float64]:
    """The PageRank of every entity [E], summing to 1, given the out-edges of entity e at `tails[offsets[e]:offsets[e+1]]`.

    Edges count as often as they stand there; what reaches an entity without out-edges is spread over all entities. Iteration ends
    when a round moves less than `tolerance` of the whole.
    """
    from scipy.sparse import csr_array

    num_entities = len(offsets) - 1
    degrees = np.diff(offsets)
    is_dangling = degrees == 0
    share_out = damping / np.maximum(degrees, 1)
    # float32 ones are exact as weights and halve the memory the product has to read.
    index_dtype = np.int32 if len(tails) < 2**31 else np.int64
    edges = csr_array(
        (np.ones(len(tails), dtype=np.float32), tails, offsets.astype(index_dtype)), shape=(num_entities, num_entities)
    ).T
    rank = np.full(num_entities, 1 / max(num_entities, 1))
    for _ in range(most_iterations):
        received = edges @ (rank * share_out)
        received += (1 - damping + damping * rank[is_dangling].sum()) / num_entities
        moved = np.abs(received - rank).sum()
        rank = received
        if moved < tolerance:
            break
    return rank
