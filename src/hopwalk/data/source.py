"""Sources of bytes: a file, a compressed file, or a member of an archive, with a name for messages."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hopwalk.errors import DataError

FOREIGN = (
    (b"PK\x03\x04", "a zip archive", "Unpack it and give the file inside."),
    (b"\xff\xfe", "UTF-16 text", "Save the file as UTF-8."),
    (b"\xfe\xff", "UTF-16 text", "Save the file as UTF-8."),
)


@dataclass(frozen=True)
class Source:
    """Bytes to read. `path` is set for a plain file, so that readers can map it instead of copying it."""

    name: str
    path: Path | None = None
    content: bytes = b""

    @classmethod
    def of(cls, path: Path) -> Source:
        """A plain or gzip-compressed file."""
        try:
            is_stream = not path.is_file() and not path.is_dir()  # e.g. /dev/stdin, which can be read only once
            content = path.read_bytes() if is_stream else b""
            with io.BytesIO(content) if is_stream else path.open("rb") as file:
                beginning = file.read(4)
        except IsADirectoryError:
            raise DataError("this is a folder, not a file", path=path, remedy="Give the path of a file.") from None
        except OSError as error:
            remedy = "Check the path and its permissions."
            raise DataError(f"the file cannot be opened ({error.strerror})", path=path, remedy=remedy) from None
        for mark, what, remedy in FOREIGN:
            if beginning.startswith(mark):
                raise DataError(f"this is {what}", path=path, remedy=remedy)
        if not beginning.startswith(b"\x1f\x8b"):
            return cls(str(path), content=content) if is_stream else cls(str(path), path=path)
        try:
            return cls(str(path), content=gzip.decompress(content or path.read_bytes()))
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"the compressed file is damaged or truncated ({error})", path=path, remedy="Copy or download it again."
            ) from None

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
