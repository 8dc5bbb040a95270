"""Independent pieces of work, done here or on a Ray cluster, by the same few lines.

`with open_place("ray:10.0.0.1:6379") as place: for piece, result in place.run(make_work, pieces): …`

`make_work()` is called once in every process that works, and gives the function that does one piece: what is slow to load is
loaded there, once. Results come back as they are ready. Pieces are taken from their iterator only when a process is free for
one, so a generator can decide late, as Optuna's does. A piece may report while it is done; whoever listens can end it early.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from hopwalk.errors import SettingsError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Report = Callable[[Any], bool]  # a value from within a piece → whether the piece should end early
Work = Callable[[Piece, Report], Result]
OnReport = Callable[[Piece, Any], bool]
LOCAL, RAY = "local", "ray"


def ignore(piece: Any, value: Any) -> bool:
    """Let every piece go on, whatever it reports."""
    return False


class Place(ABC):
    """Processes that do pieces of work."""

    is_here: bool  # whether the work is done in this process, with its files and its memory

    @abstractmethod
    def run(
        self, make_work: Callable[[], Work[Piece, Result]], pieces: Iterable[Piece], on_report: OnReport[Piece] = ignore
    ) -> Iterator[tuple[Piece, Result]]:
        """Each piece with its result, as they are ready, each once. The first piece that fails ends it with its error.

        Ctrl-C asks the pieces under way to end. The results that they still give come first, then the `KeyboardInterrupt`.
        """

    @abstractmethod
    def describe(self) -> str:
        """The place in words; empty if it is this process."""


class Here(Place):
    """This process: one piece after the other."""

    is_here = True

    def run(
        self, make_work: Callable[[], Work[Piece, Result]], pieces: Iterable[Piece], on_report: OnReport[Piece] = ignore
    ) -> Iterator[tuple[Piece, Result]]:
        """Each piece with its result, in order."""
        work = make_work()
        for piece in pieces:
            yield piece, work(piece, partial(on_report, piece))

    def describe(self) -> str:
        """Nothing."""
        return ""


@contextmanager
def open_place(on: str = LOCAL) -> Iterator[Place]:
    """The place of that name: "local", "ray", or "ray:HOST:PORT" for the cluster at an address.

    "ray" is the cluster that RAY_ADDRESS names; without that, one is started on this machine and ends with the block.
    """
    if on == LOCAL:
        yield Here()
        return
    kind, _, address = on.partition(":")
    if kind != RAY or (":" in on and not address):
        raise SettingsError(f"there is no place {on!r} to work at", remedy="Places are local, ray, and ray:HOST:PORT.")
    from hopwalk.utils.ray_place import connected

    with connected(address) as place:
        yield place
