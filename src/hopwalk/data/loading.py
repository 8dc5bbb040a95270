"""Loading of data sets by name, path or address: from the catalog, PyKEEN, files, a prepared folder, or a database."""

from __future__ import annotations

from pathlib import Path

from hopwalk.config.settings import ReadSettings, Settings, changed
from hopwalk.data import catalog
from hopwalk.data.addresses import EXAMPLES, Address, is_address, is_sqlite_file, refuse_connection_string
from hopwalk.data.dataset import Dataset, assemble
from hopwalk.data.download import MakeProgressBar
from hopwalk.data.reading import is_there, read_address, read_path, split_files
from hopwalk.errors import DataError, SettingsError, UnknownNameError, did_you_mean

PREPARED = "dataset.safetensors"


def load_dataset(
    data: str | Path,
    settings: Settings | None = None,
    *,
    query: str = "",
    mirror: Path | None = None,
    make_progress_bar: MakeProgressBar | None = None,
) -> Dataset:
    """A data set by its name in the catalog, by `pykeen:NAME`, from a file or folder of triples, or from where it lives.

    That is a database, `postgresql://…`, `sqlite:///…` or an SQLite file, with a `query` whose result is head, relation and tail;
    or a SPARQL endpoint, `https://…`, of which all facts are read without one. A name of the catalog takes precedence over a file
    of that name; write `./umls` for the file.

    >>> load_dataset("umls")
    Dataset('umls': 135 entities, 46 relations, 5,216 facts; 5,216 / 652 / 661 queries)
    """
    settings = settings or Settings()
    if query:
        settings = changed(settings, {"read.query": query})
    address = _address(data)
    if address is not None:
        return _load_address(address, settings, make_progress_bar)
    if settings.read.query:
        remedy = f"Remove it, or give the address of a database: {EXAMPLES}."
        raise SettingsError("read.query is for databases and SPARQL endpoints", remedy=remedy)
    if isinstance(data, str) and data.startswith("pykeen:"):
        from hopwalk.data.pykeen_bridge import from_pykeen

        return from_pykeen(data.removeprefix("pykeen:"), fold_inverses=settings.read.fold_inverses)
    entry = catalog.find(data) if isinstance(data, str) else None
    if entry:
        _refuse_reading_options(settings, entry.name)
        return catalog.load(entry, mirror=mirror, make_progress_bar=make_progress_bar)
    path = Path(data)
    if isinstance(data, str) and not is_there(path) and len(path.parts) == 1:
        names = [*catalog.entries(), *(entry.name for entry in Path().iterdir())]
        remedy = did_you_mean(data, names) or f"Data sets: {', '.join(catalog.entries())}; or the path of your own file."
        raise UnknownNameError(f"there is no data set and no file {data!r}", remedy=remedy)
    if is_there(path / PREPARED):
        _refuse_reading_options(settings, str(path))
        if split_files(path):
            raise DataError("the folder has both a prepared data set and text files", path=path, remedy="Remove one of the two.")
        return Dataset.load(path / PREPARED)
    labelled = read_path(path, settings.read)
    name = path.name if path.name not in ("", "..") else path.resolve().name
    name = name if path.is_dir() else Path(name.removesuffix(".gz")).stem
    return assemble(name, labelled, fold_inverses=settings.read.fold_inverses)


def _address(data: str | Path) -> Address | None:
    """The address that the text is, or that of an SQLite file."""
    if is_address(str(data)):
        if isinstance(data, Path):  # which has lost a slash
            raise DataError("an address is a text, not a path", remedy="Give it as a string.")
        return Address.of(data)
    refuse_connection_string(str(data))
    if isinstance(data, str) and catalog.find(data):
        return None
    return Address.of_file(Path(data)) if is_sqlite_file(Path(data)) else None


def _load_address(address: Address, settings: Settings, make_progress_bar: MakeProgressBar | None) -> Dataset:
    bar = make_progress_bar(address.name) if make_progress_bar and address.kind == "sparql" else None
    if bar:
        bar.total = 0  # not known; this starts it
    try:
        labelled = read_address(address, settings.read, on_bytes=bar.update if bar else lambda _: None)
    finally:
        if bar:
            bar.close()
    return assemble(address.name, labelled, fold_inverses=settings.read.fold_inverses)


def prepare(dataset: Dataset, folder: str | Path) -> Path:
    """Save the data set to a folder that `load_dataset` opens memory-mapped; returns the file."""
    text_files = split_files(Path(folder))
    if text_files:
        problem = f"the folder has the text file {text_files[0].name}, so a prepared data set in it would be ambiguous"
        raise DataError(problem, path=folder, remedy="Choose another folder.")
    path = Path(folder) / PREPARED
    dataset.save(path)
    return path


def _refuse_reading_options(settings: Settings, name: str) -> None:
    if settings.read != ReadSettings():
        given = [key for key, value in settings.read if value != getattr(ReadSettings(), key)]
        raise SettingsError(
            f"read.{given[0]} does not apply to {name}: it is not a text file of your own", remedy="Remove the setting."
        )
