"""The paths between two entities in the facts of the graph, whatever a model thinks of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.dataset import Dataset
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import Ids
from hopwalk.errors import SettingsError
from hopwalk.reasoning.asking import PathLabels
from hopwalk.reasoning.values import ReasoningPath
from hopwalk.utils.text import counted

MOST_HOPS = 6
MOST_EDGES = 3_000_000  # read at each hop, and to find out how far entities are from the end
MOST_PARTIAL = 50_000  # unfinished paths that are kept at each hop, those through the least busy entities


@dataclass(frozen=True, repr=False)
class PathsBetween:
    """Paths of known facts from one entity to another, shortest first; of equal length, through the least busy entities first.

    `total` is the number found. If not `is_complete`, a bound on the work left out longer paths, or those through busy entities.
    """

    head: str
    tail: str
    hops: int
    paths: tuple[ReasoningPath, ...]
    total: int
    is_complete: bool

    @property
    def title(self) -> str:
        """The number of paths in a sentence."""
        count = counted(self.total, "path") if self.total else "no path"
        start = count if self.is_complete else f"at least {count}" if self.total else "found no path"
        return f"{start[0].upper()}{start[1:]} of ≤ {counted(self.hops, 'hop')} from {self.head} to {self.tail}"

    def __repr__(self) -> str:
        return "\n".join([self.title, *(f"  {path}" for path in self.paths)])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("head", "tail", "hops", "total", "is_complete")
        paths = [{"text": str(path), "edges": [edge.to_dict() for edge in path.edges]} for path in self.paths]
        return {name: getattr(self, name) for name in names} | {"paths": paths}


def paths_between(dataset: Dataset, known: KnownAnswers, head: int, tail: int, *, hops: int, k: int) -> PathsBetween:
    """The `k` first paths of at most `hops` known facts from head to tail that visit no entity twice."""
    if hops > MOST_HOPS:
        raise SettingsError(f"hops must be a whole number from 1 to {MOST_HOPS}, not {hops!r}")
    if head == tail:
        raise SettingsError("the paths asked for begin and end at the same entity", remedy="Give two different entities.")
    distances, is_complete = _distances(known, tail, len(dataset.entities), hops - 1)
    labels, found, total = PathLabels(dataset), list[ReasoningPath](), 0
    for length in range(1, hops + 1):
        walks, is_whole = _walks(known, head, tail, length, distances)
        is_complete &= is_whole
        total += len(walks.steps)
        for steps in walks.steps[: max(k - len(found), 0)].tolist():
            found += labels.paths(head, [(tuple((relation, entity) for relation, entity in steps), 1.0)])
    name = dataset.entities.name
    return PathsBetween(name(head), name(tail), hops, tuple(found), total, is_complete)


@dataclass(frozen=True)
class _Walks:
    """Unfinished paths: their steps (relation, entity) int32 [N, length, 2], and how busy their entities are [N]."""

    steps: NDArray[np.int32]
    busyness: NDArray[np.float64]

    def ends(self, head: int) -> Ids:
        """The last entity of each [N]."""
        return self.steps[:, -1, 1] if self.steps.shape[1] else np.full(len(self.steps), head, dtype=np.int32)

    def least_busy(self, most: int | None = None) -> _Walks:
        """Those through the least busy entities first; of equals those with smaller ids."""
        flat = self.steps.reshape(len(self.steps), 2 * self.steps.shape[1])
        rows = np.lexsort((*flat.T[::-1], self.busyness))[:most]
        return _Walks(self.steps[rows], self.busyness[rows])


def _walks(known: KnownAnswers, head: int, tail: int, length: int, distances: NDArray[np.int8]) -> tuple[_Walks, bool]:
    """The paths of exactly so many hops, and whether none was left out."""
    walks, is_whole = _Walks(np.empty((1, 0, 2), dtype=np.int32), np.zeros(1)), True
    for hop in range(1, length + 1):
        walks, is_readable = _readable(known, walks, head)
        is_whole &= is_readable
        offsets, edges = known.edges(walks.ends(head))
        rows = np.repeat(np.arange(len(walks.steps)), np.diff(offsets))
        is_last = hop == length
        is_near = edges.tails == tail if is_last else (distances[edges.tails] <= length - hop) & (edges.tails != tail)
        is_new = (edges.tails != head) & ~(walks.steps[rows, :, 1] == edges.tails[:, None]).any(axis=1)
        kept = np.flatnonzero(is_near & is_new)
        rows, ends = rows[kept], edges.tails[kept]
        steps = np.stack([edges.relations[kept], ends], axis=1)[:, None]
        busyness = walks.busyness[rows] + (0.0 if is_last else np.log(known.degrees(ends)))
        walks = _Walks(np.concatenate([walks.steps[rows], steps], axis=1), busyness)
        if len(walks.steps) > MOST_PARTIAL:
            walks, is_whole = walks.least_busy(MOST_PARTIAL), False
    return walks.least_busy(), is_whole


def _readable(known: KnownAnswers, walks: _Walks, head: int) -> tuple[_Walks, bool]:
    """The least busy paths whose next edges are few enough to be read, and whether that is all of them."""
    if known.degrees(walks.ends(head)).sum() <= MOST_EDGES:
        return walks, True
    ordered = walks.least_busy()
    rows = np.flatnonzero(np.cumsum(known.degrees(ordered.ends(head))) <= MOST_EDGES)
    return _Walks(ordered.steps[rows], ordered.busyness[rows]), False


def _distances(known: KnownAnswers, end: int, num_entities: int, hops: int) -> tuple[NDArray[np.int8], bool]:
    """The hops from every entity to the end, a large number beyond `hops` [E]; and whether all edges on the way were read."""
    far = np.iinfo(np.int8).max
    found, frontier, num_read = np.full(num_entities, far, dtype=np.int8), np.array([end], dtype=np.int32), 0
    found[end] = 0
    for hop in range(1, hops + 1):
        num_read += int(known.degrees(frontier).sum())
        if num_read > MOST_EDGES:
            return found, False
        near = np.unique(known.edges(frontier)[1].tails)
        frontier = near[found[near] == far]
        found[frontier] = hop
    return found, True
