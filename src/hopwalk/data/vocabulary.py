"""Vocabularies: labels and their ids. Labels are sorted, so ids do not depend on the order of lines."""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.errors import UnknownNameError, did_you_mean
from hopwalk.utils.arrays import ArrayFile

if TYPE_CHECKING:
    import polars as pl


OUTER_BLANKS = np.frombuffer(b" \t\n\r\v\f", dtype=np.uint8)


class TextColumn:
    """Strings as one block of UTF-8 bytes and the offset of each; can be memory-mapped."""

    def __init__(self, utf8: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.utf8 = utf8
        self.offsets = offsets

    @classmethod
    def of(cls, texts: pl.Series) -> TextColumn:
        """The column of a polars series of strings."""
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(texts.str.len_bytes().to_numpy(), out=offsets[1:])
        joined = texts.str.join("").item() if len(texts) else ""
        return cls(np.frombuffer(joined.encode(), dtype=np.uint8), offsets)

    @classmethod
    def from_file(cls, file: ArrayFile, name: str) -> TextColumn:
        """The column in the arrays `name.utf8` and `name.offsets` of a file."""
        texts = cls(file.take(f"{name}.utf8", np.uint8), file.take(f"{name}.offsets", np.int64))
        file.require_offsets(f"{name}.offsets", texts.offsets, len(texts.utf8))
        inner = texts.offsets[texts.offsets < len(texts.utf8)]
        is_inside_character = (texts.utf8[inner] & 0b1100_0000) == 0b1000_0000
        file.require(not is_inside_character.any() and _is_utf8(texts.utf8), f"{name} are not UTF-8 text")
        return texts

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def encoded(self, row: int) -> bytes:
        """The UTF-8 bytes of one row."""
        return self.utf8[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def __getitem__(self, row: int) -> str:
        return self.encoded(row).decode()

    def with_inserted(self, texts: Sequence[bytes], rows: NDArray[np.int64]) -> TextColumn:
        """The column with more texts, each before the row given; rows must not descend."""
        bounds = [0, *self.offsets[rows].tolist(), len(self.utf8)]
        pieces = [self.utf8[start:end] for start, end in itertools.pairwise(bounds)]
        inserted = [np.frombuffer(text, dtype=np.uint8) for text in texts]
        joined = [piece for pair in itertools.zip_longest(pieces, inserted) for piece in pair if piece is not None]
        lengths = np.insert(np.diff(self.offsets), rows, [len(text) for text in texts])
        return TextColumn(np.concatenate(joined), np.append(0, np.cumsum(lengths)).astype(np.int64))

    def rows_with_outer_blanks(self) -> NDArray[np.int64]:
        """The rows that begin or end with a blank, a tab or a line break."""
        filled = np.flatnonzero(np.diff(self.offsets))
        outer = self.utf8[self.offsets[filled]], self.utf8[self.offsets[filled + 1] - 1]
        return filled[np.isin(outer[0], OUTER_BLANKS) | np.isin(outer[1], OUTER_BLANKS)]


def _is_utf8(content: NDArray[np.uint8]) -> bool:
    try:
        content.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


class Vocabulary:
    """The labels of entities or relations in ascending order; the position of a label is its id.

    Some data sets have a readable name beside the label in the triples (`/m/02mjmr`, `Q42`). `vocabulary[id]` and
    `vocabulary.id(label)` use labels; `vocabulary.name(id)` is the readable name.

    >>> words = Vocabulary.of(["b", "a", "b"], names={"a": "Alpha"})
    >>> list(words), words.id("b"), words.name(0), words.name(1)
    (['a', 'b'], 1, 'Alpha', 'b')
    """

    def __init__(self, labels: TextColumn, names: TextColumn | None = None) -> None:
        self._labels = labels
        self._names = names
        self._size = len(labels)

    @classmethod
    def of(cls, labels: Iterable[str], names: dict[str, str] | None = None) -> Vocabulary:
        """The vocabulary of labels in any order, with duplicates, and of readable names for some of them."""
        import polars as pl

        distinct = pl.Series("label", list(labels), dtype=pl.String).unique().sort()
        table = pl.DataFrame({"label": list(names), "name": list(names.values())}) if names else None
        return cls.from_sorted(distinct, table)

    @classmethod
    def from_sorted(cls, labels: pl.Series, names: pl.DataFrame | None = None) -> Vocabulary:
        """The vocabulary of distinct labels in ascending order, and of a table (`label`, `name`) of readable names."""
        if names is None or names.is_empty():
            return cls(TextColumn.of(labels))
        import polars as pl

        other_names = names.filter(pl.col("name") != pl.col("label"))
        joined = labels.alias("label").to_frame().join(other_names, on="label", how="left", maintain_order="left")
        column = joined.get_column("name")
        is_named = column.null_count() < len(column)
        return cls(TextColumn.of(labels), TextColumn.of(column.fill_null(pl.lit(""))) if is_named else None)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, id_: int) -> str:
        return self._labels[self._checked(id_)]

    def __iter__(self) -> Iterator[str]:
        return (self._labels[row] for row in range(len(self)))

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and self._find(label) is not None

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} labels)"

    def id(self, label: str) -> int:
        """The id of a label, or an `UnknownNameError` with the nearest labels."""
        found = self._find(label)
        if found is None:
            raise UnknownNameError(
                f"there is no label {label!r} among the {len(self):,} labels", remedy=did_you_mean(label, self._near(label))
            )
        return found

    def name(self, id_: int) -> str:
        """The readable name of an id, or its label if it has none."""
        id_ = self._checked(id_)
        return (self._names is not None and self._names[id_]) or self._labels[id_]

    def with_labels(self, labels: Iterable[str]) -> tuple[Vocabulary, NDArray[np.int32]]:
        """The vocabulary with more labels, and the new id of every id [N]: the order of ids is that of labels.

        >>> more, new_ids = Vocabulary.of(["a", "c"]).with_labels(["b"])
        >>> list(more), new_ids.tolist()
        (['a', 'b', 'c'], [0, 2])
        """
        added = sorted({label.encode() for label in labels if label not in self})
        places = [bisect.bisect_left(range(len(self)), label, key=self._labels.encoded) for label in added]
        rows = np.array(places, dtype=np.int64)
        names = self._names.with_inserted([b""] * len(added), rows) if self._names else None
        moved = np.arange(len(self)) + np.searchsorted(rows, np.arange(len(self)), side="right")
        return Vocabulary(self._labels.with_inserted(added, rows), names), moved.astype(np.int32)

    def count_outer_blanks(self) -> int:
        """The number of labels that begin or end with a blank, a tab or a line break."""
        return len(self._labels.rows_with_outer_blanks())

    def with_outer_blanks(self, most: int) -> list[str]:
        """The first labels that begin or end with a blank, a tab or a line break."""
        return [self._labels[row] for row in self._labels.rows_with_outer_blanks()[:most].tolist()]

    @property
    def has_names(self) -> bool:
        """Whether some labels have a readable name."""
        return self._names is not None

    def labels_hash(self) -> bytes:
        """A SHA-256 of the labels, without readable names."""
        digest = hashlib.sha256(np.ascontiguousarray(self._labels.offsets).data)
        digest.update(np.ascontiguousarray(self._labels.utf8).data)
        return digest.digest()

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to save, with names that begin with `prefix`."""
        columns = {"labels": self._labels} | ({"names": self._names} if self._names else {})
        return {
            f"{prefix}.{column}.{part}": getattr(texts, part) for column, texts in columns.items() for part in ("utf8", "offsets")
        }

    @classmethod
    def from_file(cls, file: ArrayFile, prefix: str) -> Vocabulary:
        """The vocabulary that `to_arrays` saved."""
        labels = TextColumn.from_file(file, f"{prefix}.labels")
        names = TextColumn.from_file(file, f"{prefix}.names") if f"{prefix}.names.utf8" in file else None
        file.require(names is None or len(names) == len(labels), f"{prefix} have more or fewer names than labels")
        return cls(labels, names)

    def _checked(self, id_: int) -> int:
        if not 0 <= id_ < self._size:
            raise IndexError(f"there is no id {id_}: ids are 0 to {len(self) - 1}")
        return int(id_)

    def _near(self, label: str) -> Iterable[str]:
        """Candidates for a similar label: all labels, or in a large vocabulary those around its sorted position."""
        if len(self) <= 5_000:
            return self
        place = bisect.bisect_left(range(len(self)), label.encode(errors="surrogatepass"), key=self._labels.encoded)
        return [self._labels[row] for row in range(max(place - 500, 0), min(place + 500, len(self)))]

    def _find(self, label: str) -> int | None:
        encoded = label.encode(errors="surrogatepass")
        row = bisect.bisect_left(range(len(self)), encoded, key=self._labels.encoded)
        return row if row < len(self) and self._labels.encoded(row) == encoded else None
