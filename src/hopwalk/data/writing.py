"""Writing of a `Dataset` to files that the readers read: tab-separated text, or CSV if a label needs quotes."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hopwalk.data.dataset import Dataset
from hopwalk.data.reading import split_files
from hopwalk.data.tables import roles_in_header
from hopwalk.data.triples import Triples
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import DataError
from hopwalk.utils.files import atomic_path

NEEDS_QUOTES = r"[\t\r\n]|^\x{FEFF}"


def write_folder(dataset: Dataset, folder: str | Path) -> list[Path]:
    """Write train, valid, test (those with facts) and the readable names; returns the paths.

    An error if the folder has other files that would be read with them. Files are `.tsv`, or `.csv` with quotes if a label or
    name contains a tab or a line break.
    """
    folder = Path(folder)
    entities, relations = (_labels(vocabulary) for vocabulary in (dataset.entities, dataset.relations))
    names = pl.concat([_names(vocabulary) for vocabulary in (dataset.entities, dataset.relations)]).unique().sort("label")
    texts = (entities, relations, names.get_column("name"))
    quoted = any(labels.str.contains(NEEDS_QUOTES).any() for labels in texts)
    suffix = "csv" if quoted else "tsv"
    parts = {name: triples for name, triples in dataset.splits.items() if len(triples)}
    if dataset.has_own_facts:
        parts["graph"] = dataset.facts
    if len(dataset.held_back):
        parts["held_back"] = dataset.held_back
    paths = {folder / f"{name}.{suffix}": _frame(triples, entities, relations) for name, triples in parts.items()}
    if not names.is_empty():
        paths[folder / f"labels.{suffix}"] = names
    others = [path.name for path in split_files(folder) if path not in paths]
    if others:
        remedy = "Remove it, or choose another folder."
        raise DataError(f"the folder has {others[0]}, which would be read with the new files", path=folder, remedy=remedy)
    for path, frame in paths.items():
        _write(path, frame, quoted)
    return list(paths)


def _frame(triples: Triples, entities: pl.Series, relations: pl.Series) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "head": entities.gather(triples.heads),
            "relation": relations.gather(triples.relations),
            "tail": entities.gather(triples.tails),
        }
    )


def _write(path: Path, frame: pl.DataFrame, quoted: bool) -> None:
    # A first fact that looks like a header ("subject", "relation", "object") needs a header before it.
    has_header = roles_in_header(list(frame.row(0))) is not None
    with atomic_path(path) as temporary:
        if quoted:
            frame.write_csv(temporary, include_header=has_header, quote_style="always")
        else:
            frame.write_csv(temporary, include_header=has_header, separator="\t", quote_style="never")


def _labels(vocabulary: Vocabulary) -> pl.Series:
    return pl.Series("label", list(vocabulary), dtype=pl.String)


def _names(vocabulary: Vocabulary) -> pl.DataFrame:
    named = [id_ for id_ in range(len(vocabulary)) if vocabulary.has_names and vocabulary.name(id_) != vocabulary[id_]]
    return pl.DataFrame(
        {"label": [vocabulary[id_] for id_ in named], "name": [vocabulary.name(id_) for id_ in named]},
        schema={"label": pl.String, "name": pl.String},
    )
