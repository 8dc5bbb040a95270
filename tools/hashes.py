"""The SHA-256 of every file of every pinned package, so that the set-up installs those files and no others: `make hashes`.

Reads `constraints.txt`, asks the package index that pip uses, and the folders of files that pip is told to use, for the files of
each version, on all platforms. Writes `requirements/serve.txt`, which the package and its server need, with what builds the
package, and `requirements/dev.txt`, all others. What an installed environment depends on says which is which.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

PROJECT = Path(__file__).parent.parent
CONSTRAINTS = PROJECT / "constraints.txt"
FOLDER = PROJECT / "requirements"
HEAD = "# Made by `make hashes` from constraints.txt: do not edit. The set-up installs only files with these hashes.\n"
BUILDING = {"editables", "hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"}  # the package itself
UNHASHED = {"torch"}  # pip would prefer a file whose hash the index states to the build without CUDA in a folder
BACKPORTS = ' ; python_version < "3.14"'  # of what Python has itself from then on


def pins() -> dict[str, str]:
    """The version of each package in `constraints.txt`, by its canonical name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(name): version.strip() for name, version in pairs}


def hashed(path: Path) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package in a file that this tool wrote."""
    found: dict[str, tuple[str, list[str]]] = {}
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, version = re.findall(r"^(\S+)==(\S+)", line)[0]
            found[name] = version, re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return found


def needed(package: str, extras: frozenset[str] = frozenset(), seen: set[str] | None = None) -> set[str]:
    """The canonical names of what a package needs here, itself included, with these of its extras."""
    seen = set() if seen is None else seen
    seen.add(canonicalize_name(package))
    for text in metadata.requires(package) or []:
        requirement = Requirement(text)
        applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
        if applies and canonicalize_name(requirement.name) not in seen:
            needed(requirement.name, frozenset(requirement.extras), seen)
    return seen


def index_hashes(name: str, version: str) -> Iterator[str]:
    """The hashes of the files of a version in the package index."""
    from pip._internal.models.index import PyPI

    with urllib.request.urlopen(f"{PyPI.simple_url}/{name}/", timeout=60) as page:
        links = re.findall(r'#sha256=([0-9a-f]{64})"[^>]*>([^<]+)<', page.read().decode())
    yield from (digest for digest, file in links if _version_of(file.strip()) == Version(version))


def local_hashes(name: str, version: str) -> Iterator[str]:
    """The hashes of files of a version, or of a build of it such as +cpu, in the folders that pip looks into."""
    for folder in _folders():
        for file in folder.glob("*.whl"):
            found = _version_of(file.name)
            if found and canonicalize_name(file.name.split("-")[0]) == name and found.public == version:
                with file.open("rb") as content:
                    yield hashlib.file_digest(content, "sha256").hexdigest()


@cache
def _folders() -> list[Path]:
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    return [Path(folder) for folder in sorted(set(re.findall(r"find-links='([^']+)'", told))) if Path(folder).is_dir()]


def _version_of(file: str) -> Version | None:
    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def requirement(name: str, version: str) -> str:
    """The lines of a package."""
    hashes = sorted({*index_hashes(name, version), *local_hashes(name, version)})
    if not hashes:
        raise SystemExit(f"{name} {version} has no files in the package index")
    marker = BACKPORTS if name.startswith("backports-") else ""
    return " \\\n    ".join([f"{name}=={version}{marker}", *(f"--hash=sha256:{digest}" for digest in hashes)]) + "\n"


def main() -> None:
    """Write both files."""
    pinned = {name: version for name, version in pins().items() if name not in UNHASHED}
    of_server = needed("hopwalk", frozenset({"serve"})) | BUILDING
    FOLDER.mkdir(exist_ok=True)
    for file, names in (
        ("serve.txt", [name for name in pinned if name in of_server]),
        ("dev.txt", [name for name in pinned if name not in of_server]),
    ):
        text = HEAD + "".join(requirement(name, pinned[name]) for name in sorted(names))
        (FOLDER / file).write_text(text, encoding="utf-8")
        print(f"{file}: {len(names)} packages")


if __name__ == "__main__":
    main()
