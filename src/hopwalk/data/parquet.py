"""Parquet files, read in a child process: damage to one can end a process, or have it allocate without end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from hopwalk.config.settings import ReadSettings
from hopwalk.data import parquet_child
from hopwalk.data.children import OVERHEAD_BYTES, ChildError, started
from hopwalk.data.source import Source
from hopwalk.errors import DataError
from hopwalk.utils.files import storing

MOST_FILES = 100_000
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

ChooseColumns = Callable[[list[str]], Sequence[int]]  # the places of the columns to read, from the names of all


@dataclass(frozen=True)
class Part:
    """A Parquet file, and the columns whose value stands in its path, as in `relation=knows/part-0.parquet`."""

    source: Source
    values: dict[str, str | None] = field(default_factory=dict)


def files_of(folder: Path) -> list[Path]:
    """The Parquet files of a folder and of those in it, without those whose names begin with _ or a dot."""
    if not folder.is_dir():
        return []
    found = sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )
    if len(found) > MOST_FILES:
        raise DataError(f"the folder has more than {MOST_FILES:,} Parquet files", path=folder, remedy="Join some of them.")
    return found


def parts_of(folder: Path, settings: ReadSettings) -> list[Part]:
    """The Parquet files of a folder."""
    parts = []
    for file in files_of(folder):
        steps = (step.partition("=") for step in file.relative_to(folder).parent.parts if "=" in step)
        values = {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in steps}
        parts.append(Part(Source.of(file, settings), values))
    return parts


def read_columns(parts: Sequence[Part], choose: ChooseColumns, *, most_mb: int) -> list[tuple[str, pl.DataFrame]]:
    """The columns that `choose` picks by the names in the first file, by file; at most `most_mb` megabytes are read."""
    with tempfile.TemporaryDirectory(prefix="hopwalk-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        files = [(str(_readable(part.source, folder / f"{number}.parquet")), part.values) for number, part in enumerate(parts)]
        request = {"files": files, "out": made, "most_bytes": most_mb * 10**6}
        try:
            with started(parquet_child, request, most_bytes=OVERHEAD_BYTES + 2 * most_mb * 10**6) as child:
                child.tell(list(choose(child.hear())))
                child.hear()
        except ChildError as error:
            raise _problem(parts[error.file].source, error, most_mb) from None
        return [(part.source.name, pl.read_ipc(folder / f"{number}.arrow")) for number, part in enumerate(parts)]


def _readable(source: Source, copy: Path) -> Path:
    """The path of the file, or of a copy if polars cannot open it by its name."""
    if source.path is not None and _is_utf8(source.path):
        return source.path.absolute()
    with storing(copy, len(source.content)), copy.open("wb") as target, source.open() as file:
        while chunk := file.read(2**20):
            target.write(chunk)
    return copy


def _problem(source: Source, error: ChildError, most_mb: int) -> DataError:
    if error.kind == "limit":
        problem = f"the columns have more than {most_mb:,} MB when they are expanded"
        return DataError(
            problem, path=source.name, remedy="Read a part of the facts, or set read.expanded_mb to a larger number."
        )
    return DataError(f"the Parquet file is not valid: {error}", path=source.name, remedy="Write or download the file again.")


def _is_utf8(path: Path) -> bool:
    """Whether polars can open a file of that name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
