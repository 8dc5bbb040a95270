"""A `Dataset` back to files that the readers read: tab-separated text, or CSV where a label needs quotes."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hopwalk.data.dataset import Dataset
from hopwalk.data.reading import split_files
from hopwalk.data.tables import roles_in_header
from hopwalk.data.triples import Triples
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.errors import DataError
from hopwalk.utils.arrays import atomic_path

NEEDS_QUOTES = r"[\t\r\n]|^\x{FEFF}"


def write_folder(dataset: Dataset, folder: str | Path) -> list[Path]:
    """Write train, valid, test (those with facts) and the readable names; the paths written.

    A folder that has other files that would be read beside them is refused. Files are `.tsv`, or `.csv` with quotes where a label
    or name holds a tab or a line break.
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
    beside = [path.name for path in split_files(folder) if path not in paths]
    if beside:
        remedy = "Remove it, or choose another folder."
        raise DataError(f"the folder holds {beside[0]}, which would be read beside the new files", path=folder, remedy=remedy)
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
    # A first fact that reads like a header ("subject", "relation", "object") would be taken for one without a header before it.
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
