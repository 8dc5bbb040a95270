"""Small graphs and short ways to make data sets in tests."""

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.findings import Finding
from hopwalk.data.reading import LabelledFacts

Fact = tuple[str, str, str]

# A family of five: small enough to work every number out by hand.
FAMILY: list[Fact] = [
    ("ann", "mother_of", "bob"),
    ("ann", "mother_of", "cat"),
    ("bob", "brother_of", "cat"),
    ("cat", "mother_of", "dan"),
    ("bob", "uncle_of", "dan"),
    ("eve", "knows", "ann"),
]


def dataset_of(train: Iterable[Fact], valid: Iterable[Fact] = (), test: Iterable[Fact] = (), **more: Iterable[Fact]) -> Dataset:
    splits = {"train": train, "valid": valid, "test": test, **more}
    columns = {"head": pl.String, "relation": pl.String, "tail": pl.String}
    frames = {name: pl.DataFrame(list(facts), schema=columns, orient="row") for name, facts in splits.items()}
    return assemble("test", LabelledFacts({name: frame for name, frame in frames.items() if len(frame) or name == "train"}))


def facts_of(dataset: Dataset, split: str = "facts") -> set[Fact]:
    return set(dataset.labels_of(getattr(dataset, split)))


def load_text(folder: Path, text: str | bytes, name: str = "facts.tsv", **read: str) -> Dataset:
    """What hopwalk reads from a file with this content."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return hopwalk.load_dataset(path, changed(Settings(), {f"read.{key}": value for key, value in read.items()}))


def is_mapped(array: Any) -> bool:
    """Whether the array is a view of a mapped file."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array is not None


def finding(dataset: Dataset, code: str) -> Finding:
    (found,) = [finding for finding in dataset.findings if finding.code == code]
    return found
