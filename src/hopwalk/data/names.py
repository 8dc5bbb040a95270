"""Search for entities and relations by name: exact, in another spelling, by prefix, or approximately."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.typos import BLANK, Codes, Places, codes_of, find_similar, most_errors
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import UnknownNameError
from hopwalk.utils.text import shorten

PLURALS = {"entity": "entities", "relation": "relations"}
MOST_LISTED = 60  # with at most so many names, all are listed if none is similar
MOST_CHARACTERS = 200  # of a text that are compared with names
LONGEST_OTHERWISE_SPELT = 100_000  # characters; longer texts must be the name itself
MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")  # accents, as characters of their own
LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})  # have no parts


def folded(text: str) -> str:
    """The text without case, accents, hyphens, underscores and blanks, which differ between spellings.

    >>> folded("Cell_or-Molecular Dysfunction"), folded("Ménière's")
    ('cellormoleculardysfunction', "meniere's")
    """
    return _folded_lines(text.replace("\n", " "))


def has_both_spellings(vocabulary: Vocabulary) -> bool:
    """Whether some names differ only in blanks and underscores; underscores must then be shown as they are."""
    import polars as pl

    names = pl.Series([vocabulary.name(id_) for id_ in range(len(vocabulary))], dtype=pl.String).unique()
    return names.str.replace_all("_", " ", literal=True).n_unique() < len(names)


def _folded_lines(text: str) -> str:
    """Every line folded; several times faster for many names than one at a time."""
    return re.sub(r"[^\S\n]+|[_-]+", "", _plain(text))


def _worded_lines(text: str) -> str:
    """Every line in lower case, with a blank before each word."""
    return re.sub(r"(?:[^\w\n]|_)+", " ", _plain(text))


def _plain(text: str) -> str:
    """The text without case and accents."""
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return parts if parts.isascii() else MARKS.sub("", parts).translate(LETTERS)


@dataclass(frozen=True)
class _Lines:
    """Texts joined by line breaks; `starts` has the position where each begins, and where the last one ends."""

    joined: str
    starts: list[int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Lines:
        listed = [f"\n{text}" for text in texts]
        starts = [0, *np.cumsum([len(text) for text in listed]).tolist()]
        return cls("".join(listed) + "\n", starts)

    def containing(self, text: str) -> Iterator[int]:
        """The lines that contain the text, in order. With a line break before it, the text must begin the line."""
        place = self.joined.find(text)
        while 0 <= place < self.starts[-1]:
            line = bisect_right(self.starts, place) - 1
            yield line
            place = self.joined.find(text, self.starts[line + 1])


class NameIndex:
    """An index of labels and readable names. Its expensive parts are built when first needed.

    >>> people = NameIndex(Vocabulary.of(["Ann_Lee", "Lee_Ann", "Bob"]))
    >>> people.id("ann lee"), people.search("lee")
    (0, [2, 0])
    """

    def __init__(self, vocabulary: Vocabulary, kind: str = "entity") -> None:
        self._vocabulary, self._kind = vocabulary, kind

    def id(self, text: str) -> int:
        """The id of a name: an exact match, or the only match without case, accents, blanks, hyphens and underscores.

        An `UnknownNameError` with suggestions if there is no match or more than one, or if the name is not text.
        """
        found = self.find(text)
        if found is None:
            raise UnknownNameError(
                f"there is no {self._kind} {shorten(text)!r}", remedy=self._remedy(text[:LONGEST_OTHERWISE_SPELT])
            )
        return found

    def find(self, text: str) -> int | None:
        """The same, but None if nothing matches."""
        given: object = text  # callers without type checks may pass ids
        if not isinstance(given, str):
            problem = f"{shorten(repr(text))} is not valid as the name of the {self._kind}: names are text"
            raise UnknownNameError(problem, remedy=self._example_remedy())
        if text in self._vocabulary:
            return self._vocabulary.id(text)
        if len(text) > LONGEST_OTHERWISE_SPELT:
            return None
        folded_text = folded(text)
        if not folded_text and not text.strip():
            raise UnknownNameError(f"the name of the {self._kind} is empty", remedy=self._example_remedy())
        matches = self._matches(text, folded_text)
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(self._with_label(id_) for id_ in matches[:5]) + (", …" if len(matches) > 5 else "")
            raise UnknownNameError(
                f"{shorten(text)!r} matches several {PLURALS[self._kind]}", remedy=f"Use one of the labels: {listed}."
            )
        return None

    def search(self, text: str, limit: int = 10) -> list[int]:
        """The ids of names that begin with the text, then of those with a word that does, then of those that contain it.

        In each group, shorter names come first. An empty text finds the shortest names. If no name contains the text, those are
        found that begin like it, or have a word that does, apart from a few typing errors.
        """
        found = self._beginning(text, limit)
        inside = folded(text)
        if len(found) < limit and inside:
            found = self._first_ids([(self._folded, inside)], limit, found)
        return found or self._similar(text, limit)

    def _beginning(self, text: str, limit: int) -> list[int]:
        """The ids of names that begin with the text, then of those with a word that does."""
        words = " " + _worded_lines(text.replace("\n", " ")).strip()
        return self._first_ids([(self._folded, f"\n{folded(text)}"), *([(self._worded, words)] if words.strip() else [])], limit)

    def _first_ids(self, searches: Sequence[tuple[_Lines, str]], limit: int, found: Iterable[int] = ()) -> list[int]:
        """Those found already, and the ids of lines that contain a text, at most `limit` in all."""
        ids = dict.fromkeys(found)
        for lines, part in searches:
            for line in lines.containing(part):
                if len(ids) >= limit:
                    return list(ids)
                ids.setdefault(int(self._ids[line]))
        return list(ids)[:limit]

    def near(self, text: str, limit: int = 5) -> list[int]:
        """The ids of the names that are meant by a text that names none: those with the fewest typing errors.

        A text with at most one error in four characters, and three in all; a name that begins with the text, or has a word that
        does, is also meant. Others are not offered, however similar: there may be none.
        """
        similar = self._similar(text, limit, is_whole=True)
        if not folded(text):
            return similar
        return list(dict.fromkeys([*similar, *self._beginning(text[:MOST_CHARACTERS], limit)]))[:limit]

    def _similar(self, text: str, limit: int, *, is_whole: bool = False) -> list[int]:
        """The ids of names with words like the text, fewest errors first; with `is_whole` a word must end where the text does."""
        words = _worded_lines(text.replace("\n", " ")).strip()[:MOST_CHARACTERS]
        most = most_errors(len(words))
        if not most:
            return []
        codes = codes_of(words)
        starts, ends, lines = self._word_places(self._lines_like(text, most), codes)
        found = find_similar(codes, self._codes, starts, ends, most)
        errors = found.whole_errors if is_whole else found.errors
        rows = np.flatnonzero(errors <= most)
        order = rows[np.lexsort((lines[found.rows[rows]], found.whole_errors[rows], errors[rows]))]
        ids: dict[int, None] = {}
        for row in order.tolist():
            if len(ids) >= limit:
                break
            ids.setdefault(int(self._ids[lines[found.rows[row]]]))
        return list(ids)

    def _matches(self, text: str, folded_text: str) -> list[int]:
        """The ids whose folded label or name is the folded text; an exact name comes first, then labels, then names."""
        found = list(dict.fromkeys(int(self._ids[line]) for line in self._folded.containing(f"\n{folded_text}\n")))
        by_label = [id_ for id_ in found if folded(self._vocabulary[id_]) == folded_text]
        exact = [id_ for id_ in found if self._vocabulary.name(id_) == text]
        return exact if len(exact) == 1 else by_label or found

    def _example_remedy(self) -> str:
        examples = " or ".join(repr(self._vocabulary.name(id_)) for id_ in self.search("", limit=2))
        return f"Give a name such as {examples}."

    def _remedy(self, text: str) -> str:
        near = self.near(text)
        if near:
            return f"Did you mean {_listed([repr(self._vocabulary.name(id_)) for id_ in near])}?"
        if len(self._vocabulary) <= MOST_LISTED:
            names = ", ".join(self._vocabulary.name(id_) for id_ in range(len(self._vocabulary)))
            return f"{PLURALS[self._kind].capitalize()} are: {names}."
        examples = self._beginning(folded(text)[:3], limit=3) or [len(self._vocabulary) * quarter // 4 for quarter in (1, 2, 3)]
        return f"Examples of names: {_listed([repr(self._vocabulary.name(id_)) for id_ in examples])}."

    def _with_label(self, id_: int) -> str:
        """The label, and the readable name if it differs."""
        label, name = self._vocabulary[id_], self._vocabulary.name(id_)
        return label if label == name else f"{label} ({name})"

    # One line for each label and for each readable name, short ones first, so that results need no sorting.

    @cached_property
    def _rows(self) -> tuple[list[str], NDArray[np.int64], list[str]]:
        """The folded names, their ids, and the names as written but without line breaks."""
        written, ids = list(self._vocabulary), list(range(len(self._vocabulary)))
        if self._vocabulary.has_names:
            names = [(self._vocabulary.name(id_), id_) for id_ in ids]
            others = [(name, id_) for name, id_ in names if name != written[id_]]
            written, ids = written + [name for name, _ in others], ids + [id_ for _, id_ in others]
        written = [name.replace("\n", " ") for name in written]
        texts = _folded_lines("\n".join(written)).split("\n")
        order = np.lexsort((np.array(ids, dtype=np.int64), np.array([len(text) for text in texts], dtype=np.int64)))
        return [texts[row] for row in order], np.array(ids, dtype=np.int64)[order], [written[row] for row in order]

    @property
    def _texts(self) -> list[str]:
        return self._rows[0]

    @property
    def _ids(self) -> NDArray[np.int64]:
        return self._rows[1]

    @cached_property
    def _folded(self) -> _Lines:
        return _Lines.of(self._texts)

    @cached_property
    def _worded(self) -> _Lines:
        return _Lines.of(_worded_lines("\n".join(f" {name}" for name in self._rows[2])).split("\n"))

    @cached_property
    def _marks(self) -> NDArray[np.uint64]:
        """For each line, a 64-bit set of its pairs of characters: similar names share most of them."""
        return np.bitwise_or.reduceat(_pair_bits(codes_of(self._folded.joined)), self._folded.starts[:-1])

    @cached_property
    def _codes(self) -> Codes:
        """The characters of the worded lines."""
        return codes_of(self._worded.joined)

    def _lines_like(self, text: str, most: int) -> Places:
        """The lines that may contain something like the text: an error takes away three pairs of characters at most."""
        pairs = codes_of(folded(text)[:MOST_CHARACTERS])
        if len(pairs) < 2:
            return np.arange(len(self._texts))
        mark = np.bitwise_or.reduce(_pair_bits(pairs)[:-1])
        return np.flatnonzero(np.bitwise_count(mark & ~self._marks) <= 3 * most)

    def _word_places(self, lines: Places, text: Codes) -> tuple[Places, Places, Places]:
        """Where words of some lines start, where their lines end, and the line of each [N].

        Only words one of whose first two characters is one of the first two of the text: one error leaves that much, and few
        people mistype both.
        """
        is_chosen = np.zeros(len(self._texts), dtype=np.bool_)
        is_chosen[lines] = True
        rows = np.flatnonzero(is_chosen[self._word_lines])
        words, own = self._words[rows] + 1, self._word_lines[rows]
        is_like = np.isin(self._codes[words], text[:2]) | np.isin(
            self._codes[np.minimum(words + 1, len(self._codes) - 1)], text[:2]
        )
        own_lines = own[is_like].astype(np.int64)
        return words[is_like], np.array(self._worded.starts, dtype=np.int64)[own_lines + 1], own_lines

    @cached_property
    def _words(self) -> Places:
        """The places of the blanks before words, in the worded lines."""
        return np.flatnonzero(self._codes == BLANK)

    @cached_property
    def _word_lines(self) -> NDArray[np.int32]:
        """The line of each word."""
        return (np.searchsorted(np.array(self._worded.starts), self._words, side="right") - 1).astype(np.int32)


def _pair_bits(characters: Codes) -> NDArray[np.uint64]:
    """One of 64 bits for each character and the one after it, by a hash."""
    pairs = characters.astype(np.uint64) * np.uint64(31) + np.append(characters[1:], characters[:1])
    return np.uint64(1) << (pairs * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
