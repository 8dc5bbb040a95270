"""Labelled facts from a path: detects the format and calls its reader."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from hopwalk.config.settings import Format, ReadSettings
from hopwalk.data import openke, parquet, rdf, sql, tables
from hopwalk.data.addresses import Address, is_address
from hopwalk.data.findings import Finding
from hopwalk.data.rows import Layout, read_columns
from hopwalk.data.source import Source
from hopwalk.data.sparql import Endpoint
from hopwalk.errors import DataError, did_you_mean
from hopwalk.utils.memory import require_room_for_threads
from hopwalk.utils.text import shorten

SPLIT_NAMES = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "dev", "val"),
    "test": ("test", "testing"),
    "facts": ("graph",),
    "held_back": ("held_back",),
}
LABEL_FILES = ("labels.tsv", "labels.csv", "labels.tsv.gz", "labels.csv.gz")
TABLE_SUFFIXES = (".tsv", ".txt", ".csv", ".tab", ".triples", ".del", "")


@dataclass
class LabelledFacts:
    """The result of a reader: frames with the columns `head`, `relation`, `tail` by split, readable names, and findings.

    `splits` has `train`; `valid` and `test` if the data is split; `facts` if the graph is more than `train`; and `held_back` for
    facts that are neither in the graph nor queries.
    """

    splits: dict[str, pl.DataFrame]
    names: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def read_address(address: Address, settings: ReadSettings, *, on_bytes: Callable[[int], None] = lambda _: None) -> LabelledFacts:
    """The facts of a database or a SPARQL endpoint; `on_bytes` is told of the bytes that an endpoint sends."""
    source, names = Source(address.shown), {}
    if address.kind == "sparql":
        with closing(Endpoint(address, settings, on_bytes)) as endpoint:
            triples, findings = tables.read_result(source, settings, endpoint.read_columns)
            if settings.endpoint_names:
                names = endpoint.names_of({*pl.concat([triples.get_column(role) for role in tables.ROLES]).unique()})
            findings += endpoint.findings()
    else:
        triples, findings = tables.read_result(source, settings, lambda choose: sql.read_columns(address, choose, settings))
    if settings.labels:
        names |= read_names(Source.of(Path(settings.labels)))
    return LabelledFacts({"train": triples}, names, findings)


def read_path(path: Path, settings: ReadSettings) -> LabelledFacts:
    """The facts of a file or folder."""
    if is_address(str(path)):  # which is not repeated: it may have a password
        raise DataError("an address cannot be read here", remedy="Give the path of a file.")
    if not is_there(path):
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise DataError("there is no such file or folder", path=path, remedy=did_you_mean(path.name, siblings))
    require_room_for_threads(str(path))
    if path.is_dir():
        labelled = _read_folder(path, settings)
    elif settings.format in ("openke", "minerva"):
        problem = f"read.format = {settings.format!r} is not valid for a file: it is a format of folders"
        raise DataError(problem, path=path, remedy="Give the folder, or set read.format to that of the file.")
    else:
        labelled = _read_splits({"train": path}, settings)
    labels = _labels_file(path, settings)
    if labels is not None:
        labelled.names |= read_names(Source.of(labels))
    return labelled


def is_there(path: Path) -> bool:
    """Whether the path exists; a `DataError` if that cannot be determined."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:  # a name too long, a folder without permission, a zero byte
        remedy = "Give the path of a file or folder that you can read."
        raise DataError(f"the path is not valid: {error}", path=shorten(str(path)), remedy=remedy) from None


def format_of(source: Source, settings: ReadSettings) -> Format:
    """The format of a file, from the settings or else from its name."""
    if settings.format not in ("auto", "minerva", "openke"):
        return settings.format
    if source.suffix == ".parquet":
        return "parquet"
    if source.suffix == ".triples":
        return "triples"
    return "rdf" if source.suffix in rdf.SUFFIXES else "table"


