"""How the score of an answer is shared out among the paths that carry it."""

from __future__ import annotations

from collections.abc import Sequence

from hopwalk.learning.scorer import ScoredPath, Step


def scored_paths(
    paths: Sequence[tuple[Step, ...]], forward: Sequence[float], backward: Sequence[float], floor: float
) -> list[ScoredPath]:
    """Paths of an answer with what each carries, the best first; those that carry nothing only if there are no others.

    `forward` has the scores without the first n of the paths, `backward` those without all but the first n, for all n. A path
    gets the mean of what it adds to the fall of the score if they are taken away in their order and in the opposite order: in one
    order alone, the last of several paths that can replace each other would get all of it. `floor` is the score of no walk.
    """
    full = forward[0] - floor
    scored = []
    for place, path in enumerate(paths):
        pairs = [(forward[place], forward[place + 1]), (backward[place + 1], backward[place])]
        drop = sum(before - after for before, after in pairs) / 2
        above = sum(max(before - floor, 0.0) - max(after - floor, 0.0) for before, after in pairs) / 2
        scored.append(ScoredPath(path, drop, above / full if full > 0 else 0.0))
    ordered = sorted(scored, key=lambda path: -path.drop)
    return [path for path in ordered if path.drop > 0] or ordered[:1]
