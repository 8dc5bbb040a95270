"""Ways to damage a run folder: each gives a function that does it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hopwalk.learning import digests
from hopwalk.learning.run import Run


def flip(name: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        content = bytearray((run / name).read_bytes())
        content[-100] ^= 1
        (run / name).write_bytes(content)

    return damage


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda run: os.truncate(run / name, size)


def remove(name: str) -> Callable[[Path], None]:
    return lambda run: shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def write(name: str, text: str | bytes) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        (run / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return damage


def accepted(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """The damage, with the digests of the files as they are then: only what is read can show it."""

    def damage_and_state(run: Path) -> None:
        damage(run)
        digests.state_all(run, again=True)

    return damage_and_state


def say(**values: Any) -> Callable[[Path], None]:
    return lambda run: Run(run).write_about(Run(run).about | values)
