"""Names that people type, and the entities and relations they mean: exact, written differently, begun, or nearly right."""

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
MOST_LISTED = 60  # names that are all listed where none is near
NEAR = 0.5  # the least likeness of what is suggested
MOST_COMPARED = 300  # names that are compared letter by letter
MOST_LETTERS = 200  # of those


def folded(text: str) -> str:
    """The text without what people write in different ways: case, hyphens, underscores, blanks.

    >>> folded("Cell_or-Molecular Dysfunction")
    'cellormoleculardysfunction'
    """
    return _folded_lines(text.replace("\n", " "))


def _folded_lines(text: str) -> str:
    """Every line folded; a hundred thousand names at once are several times faster than one after the other."""
    return re.sub(r"[^\S\n]+|[_-]+", "", unicodedata.normalize("NFKC", text).casefold())


def _worded_lines(text: str) -> str:
    """Every line in small letters, a blank before each word."""
    return re.sub(r"(?:[^\w\n]|_)+", " ", unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True)
class _Lines:
    """Texts one after the other, each between line breaks; `starts` says where each begins, and where the last one ends."""

    joined: str
    starts: list[int]

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Lines:
        listed = [f"\n{text}" for text in texts]
        starts = [0, *np.cumsum([len(text) for text in listed]).tolist()]
        return cls("".join(listed) + "\n", starts)

    def with_text(self, wanted: str) -> Iterator[int]:
        """The lines that hold the text, in their order. A text that begins with a line break is looked for where lines begin."""
        place = self.joined.find(wanted)
        while 0 <= place < self.starts[-1]:
            line = bisect_right(self.starts, place) - 1
            yield line
            place = self.joined.find(wanted, self.starts[line + 1])


