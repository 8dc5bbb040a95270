"""Folders as bytes, to be sent to another machine and back."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path, PurePosixPath

from hopwalk.errors import SavedFileError
from hopwalk.utils.files import storing, sync_folder, write_bytes

Packed = dict[str, bytes]  # content of each file by its path within the folder, with /


def pack(folder: Path, *, without: frozenset[str] = frozenset()) -> Packed:
    """The files of a folder and of those inside it, apart from hidden ones and from names in `without`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    parts = {name: PurePosixPath(name).parts for name in named}
    return {
        name: named[name].read_bytes()
        for name in named
        if not any(part.startswith(".") for part in parts[name]) and not without & {*parts[name]}
    }


def unpack(packed: Packed, folder: Path, *, last: str = "run.json") -> None:
    """Write the files into a folder, each whole or not at all; the one called `last` at the end of its folder's files."""
    for name in sorted(packed, key=lambda name: (PurePosixPath(name).name == last, -len(PurePosixPath(name).parts))):
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise SavedFileError(
                f"a packed folder has a file outside itself ({name!r})", remedy="Use the same version everywhere."
            )
        write_bytes(folder.joinpath(*parts), [packed[name]], len(packed[name]))


def replace_folder(packed: Packed, folder: Path) -> None:
    """Put files in the place of a folder, all or none: `NAME/…` are those of the folder NAME, others go beside it."""
    inner = {name.partition("/")[2]: content for name, content in packed.items() if name.startswith(f"{folder.name}/")}
    unpack({name: content for name, content in packed.items() if "/" not in name}, folder.parent)
    new, old = (folder.with_name(f".{folder.name}.{secrets.token_hex(8)}") for _ in range(2))
    unpack(inner, new)
    with storing(folder):
        if folder.exists():
            folder.replace(old)
        new.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
        sync_folder(folder.parent)


def size_of(packed: Packed) -> int:
    """The bytes of all files."""
    return sum(len(content) for content in packed.values())
