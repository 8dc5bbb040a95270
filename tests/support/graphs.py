"""Random edges for property tests, and edges as arrays by their tail."""

import numpy as np
from hypothesis import strategies as st

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), max_size=40, unique=True)


def incoming(edges: list[tuple[int, int, int]], num_entities: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets and sources of the edges into each entity, and the number of edges from it: the arguments of `pagerank`."""
    ordered = sorted(edges, key=lambda edge: edge[2])
    sources = np.array([head for head, _, _ in ordered], dtype=np.int32)
    counts = np.bincount([tail for _, _, tail in edges] or [0], minlength=num_entities) - (
        0 if edges else [1] + [0] * (num_entities - 1)
    )
    out_degrees = np.bincount(np.array([head for head, _, _ in edges], dtype=int), minlength=num_entities)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), sources, out_degrees
