"""The catalog of data sets: two are bundled with the package, three are downloaded on first use."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data import download, openke, tables
from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.download import MakeProgressBar, RemoteFile
from hopwalk.data.reading import LabelledFacts, read_path
from hopwalk.data.source import Source, archive_members
from hopwalk.errors import UnknownNameError, did_you_mean
from hopwalk.utils.text import fold_name


@dataclass(frozen=True)
class CatalogEntry:
    """A data set of the catalog: its size, source, citation and licence."""

    name: str
    title: str
    topic: str
    about: str
    entities: int
    relations: int
    facts: int
    source: str
    citation: str
    licence: str
    aliases: tuple[str, ...] = ()
    bundled: bool = False
    files: tuple[RemoteFile, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether the data set can be loaded without a download."""
        return all(download.cached_path(file).exists() for file in self.files)

    @property
    def num_bytes(self) -> int:
        """The size of the download."""
        return sum(file.bytes for file in self.files)


@cache
def entries() -> dict[str, CatalogEntry]:
    """The catalog, by name."""
    text = resources.files("hopwalk.data").joinpath("catalog.toml").read_text(encoding="utf-8")
    catalog = {}
    for name, fields in tomllib.loads(text).items():
        files = tuple(RemoteFile(**file) for file in fields.pop("files", ()))
        catalog[name] = CatalogEntry(name=name, files=files, aliases=tuple(fields.pop("aliases")), **fields)
    return catalog


def find(name: str) -> CatalogEntry | None:
    """The entry of that name or alias, or None; case, hyphens, underscores and blanks are ignored."""
    folded = fold_name(name)
    for entry in entries().values():
        if folded in map(fold_name, (entry.name, *entry.aliases)):
            return entry
    return None


def get(name: str) -> CatalogEntry:
    """The entry of that name or alias, or an `UnknownNameError` with the nearest names."""
    entry = find(name)
    if entry is None:
        known = [known for entry in entries().values() for known in (entry.name, *entry.aliases)]
        remedy = did_you_mean(name.lower(), known) or f"The catalog has: {', '.join(entries())}."
        raise UnknownNameError(f"there is no data set {name!r} in the catalog", remedy=remedy)
    return entry


def fetch(
    entry: CatalogEntry, *, mirror: Path | None = None, make_progress_bar: MakeProgressBar | None = None
) -> tuple[Path, ...]:
    """Paths of the data set's files in the cache; missing files are downloaded first."""
    return tuple(download.fetch(file, mirror=mirror, make_progress_bar=make_progress_bar) for file in entry.files)


def load(entry: CatalogEntry, *, mirror: Path | None = None, make_progress_bar: MakeProgressBar | None = None) -> Dataset:
    """Load the data set; download it first if it is not in the cache."""
    paths = fetch(entry, mirror=mirror, make_progress_bar=make_progress_bar)
    if entry.bundled:
        with resources.as_file(resources.files("hopwalk.data").joinpath("bundled", entry.name)) as folder:
            labelled = read_path(folder, ReadSettings(header="no"))
    elif entry.name == "nell-995":
        labelled = _nell_995(paths)
    else:
        sources = archive_members(paths[0], ["train.txt", "valid.txt", "test.txt"])
        labelled = LabelledFacts(dict(zip(("train", "valid", "test"), map(_read, sources), strict=True)))
    # Relations such as WN18RR's `_hypernym` only look like inverses: the benchmarks state no inverse facts.
    return assemble(entry.name, labelled, fold_inverses=False)


def _nell_995(paths: tuple[Path, ...]) -> LabelledFacts:
    """The graph of OpenKE's files with the queries of MINERVA's.

    The graph excludes all test facts of OpenKE, also those that are not queries of MINERVA, and the dev queries.
    """
    by_name = {f"{path.parent.name}/{path.name}": path for path in paths}
    facts, _ = openke.read_folder(by_name["NELL-995/train2id.txt"].parent)
    all_facts = pl.concat(facts.values())
    queries = {split: _read(Source.of(by_name[f"nell/{file}.txt"])) for split, file in _NELL_QUERIES.items()}
    held_out = pl.concat([queries["valid"], queries["test"]])
    hidden = pl.concat([facts["test"], held_out]).unique()
    graph_facts = all_facts.join(hidden, on=tables.ROLES, how="anti")
    held_back = facts["test"].join(held_out, on=tables.ROLES, how="anti")
    return LabelledFacts(queries | {"facts": graph_facts, "held_back": held_back})


_NELL_QUERIES = {"train": "train", "valid": "dev", "test": "test"}


def _read(source: Source) -> pl.DataFrame:
    return tables.read_triples(source, ReadSettings(separator="\t", header="no"), tail_before_relation=False)[0]
