"""The exceptions a user can meet. Each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike

MOST_CHARACTERS = 600  # of a problem or a remedy, whatever the input was


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
        self.problem = cut(problem)
        self.path = None if path is None else str(path)
        self.line = line
        self.remedy = cut(remedy)
        super().__init__(self.problem)

    @property
    def where(self) -> str:
        """`path:line`, as far as it is known."""
        if self.path is None:
            return ""
        path = cut(self.path)
        return path if self.line is None else f"{path}:{self.line}"

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


class ChangedFileError(RunError):
    """A file of a run is whole, but not as hopwalk wrote it: its digest differs from the one that the run states."""


class FileLimitError(HopwalkError):
    """A file is too large to be read, or is a pipe, a device or a socket in place of a file."""


class StorageError(HopwalkError):
    """The disk refuses a file: no space, no permission, an I/O error."""


class LockedError(HopwalkError):
    """Another process is writing to the same run folder or file."""


class MemoryLimitError(HopwalkError):
    """Memory ran out, or is sure to run out."""


class ClusterError(HopwalkError):
    """A Ray cluster, or a process of a training on several, cannot be reached, or was lost."""


class ProcessLostError(ClusterError):
    """A process of a training on several was lost; the run can be resumed."""


class WorkError(HopwalkError):
    """A piece of work failed in another process, with an error that is not one of ours; `traceback` is its text there."""

    def __init__(self, problem: str, *, traceback: str) -> None:
        super().__init__(problem, remedy="Report it, with the traceback.")
        self.traceback = traceback


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, without its middle if it is longer than `most` characters.

    >>> cut("a" * 1000, most=9)
    'aaaa…aaaa'
    """
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


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