class NameIndex:
    """Finds what names stand for. Labels and readable names both count; what is costly is made when it is first needed.

    >>> people = NameIndex(Vocabulary.of(["Ann_Lee", "Lee_Ann", "Bob"]))
    >>> people.id("ann lee"), people.search("lee")
    (0, [2, 0])
    """

    def __init__(self, vocabulary: Vocabulary, kind: str = "entity") -> None:
        self._vocabulary, self._kind = vocabulary, kind

    def id(self, text: str) -> int:
        """The id that the text names: exactly, or but for case, blanks, hyphens and underscores; else an `UnknownNameError`."""
        if text in self._vocabulary:
            return self._vocabulary.id(text)
        wanted = folded(text)
        if not wanted and not text.strip():
            examples = " or ".join(repr(self._vocabulary.name(id_)) for id_ in self.search("", limit=2))
            raise UnknownNameError(f"the name of the {self._kind} is empty", remedy=f"Give one, such as {examples}.")
        same = self._same(text, wanted)
        if len(same) == 1:
            return same[0]
        if same:
            listed = ", ".join(self._with_label(id_) for id_ in same[:5]) + (", …" if len(same) > 5 else "")
            raise UnknownNameError(
                f"{shorten(text)!r} may be any of several {PLURALS[self._kind]}", remedy=f"Which one: {listed}?"
            )
        raise UnknownNameError(f"there is no {self._kind} {shorten(text)!r}", remedy=self._remedy(wanted))

    def search(self, text: str, limit: int = 10) -> list[int]:
        """The ids of names that begin with the text, then of those with a word that does, then of those that hold it anywhere.

        Among each, shorter names come first. An empty text finds the shortest names.
        """
        wanted, words = folded(text), " " + _worded_lines(text.replace("\n", " ")).strip()
        found: dict[int, None] = {}
        searches = [(self._folded, f"\n{wanted}")]
        searches += [(self._worded, words)] if words.strip() else []
        searches += [(self._folded, wanted)] if wanted else []
        for lines, part in searches:
            for line in lines.with_text(part):
                if len(found) >= limit:
                    return list(found)
                found.setdefault(int(self._ids[line]))
        return list(found)[:limit]

    def near(self, text: str, limit: int = 5, *, least: float = NEAR) -> list[int]:
        """The ids of the names that are most like the text, most like first."""
        wanted = folded(text[:MOST_LETTERS])
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(wanted)
        likeness: dict[int, float] = {}
        for line in self._alike(wanted):
            matcher.set_seq1(self._texts[line][:MOST_LETTERS])
            if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
                ratio, id_ = matcher.ratio(), int(self._ids[line])
                if ratio >= least:
                    likeness[id_] = max(ratio, likeness.get(id_, 0.0))
        return sorted(likeness, key=lambda id_: (-likeness[id_], id_))[:limit]

    def _same(self, text: str, wanted: str) -> list[int]:
        """The ids of what is called so, but for what folding leaves out: keys come before names, exact names before others."""
        found = list(dict.fromkeys(int(self._ids[line]) for line in self._folded.with_text(f"\n{wanted}\n")))
        by_key = [id_ for id_ in found if folded(self._vocabulary[id_]) == wanted]
        exact = [id_ for id_ in found if self._vocabulary.name(id_) == text]
        return exact if len(exact) == 1 else by_key or found

    def _remedy(self, wanted: str) -> str:
        near = self.near(wanted)
        if near:
            return f"Did you mean {_listed([repr(self._vocabulary.name(id_)) for id_ in near])}?"
        if len(self._vocabulary) <= MOST_LISTED:
            return f"There are: {', '.join(self._vocabulary.name(id_) for id_ in range(len(self._vocabulary)))}."
        if self._kind == "relation":
            return f"The nearest are {_listed([repr(self._vocabulary.name(id_)) for id_ in self.near(wanted, least=0.0)])}."
        begun = self.search(wanted[:3], limit=3) or [len(self._vocabulary) * quarter // 4 for quarter in (1, 2, 3)]
        return f"Names are such as {_listed([repr(self._vocabulary.name(id_)) for id_ in begun])}."

    def _with_label(self, id_: int) -> str:
        """The label, and the readable name where it is another."""
        label, name = self._vocabulary[id_], self._vocabulary.name(id_)
        return label if label == name else f"{label} ({name})"

    # One line for each label and for each readable name, short ones first: whoever is found first need not be sorted.

    @cached_property
    def _rows(self) -> tuple[list[str], NDArray[np.int64], list[str]]:
        """The names folded, whose they are, and the names as they are written but for line breaks."""
        written, ids = list(self._vocabulary), list(range(len(self._vocabulary)))
        if self._vocabulary.has_names:
            others = [(self._vocabulary.name(id_), id_) for id_ in ids]
            told = [(name, id_) for name, id_ in others if name != written[id_]]
            written, ids = written + [name for name, _ in told], ids + [id_ for _, id_ in told]
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
        """For each line, 64 bits that say which pairs of letters it has: names that are alike have most of them in common."""
        letters = np.frombuffer(self._folded.joined.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        return np.bitwise_or.reduceat(_pair_bits(letters), self._folded.starts[:-1])

    def _alike(self, wanted: str) -> Sequence[int]:
        """The lines that share most pairs of letters with the text."""
        if len(self._texts) <= MOST_COMPARED:
            return range(len(self._texts))
        letters = np.frombuffer(f"\n{wanted}\n".encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        mark = np.bitwise_or.reduce(_pair_bits(letters)[:-1])
        shared = np.bitwise_count(self._marks & mark) / (np.bitwise_count(self._marks) + np.bitwise_count(mark) + 1.0)
        best: list[int] = np.argpartition(-shared, MOST_COMPARED)[:MOST_COMPARED].tolist()
        return best


def _pair_bits(letters: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A bit for each letter and the one after it."""
    spread = (letters.astype(np.uint64) * np.uint64(31) + np.append(letters[1:], letters[:1])) * np.uint64(0x9E3779B97F4A7C15)
    return np.uint64(1) << (spread >> np.uint64(58))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
