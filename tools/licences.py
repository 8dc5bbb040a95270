"""The licences of all packages that are installed: each must be known, and one of those that we accept. Part of `make check`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from email.message import Message
from importlib import metadata
from typing import Any

# Licences that ask for no more than their text and a notice, and MPL-2.0, which asks for the changes to its own files.
ACCEPTED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("MPL-2.0", "PSF-2.0", "Python-2.0", "Unicode-3.0", "Unlicense", "Zlib", "ZPL-2.1"),
}
# What older metadata say, as an SPDX identifier. "BSD" alone is one of two, both of which are accepted.
WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Public Domain": "CC0-1.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Read by hand, with the reason.
READ = {"docutils": "BSD-2-Clause"}  # public domain and BSD; the GPL is that of an Emacs mode, which is not installed

# Not free, but known: the libraries of CUDA that torch from the package index asks for on Linux. hopwalk needs none of them and
# passes none on; who installs that build of torch accepts NVIDIA's terms.
CUDA_PACKAGE = re.compile(r"(nvidia|cuda)-[a-z0-9-]+")
CUDA_LICENCE = re.compile(r"nvidia|proprietary|^$", re.IGNORECASE)


def licence_of(about: Message | Any) -> str:
    """The licence that a package's metadata state, as an SPDX expression where they can be understood; "" if they state none."""
    name = str(about["Name"])
    if name in READ:
        return READ[name]
    if about["License-Expression"]:
        return str(about["License-Expression"])
    classifiers = [text.split(" :: ")[-1] for text in about.get_all("Classifier") or [] if text.startswith("License ::")]
    field = str(about["License"] or "").strip()
    if re.fullmatch(r"[\w.-]+( OR [\w.-]+)+", field):  # of several classifiers one may be chosen
        return field
    words = [word for word in classifiers if word != "OSI Approved"] or [field]
    return " AND ".join(WORDS.get(word, word) for word in words)


def is_accepted(expression: str) -> bool:
    """Whether every part of an SPDX expression is accepted; of alternatives, one is enough. Exceptions only permit more.

    >>> is_accepted("MIT AND (Apache-2.0 WITH LLVM-exception OR GPL-2.0)"), is_accepted("MIT AND GPL-2.0"), is_accepted("")
    (True, False, False)
    """
    inner = re.search(r"\(([^()]*)\)", expression)
    if inner:
        value = "MIT" if is_accepted(inner[1]) else "refused"
        return is_accepted(expression[: inner.start()] + value + expression[inner.end() :])
    alternatives = [re.split(r"\s+AND\s+", part) for part in re.split(r"\s+OR\s+", expression)]
    return any(all(re.split(r"\s+WITH\s+", part.strip())[0] in ACCEPTED for part in parts) for parts in alternatives)


def refused(packages: Iterable[Any]) -> dict[str, str]:
    """What the packages whose licence is not accepted state, by name."""
    found = {str(package.metadata["Name"]): licence_of(package.metadata) for package in packages}
    return {name: licence for name, licence in sorted(found.items()) if not is_accepted(licence) and not is_cuda(name, licence)}


def is_cuda(name: str, licence: str) -> bool:
    """Whether this is a library of CUDA under NVIDIA's own licence, which its metadata may state in several ways.

    >>> is_cuda("nvidia-cudnn-cu12", "LicenseRef-NVIDIA-Proprietary"), is_cuda("nvidia-tool", "GPL-3.0"), is_cuda("tool", "")
    (True, False, False)
    """
    return bool(CUDA_PACKAGE.fullmatch(name.replace("_", "-")) and CUDA_LICENCE.search(licence))


def main() -> None:
    """Print the packages whose licence is not known or not accepted; exit code 1 if there are any."""
    packages = list(metadata.distributions())
    bad = refused(packages)
    for name, licence in bad.items():
        print(f"{name}: {licence[:200] or 'states no licence'}")
    if bad:
        print("Read the licence; then add it to tools/licences.py with the reason, or do without the package.")
        sys.exit(1)
    cuda = sum(is_cuda(str(package.metadata["Name"]), licence_of(package.metadata)) for package in packages)
    print(
        f"licences: {len(packages)} packages, all known and accepted" + (f"; {cuda} of CUDA, by NVIDIA's terms" if cuda else "")
    )


if __name__ == "__main__":
    main()
