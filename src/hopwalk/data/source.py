"""Sources of bytes: a file, a compressed file, or a member of an archive, with a name for messages."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from hopwalk.config.settings import ReadSettings
from hopwalk.errors import DataError
from hopwalk.utils.files import require_regular

FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "Unpack it and give the file inside."),
    (b"\xff\xfe", "UTF-16 text", "Save the file as UTF-8."),
    (b"\xfe\xff", "UTF-16 text", "Save the file as UTF-8."),
)
OPEN_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
CHUNK = 2**20
FREE_EXPANSION = 64 * 2**20  # bytes; below, a compressed file may expand as it likes


@dataclass(frozen=True)
class Source:
    """Bytes to read. `path` is set for a plain file, so that readers can map it instead of copying it."""

    name: str
    path: Path | None = None
    content: bytes = b""

    @classmethod
    def of(cls, path: Path, settings: ReadSettings | None = None) -> Source:
        """A plain or gzip-compressed file, or an open pipe such as /dev/stdin; within the limits of the settings."""
        settings = settings or ReadSettings()
        try:
            content = _read_pipe(path, settings) if _is_open_pipe(path) else None
            with path.open("rb") if content is None else io.BytesIO(content) as file:
                beginning = file.read(4)
                file.seek(0)
                _refuse_foreign(path, beginning)
                if beginning.startswith(b"\x1f\x8b"):
                    size = len(content) if content is not None else path.stat().st_size
                    return cls(str(path), content=_expanded(path, file, size, settings))
        except IsADirectoryError:
            raise DataError("this is a folder, not a file", path=path, remedy="Give the path of a file.") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"the compressed file is damaged or truncated ({error})", path=path, remedy="Copy or download it again."
            ) from None
        except OSError as error:
            remedy = "Check the path and its permissions."
            raise DataError(f"the file cannot be opened ({error.strerror})", path=path, remedy=remedy) from None
        return cls(str(path), path=path) if content is None else cls(str(path), content=content)

    @property
    def suffix(self) -> str:
        """The suffix of the name without `.gz`, in lower case: `.tsv` for `facts.TSV.gz`."""
        return Path(self.name.lower().removesuffix(".gz")).suffix

    def open(self) -> BinaryIO:
        """A stream of the bytes."""
        return self.path.open("rb") if self.path else io.BytesIO(self.content)

    def data(self) -> Path | bytes:
        """The input for polars: the path if there is one with a name in UTF-8, else the bytes."""
        if self.path is None:
            return self.content
        try:
            str(self.path).encode()
        except UnicodeEncodeError:
            return self.path.read_bytes()
        return self.path


def _is_open_pipe(path: Path) -> bool:
    """Whether the path is a pipe that is open already, such as /dev/stdin; an error for other pipes, devices and sockets."""
    if path.is_file() or path.is_dir() or not path.exists():
        return False
    if not str(path).startswith(OPEN_PIPES):
        require_regular(path)
    return True


def _read_pipe(path: Path, settings: ReadSettings) -> bytes:
    with path.open("rb") as file:
        content = file.read(settings.expanded_mb * 10**6 + 1)
    _require_size(path, len(content), settings)
    return content


def _refuse_foreign(path: Path, beginning: bytes) -> None:
    for mark, what, remedy in FOREIGN:
        if beginning.startswith(mark):
            raise DataError(f"this is {what}", path=path, remedy=remedy)


def _expanded(path: Path, file: IO[bytes], size: int, settings: ReadSettings) -> bytes:
    """The content of a gzip-compressed file of `size` bytes, expanded piece by piece until it passes a limit."""
    content, total = io.BytesIO(), 0
    with gzip.GzipFile(fileobj=file) as expanded:
        while chunk := expanded.read(CHUNK):
            total += content.write(chunk)
            _require_size(path, total, settings)
            if total > FREE_EXPANSION and total > settings.expansion * size:
                problem = f"the compressed file expands to more than {settings.expansion:,} times its size"
                raise DataError(problem, path=path, remedy="If that is right, set read.expansion to a larger number.")
    return content.getvalue()


def _require_size(path: Path, size: int, settings: ReadSettings) -> None:
    if size > settings.expanded_mb * 10**6:
        problem = f"the file has more than {settings.expanded_mb:,} MB when it is expanded"
        raise DataError(problem, path=path, remedy="Expand it on disk, or set read.expanded_mb to a larger number.")


def archive_members(path: Path, names: list[str]) -> list[Source]:
    """Files of a tar archive, read into memory; nothing is written to disk."""
    try:
        with tarfile.open(path) as archive:
            members = [archive.extractfile(name) for name in names]
            return [
                Source(f"{path}:{name}", content=member.read() if member else b"")
                for name, member in zip(names, members, strict=True)
            ]
    except (tarfile.TarError, KeyError, EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"the archive cannot be read ({error})", path=path, remedy="Delete the file, and load the data again."
        ) from None
