"""Labels and their ids: sorted, so the same data has the same ids whatever the order of its lines."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hopwalk.arrays import ArrayFile
from hopwalk.errors import UnknownNameError, did_you_mean

if TYPE_CHECKING:
    import polars as pl


class TextColumn:
    """Strings as one block of UTF-8 bytes and the offsets where each begins: can be memory-mapped, whatever its size."""

    def __init__(self, utf8: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.utf8 = utf8
        self.offsets = offsets

    @classmethod
    def of(cls, texts: pl.Series) -> TextColumn:
        """From a polars column of strings."""
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(texts.str.len_bytes().to_numpy(), out=offsets[1:])
        joined = texts.str.join("").item() if len(texts) else ""
        return cls(np.frombuffer(joined.encode(), dtype=np.uint8), offsets)

    @classmethod
    def from_file(cls, file: ArrayFile, name: str) -> TextColumn:
        """From the arrays `name.utf8` and `name.offsets` of a file."""
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


def _is_utf8(content: NDArray[np.uint8]) -> bool:
    try:
        content.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


class Vocabulary(Sequence[str]):
    """The labels of the entities, or of the relations, in ascending order: a label's place is its id.

    Some data sets name their entities twice: by a key that stands in the triples (`/m/02mjmr`, `Q42`) and by a name for people.
    Keys are what `vocabulary[id]` and `vocabulary.id(key)` speak of; `vocabulary.name(id)` is for people.

    >>> words = Vocabulary.of(["b", "a", "b"], names={"a": "Alpha"})
    >>> list(words), words.id("b"), words.name(0), words.name(1)
    (['a', 'b'], 1, 'Alpha', 'b')
    """

    def __init__(self, labels: TextColumn, names: TextColumn | None = None) -> None:
        self._labels = labels
        self._names = names

    @classmethod
    def of(cls, labels: Iterable[str], names: dict[str, str] | None = None) -> Vocabulary:
        """From labels in any order, with repetitions, and readable names for some of them."""
        import polars as pl

        distinct = pl.Series("label", list(labels), dtype=pl.String).unique().sort()
        table = pl.DataFrame({"label": list(names), "name": list(names.values())}) if names else None
        return cls.from_sorted(distinct, table)

    @classmethod
    def from_sorted(cls, labels: pl.Series, names: pl.DataFrame | None = None) -> Vocabulary:
        """From distinct labels in ascending order and a table (`label`, `name`) of readable names for some of them."""
        if names is None or names.is_empty():
            return cls(TextColumn.of(labels))
        import polars as pl

        telling = names.filter(pl.col("name") != pl.col("label"))
        joined = labels.alias("label").to_frame().join(telling, on="label", how="left", maintain_order="left")
        column = joined.get_column("name")
        is_named = column.null_count() < len(column)
        return cls(TextColumn.of(labels), TextColumn.of(column.fill_null(pl.lit(""))) if is_named else None)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, row: Any) -> Any:  # an id gives a label, a slice a list of labels
        if isinstance(row, slice):
            return [self._labels[index] for index in range(*row.indices(len(self)))]
        index = int(row)
        if not -len(self) <= index < len(self):
            raise IndexError(f"id {index} is not among the {len(self)} ids")
        return self._labels[index % len(self)]

    def __iter__(self) -> Iterator[str]:
        return (self._labels[row] for row in range(len(self)))

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and self._find(label) is not None

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} labels)"

    def id(self, label: str) -> int:
        """The id of a label; `UnknownNameError` with the nearest labels if there is none."""
        found = self._find(label)
        if found is None:
            nearest = did_you_mean(label, self) if len(self) <= 100_000 else ""
            raise UnknownNameError(f"{label!r} is not among the {len(self):,} labels", remedy=nearest)
        return found

    def name(self, id_: int) -> str:
        """The readable name of an id, or its label where it has none."""
        return (self._names and self._names[id_]) or self._labels[id_]

    @property
    def has_names(self) -> bool:
        """Whether any readable names came with the labels."""
        return self._names is not None

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to save, their names beginning with `prefix`."""
        columns = {"labels": self._labels} | ({"names": self._names} if self._names else {})
        return {
            f"{prefix}.{column}.{part}": getattr(texts, part) for column, texts in columns.items() for part in ("utf8", "offsets")
        }

    @classmethod
    def from_file(cls, file: ArrayFile, prefix: str) -> Vocabulary:
        """What `to_arrays` saved."""
        labels = TextColumn.from_file(file, f"{prefix}.labels")
        names = TextColumn.from_file(file, f"{prefix}.names") if f"{prefix}.names.utf8" in file else None
        file.require(names is None or len(names) == len(labels), f"{prefix} have more or fewer names than labels")
        return cls(labels, names)

    def _find(self, label: str) -> int | None:
        wanted = label.encode(errors="surrogatepass")
        row = bisect.bisect_left(range(len(self)), wanted, key=self._labels.encoded)
        return row if row < len(self) and self._labels.encoded(row) == wanted else None
