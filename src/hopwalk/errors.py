"""The exceptions a user can meet. Each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike


class HopwalkError(Exception):
    """Something the user can correct. The command line prints it without a traceback.

    >>> print(HopwalkError("the file is empty", path="facts.tsv", remedy="Give a file of triples."))
    facts.tsv: the file is empty. Give a file of triples.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        remedy: str = "",
    ) -> None:
        self.problem = problem
        self.path = None if path is None else str(path)
        self.line = line
        self.remedy = remedy
        super().__init__(problem)

    @property
    def where(self) -> str:
        """`path:line`, as far as it is known."""
        if self.path is None:
            return ""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text}. {self.remedy}" if self.remedy else text


class DataError(HopwalkError):
    """The data given cannot be read as triples."""


class UnknownNameError(HopwalkError):
    """A name that is not known: of a data set, an entity, a relation."""


class SettingsError(HopwalkError):
    """A setting that does not exist, or an invalid value of one."""


class DownloadError(HopwalkError):
    """A file of the catalog could not be fetched whole."""


class MissingPackageError(HopwalkError):
    """A part of hopwalk needs an optional package that is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        problem = f"{purpose} needs the package {package}, which is not installed"
        super().__init__(problem, remedy=f"Install it with: pip install {package}")


class DivergedError(HopwalkError):
    """Training diverged: the loss or a parameter is not finite."""


class RunError(HopwalkError):
    """A run folder is missing, damaged, or belongs to other data."""


class SavedFileError(HopwalkError):
    """A file hopwalk wrote is damaged, or is not one of its files."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> str:
    """'Did you mean a, b or c?' with the nearest known names, or '' where none is near.

    >>> did_you_mean("umsl", ["umls", "kinship"])
    "Did you mean 'umls'?"
    """
    near = [repr(match) for match in difflib.get_close_matches(name, known, n=most, cutoff=cutoff)]
    if not near:
        return ""
    listed = near[0] if len(near) == 1 else f"{', '.join(near[:-1])} or {near[-1]}"
    return f"Did you mean {listed}?"