def read_names(source: Source) -> dict[str, str]:
    """Readable names by label, from a table of label and name; columns are separated by a comma in CSV files, else by a tab."""
    is_csv = source.suffix == ".csv"
    layout = Layout("," if is_csv else "\t", is_quoted=is_csv, num_columns=2, columns=(0, 1))
    table = read_columns(source, layout)
    if table.is_empty():
        raise DataError("the table of names is empty", path=source.name, remedy="Expected lines of: label, tab, name.")
    repeated = table.filter(pl.nth(0).is_duplicated())
    if not repeated.is_empty():
        problem = f"the label {repeated.item(0, 0)!r} has more than one name"
        raise DataError(problem, path=source.name, remedy="Keep one line of it.")
    return dict(table.iter_rows())


def _read_folder(folder: Path, settings: ReadSettings) -> LabelledFacts:
    is_openke = (folder / "train2id.txt").exists() and (folder / "entity2id.txt").exists()
    if settings.format == "openke" or (settings.format == "auto" and is_openke):
        splits, findings = openke.read_folder(folder)
        if "train" not in splits:
            raise DataError("the folder has no training facts", path=folder, remedy="Expected them in train2id.txt.")
        return LabelledFacts(splits, findings=findings)
    files = {split: _split_file(folder, names) for split, names in SPLIT_NAMES.items()}
    found = {split: path for split, path in files.items() if path}
    if not found and settings.format in ("auto", "parquet") and parquet.files_of(folder):
        return _read_splits({"train": folder}, settings)
    if "train" not in found:
        others = sorted(entry.name for entry in folder.iterdir() if entry.is_file())[:3]
        remedy = "Expected train, valid (or dev) and test files, e.g. train.tsv; or give the path of a single file of triples."
        listed = f" (found: {', '.join(map(shorten, others))})" if others else ""
        raise DataError(f"the folder has no train file{listed}", path=folder, remedy=remedy)
    if settings.format == "minerva" and "facts" not in found:
        remedy = 'Set read.format = "auto" to use the train file as the graph.'
        raise DataError("the folder has no graph.txt", path=folder, remedy=remedy)
    return _read_splits(found, settings)


def _read_splits(files: dict[str, Path], settings: ReadSettings) -> LabelledFacts:
    labelled = LabelledFacts({})
    for split, path in files.items():
        source = Source(str(path)) if path.is_dir() else Source.of(path, settings)
        format_ = "parquet" if path.is_dir() else format_of(source, settings)
        if format_ == "rdf":
            frame, names, findings = rdf.read_triples(source)
            labelled.names |= names
        elif format_ == "parquet":
            parts = parquet.parts_of(path, settings) if path.is_dir() else [parquet.Part(source)]
            frame, findings = tables.read_parquet(source, parts, settings)
        else:
            frame, findings = tables.read_triples(source, settings, tail_before_relation=format_ == "triples")
        labelled.splits[split] = frame
        labelled.findings += findings
    return labelled


def split_files(folder: Path) -> list[Path]:
    """All files of a folder that are read as its splits or readable names."""
    if not folder.is_dir():
        return []
    splits = [path for names in SPLIT_NAMES.values() for path in _files_of_split(folder, names)]
    return splits + [folder / name for name in LABEL_FILES if (folder / name).exists()]


def _files_of_split(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """The files that can be a split, in any format: train.tsv, train.txt.gz, train.parquet, …; or folders of Parquet files."""
    known = (*TABLE_SUFFIXES, ".parquet", *rdf.SUFFIXES)
    return sorted(
        entry
        for entry in folder.iterdir()
        if (entry.is_file() or parquet.files_of(entry))
        and entry.name.lower().removesuffix(".gz").partition(".")[0] in names
        and Path(entry.name.lower().removesuffix(".gz")).suffix in known
    )


def _split_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    found = _files_of_split(folder, names)
    if len(found) > 1:
        listed = ", ".join(entry.name for entry in found)
        raise DataError(f"several files can be the {names[0]} split: {listed}", path=folder, remedy="Keep one of them.")
    return found[0] if found else None


def _labels_file(path: Path, settings: ReadSettings) -> Path | None:
    if settings.labels:
        return Path(settings.labels)
    folder = path if path.is_dir() else None
    return next((folder / name for name in LABEL_FILES if (folder / name).exists()), None) if folder else None
