"""The SHA-256 of each file of a run, stated in its `digests.json`, so that edits and mixed-up files are noticed.

Before a file is replaced, the digest of the new one is stated as expected beside the old one, and confirmed afterwards: a process
that is killed in between leaves a folder that agrees with itself. The checkpoint, which has a checksum of its own, and the
history while training adds to it are not stated. Digests show accidents and edits; who can write all files can write this one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from hopwalk.errors import ChangedFileError, RunError
from hopwalk.utils.files import digest_of, parse_json, read_text, write_text

DIGESTS = "digests.json"
FORMAT = 1
UNSTATED = {DIGESTS, "checkpoint.safetensors"}
STATED, EXPECTED = "sha256", "expected"


def expect(folder: Path, name: str, digest: str) -> None:
    """State that a file is about to be replaced by one with this digest."""
    _write(folder, _settled(folder), {name: digest})


def confirm(folder: Path, name: str, digest: str) -> None:
    """State that a file has this digest, and no other."""
    stated, _ = _read(folder) or ({}, {})
    _write(folder, stated | {name: digest}, {})  # the only one that was expected


def forget(folder: Path, name: str) -> None:
    """State nothing about a file, which is going to change."""
    stated = _settled(folder)
    if name in stated:
        _write(folder, {other: digest for other, digest in stated.items() if other != name}, {})


def state_all(folder: Path, *, again: bool = False) -> int:
    """State the digest of every file that has none; with `again`, of every file as it is now. Returns the number of files."""
    stated = {} if again else _settled(folder)
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    names = [file.name for file in files if file.name not in UNSTATED]
    _write(folder, {name: stated.get(name) or digest_of(folder / name) for name in names}, {})
    return len(names)


def verify(folder: Path, name: str, content: bytes | None = None) -> None:
    """Raise a `ChangedFileError` if a file is not as it is stated; files without a digest are accepted.

    `content` is that of the file, if it was read already.
    """
    found = _read(folder)
    accepted = {part[name] for part in found if name in part} if found else set()
    if not accepted:
        return
    digest = digest_of(folder / name) if content is None else hashlib.sha256(content).hexdigest()
    if digest not in accepted:
        raise ChangedFileError(
            "the file was changed since hopwalk wrote it: its digest is not the one in digests.json",
            path=folder / name,
            remedy="Restore the file; or, if you made the change and want it, accept it.",
        )


def are_stated(folder: Path) -> bool:
    """Whether the folder states digests; runs of older versions do not."""
    return (folder / DIGESTS).exists()


def _settled(folder: Path) -> dict[str, str]:
    """The digests that are stated, with an expected one in the place of the old one if its file was replaced before the end."""
    stated, expected = _read(folder) or ({}, {})
    replaced = {
        name: digest for name, digest in expected.items() if (folder / name).exists() and digest_of(folder / name) == digest
    }
    return stated | replaced


def _read(folder: Path) -> tuple[dict[str, str], dict[str, str]] | None:
    """The digests that are stated, and those that are expected, by file; None if there is no `digests.json`."""
    path = folder / DIGESTS
    if not path.exists():
        return None
    try:
        content = parse_json(read_text(path))
        parts = content[STATED], content[EXPECTED]
        if content["format"] != FORMAT or not all(_is_table(part) for part in parts):
            raise ValueError("it does not hold digests")
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "Restore the file; or, if you trust the other files of the run, remove it."
        raise RunError(f"the file is damaged or cannot be read ({error})", path=path, remedy=remedy) from None
    return parts


def _is_table(part: object) -> bool:
    return isinstance(part, dict) and all(isinstance(text, str) for entry in part.items() for text in entry)


def _write(folder: Path, stated: Mapping[str, str], expected: Mapping[str, str]) -> None:
    content = {"format": FORMAT, STATED: dict(sorted(stated.items())), EXPECTED: dict(expected)}
    write_text(folder / DIGESTS, json.dumps(content, indent=1) + "\n")
