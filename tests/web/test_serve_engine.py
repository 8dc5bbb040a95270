"""The engine: what waits is taken together, results find their way back, and nothing is lost when something goes wrong."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from hopwalk.web.engine import Engine, OverloadedError


@dataclass(frozen=True, eq=False)
class Doubling:
    """Doubles numbers; holds the engine until `go` is set; cannot double what is no number."""

    most_at_once: int = 64
    go: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    taken: list[list[Any]] = field(default_factory=list)

    def results(self, inputs: Sequence[Any]) -> list[Any]:
        self.taken.append(list(inputs))
        self.began.set()
        assert self.go.wait(10)
        return [value * 2 if isinstance(value, int) else 1 / 0 for value in inputs]


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(most_waiting=20)
    made.start()
    yield made
    made.stop()


def hold(engine: Engine, task: Doubling) -> Future[Any]:
    """Let the engine begin with one input, so that what comes next waits."""
    first = engine.submit(task, 1)
    assert task.began.wait(10)
    return first


def test_what_waits_is_taken_together_and_everybody_gets_the_own_result(engine: Engine):
    task = Doubling()
    first = hold(engine, task)
    futures = [engine.submit(task, number) for number in range(20)]
    assert engine.waiting == 20
    task.go.set()
    assert [future.result(10) for future in futures] == [2 * number for number in range(20)]
    assert first.result() == 2
    assert task.taken == [[1], list(range(20))]


def test_a_batch_has_a_largest_size_and_the_oldest_comes_first(engine: Engine):
    small, large = Doubling(most_at_once=2), Doubling()
    hold(engine, small)
    futures = [engine.submit(task, number) for number, task in enumerate([small, large, small, small, large])]
    small.go.set()
    large.go.set()
    assert [future.result(10) for future in futures] == [0, 2, 4, 6, 8]
    assert small.taken == [[1], [0, 2], [3]] and large.taken == [[1, 4]]


def test_one_bad_input_does_not_spoil_the_others(engine: Engine):
    task = Doubling()
    hold(engine, task)
    futures = [engine.submit(task, value) for value in (1, "x", 3)]
    task.go.set()
    assert [futures[place].result(10) for place in (0, 2)] == [2, 6]
    with pytest.raises(ZeroDivisionError):
        futures[1].result(10)


def test_too_much_is_refused_but_those_who_gave_up_do_not_count(engine: Engine):
    task = Doubling()
    hold(engine, task)
    futures = [engine.submit(task, number) for number in range(20)]
    with pytest.raises(OverloadedError):
        engine.submit(task, 20)
    assert futures[3].cancel()
    last = engine.submit(task, 20)
    task.go.set()
    assert last.result(10) == 40
    assert 3 not in task.taken[1]


def test_stopping_gives_up_what_waits_and_finishes_what_runs():
    engine, task = Engine(most_waiting=20), Doubling()
    engine.start()
    first = hold(engine, task)
    waiting = engine.submit(task, 5)
    threading.Timer(0.05, task.go.set).start()
    engine.stop()
    assert first.result(0) == 2
    with pytest.raises(OverloadedError):
        waiting.result(0)
    with pytest.raises(OverloadedError):
        engine.submit(task, 6)


def test_batches_are_told():
    told = []
    engine, task = Engine(most_waiting=20, on_batch=lambda size, seconds: told.append((size, seconds >= 0))), Doubling()
    engine.start()
    hold(engine, task)
    future = [engine.submit(task, number) for number in range(3)][-1]
    task.go.set()
    future.result(10)
    engine.stop()
    assert told == [(1, True), (3, True)]
