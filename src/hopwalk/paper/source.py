"""The source and machine behind a number. Nothing here identifies the owner of the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("numpy", "polars", "scipy", "safetensors", "torch")


def describe_source() -> dict[str, Any]:
    """Date, version, commit (where the package is in a git repository), a hash of the source, processor and libraries."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "hopwalk": version("hopwalk"),
        "commit": _git("rev-parse", "HEAD") if _git("ls-files", "__init__.py") else "",
        "has_uncommitted_source": bool(_git("status", "--porcelain", "--", ".")),
        "source_sha256": source_sha256(),
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def source_sha256() -> str:
    """A hash of the package's Python files, names and contents: it identifies the code where a commit alone does not."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def cpu_model() -> str:
    """The name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=PACKAGE, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
