"""Search for entities and relations by name: exact, in another spelling, by prefix, or approximately."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import UnknownNameError
from hopwalk.utils.text import shorten

PLURALS = {"entity": "entities", "relation": "relations"}
MOST_LISTED = 60  # with at most so many names, all are listed if none is similar
LEAST_SIMILARITY = 0.5  # of a suggested name
MOST_COMPARED = 300  # names that are compared character by character
MOST_CHARACTERS = 200  # of a name that are compared


def folded(text: str) -> str:
    """The text without case, hyphens, underscores and blanks, which differ between spellings.

    >>> folded("Cell_or-Molecular Dysfunction")
    'cellormoleculardysfunction'
    """
    return _folded_lines(text.replace("\n", " "))


def _folded_lines(text: str) -> str:
    """Every line folded; several times faster for many names than one at a time."""
    return re.sub(r"[^\S\n]+|[_-]+", "", unicodedata.normalize("NFKC", text).casefold())


def _worded_lines(text: str) -> str:
    """Every line in lower case, with a blank before each word."""
    return re.sub(r"(?:[^\w\n]|_)+", " ", unicodedata.normalize("NFKC", text).casefold())


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
        """The id of a name: an exact match, or the only match without case, blanks, hyphens and underscores.

        An `UnknownNameError` with suggestions if there is no match or more than one, or if the name is not text.
        """
        found = self.find(text)
        if found is None:
            raise UnknownNameError(f"there is no {self._kind} {shorten(text)!r}", remedy=self._remedy(folded(text)))
        return found

    def find(self, text: str) -> int | None:
        """The same, but None if nothing matches."""
        given: object = text  # callers without type checks may pass ids
        if not isinstance(given, str):
            problem = f"{shorten(repr(text))} is not valid as the name of the {self._kind}: names are text"
            raise UnknownNameError(problem, remedy=self._example_remedy())
        if text in self._vocabulary:
            return self._vocabulary.id(text)
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

        In each group, shorter names come first. An empty text finds the shortest names.
        """
        folded_text, words = folded(text), " " + _worded_lines(text.replace("\n", " ")).strip()
        found: dict[int, None] = {}
        searches = [(self._folded, f"\n{folded_text}")]
        searches += [(self._worded, words)] if words.strip() else []
        searches += [(self._folded, folded_text)] if folded_text else []
        for lines, part in searches:
            for line in lines.containing(part):
                if len(found) >= limit:
                    return list(found)
                found.setdefault(int(self._ids[line]))
        return list(found)[:limit]

    def near(self, text: str, limit: int = 5, *, least: float = LEAST_SIMILARITY) -> list[int]:
        """The ids of the names that are most similar to the text, best first."""
        folded_text = folded(text[:MOST_CHARACTERS])
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(folded_text)
        similarity: dict[int, float] = {}
        for line in self._similar_lines(folded_text):
            matcher.set_seq1(self._texts[line][:MOST_CHARACTERS])
            if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
                ratio, id_ = matcher.ratio(), int(self._ids[line])
                if ratio >= least:
                    similarity[id_] = max(ratio, similarity.get(id_, 0.0))
        return sorted(similarity, key=lambda id_: (-similarity[id_], id_))[:limit]

    def _matches(self, text: str, folded_text: str) -> list[int]:
        """The ids whose folded label or name is the folded text; an exact name comes first, then labels, then names."""
        found = list(dict.fromkeys(int(self._ids[line]) for line in self._folded.containing(f"\n{folded_text}\n")))
        by_label = [id_ for id_ in found if folded(self._vocabulary[id_]) == folded_text]
        exact = [id_ for id_ in found if self._vocabulary.name(id_) == text]
        return exact if len(exact) == 1 else by_label or found

    def _example_remedy(self) -> str:
        examples = " or ".join(repr(self._vocabulary.name(id_)) for id_ in self.search("", limit=2))
        return f"Give a name such as {examples}."

    def _remedy(self, folded_text: str) -> str:
        near = self.near(folded_text)
        if near:
            return f"Did you mean {_listed([repr(self._vocabulary.name(id_)) for id_ in near])}?"
        if len(self._vocabulary) <= MOST_LISTED:
            names = ", ".join(self._vocabulary.name(id_) for id_ in range(len(self._vocabulary)))
            return f"{PLURALS[self._kind].capitalize()} are: {names}."
        if self._kind == "relation":
            nearest = [repr(self._vocabulary.name(id_)) for id_ in self.near(folded_text, least=0.0)]
            return f"The most similar ones are {_listed(nearest)}."
        examples = self.search(folded_text[:3], limit=3) or [len(self._vocabulary) * quarter // 4 for quarter in (1, 2, 3)]
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
        characters = np.frombuffer(self._folded.joined.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        return np.bitwise_or.reduceat(_pair_bits(characters), self._folded.starts[:-1])

    def _similar_lines(self, folded_text: str) -> Sequence[int]:
        """The lines that share most pairs of characters with the text."""
        if len(self._texts) <= MOST_COMPARED:
            return range(len(self._texts))
        characters = np.frombuffer(f"\n{folded_text}\n".encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        mark = np.bitwise_or.reduce(_pair_bits(characters)[:-1])
        shared = np.bitwise_count(self._marks & mark) / (np.bitwise_count(self._marks) + np.bitwise_count(mark) + 1.0)
        best: list[int] = np.argpartition(-shared, MOST_COMPARED)[:MOST_COMPARED].tolist()
        return best


def _pair_bits(characters: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """One of 64 bits for each character and the one after it, by a hash."""
    pairs = characters.astype(np.uint64) * np.uint64(31) + np.append(characters[1:], characters[:1])
    return np.uint64(1) << (pairs * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
