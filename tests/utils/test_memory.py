from contextlib import ExitStack

import pytest

from hopwalk.utils import memory
from hopwalk.utils.memory import KEPT_BYTES, MMAP_THRESHOLD, TRIM_THRESHOLD, USUAL_BYTES, kept_memory


class Libc:
    """A C library that notes what it is asked."""

    def __init__(self) -> None:
        self.thresholds: dict[int, int] = {}
        self.trims = 0

    def mallopt(self, parameter: int, value: int) -> int:
        self.thresholds[parameter] = value
        return 1

    def malloc_trim(self, _: int) -> int:
        self.trims += 1
        return 1


@pytest.fixture
def libc(monkeypatch: pytest.MonkeyPatch) -> Libc:
    library = Libc()
    monkeypatch.setattr(memory, "_glibc", lambda: library)
    return library


def test_memory_is_kept_until_the_last_block_ends(libc: Libc) -> None:
    with ExitStack() as first, ExitStack() as second:  # as blocks of two threads overlap
        first.enter_context(kept_memory())
        second.enter_context(kept_memory())
        first.close()
        assert (libc.thresholds, libc.trims) == ({MMAP_THRESHOLD: KEPT_BYTES, TRIM_THRESHOLD: KEPT_BYTES}, 0)
    assert (libc.thresholds, libc.trims) == ({MMAP_THRESHOLD: USUAL_BYTES, TRIM_THRESHOLD: USUAL_BYTES}, 1)


def test_memory_is_returned_after_an_error(libc: Libc) -> None:
    with pytest.raises(KeyError), kept_memory():
        raise KeyError
    assert libc.thresholds[TRIM_THRESHOLD] == USUAL_BYTES and libc.trims == 1


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_glibc", lambda: None)
    with kept_memory():
        pass


def test_the_c_library_of_this_machine_takes_the_thresholds() -> None:
    if (libc := memory._glibc()) is None:
        pytest.skip("no glibc")
    with kept_memory():
        assert libc.mallopt(TRIM_THRESHOLD, KEPT_BYTES) == 1
