"""Names that differ from a text by a few typing errors: a bounded edit distance, computed for many places of text at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLANK, END = 32, 0  # code of the blank, and the code that stands beyond the end of a line
Codes = NDArray[np.uint16]
Places = NDArray[np.int64]
Counts = NDArray[np.uint8]


def most_errors(length: int) -> int:
    """How many errors a text of so many characters may have: one in four characters, at most three; none below four.

    >>> [most_errors(length) for length in (3, 4, 7, 8, 12, 40)]
    [0, 1, 1, 2, 3, 3]
    """
    return min(length // 4, 3)


def codes_of(text: str) -> Codes:
    """The characters as 16-bit codes; those beyond the basic plane keep their lower half."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32).astype(np.uint16)


@dataclass(frozen=True)
class Matches:
    """Places where something like the text stands: which of those searched, and the number of errors.

    `rows` int64 [N], `errors` uint8 [N]; `whole_errors` uint8 [N] is the number if a word must end where the text ends.
    """

    rows: Places
    errors: Counts
    whole_errors: Counts


def find_similar(text: Codes, codes: Codes, starts: Places, ends: Places, most: int) -> Matches:
    """The places `starts` from which `codes`, up to `ends`, begin with something like the text, with at most `most` errors.

    An error is a character too many, too few, another one, or two in the wrong order (optimal string alignment). Distances are
    computed in a band around the diagonal, and places that exceed the bound are dropped on the way.
    """
    rows, width, far = np.arange(len(starts)), 2 * most + 1, most + 1

    def column(place: int) -> Codes:
        """The character at a distance from each start, `END` beyond its line [N]."""
        at = starts[rows] + place
        return np.where(at < ends[rows], codes[np.minimum(at, len(codes) - 1)], np.uint16(END))

    # band[b] is the distance between the first i characters of the text and the first j = i + b - most of the name
    band = np.full((width, len(rows)), far, dtype=np.uint8)
    for offset in range(most, width):
        band[offset] = offset - most
    older = np.full_like(band, far)
    near = {place: column(place) for place in range(most)}
    for i in range(1, len(text) + 1):
        near[i + most - 1] = column(i + most - 1)
        older, band = band, _next_band(text, i, band, older, near)
        alive = band.min(axis=0, initial=far) <= most
        if alive.sum() < 0.7 * len(rows):
            rows, band, older = rows[alive], band[:, alive], older[:, alive]
            near = {place: values[alive] for place, values in near.items() if place >= i - most - 1}
    errors, whole = band.min(axis=0, initial=far), np.full(len(rows), far, dtype=np.uint8)
    for offset, distances in enumerate(band):
        after = column(len(text) + offset - most)
        whole = np.where((after == BLANK) | (after == END), np.minimum(whole, distances), whole)
    kept = errors <= most
    return Matches(rows[kept], errors[kept], whole[kept])


def _next_band(text: Codes, i: int, band: Counts, older: Counts, near: dict[int, Codes]) -> Counts:
    """The distances after one more character of the text, from those after one less and after two less [2 * most + 1, N]."""
    width, most = len(band), len(band) // 2
    newer = np.full_like(band, most + 1)
    for offset in range(max(most - i, 0), width):
        j = i + offset - most
        if j == 0:
            newer[offset] = min(i, most + 1)
            continue
        best = band[offset] + (near[j - 1] != text[i - 1])
        if offset + 1 < width:
            best = np.minimum(best, band[offset + 1] + 1)
        if offset:
            best = np.minimum(best, newer[offset - 1] + 1)
        if i > 1 and j > 1:
            is_swapped = (near[j - 2] == text[i - 1]) & (near[j - 1] == text[i - 2])
            best = np.where(is_swapped, np.minimum(best, older[offset] + 1), best)
        newer[offset] = np.minimum(best, most + 1)
    return newer
