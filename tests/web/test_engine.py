"""The engine: waiting inputs are batched, every client gets its result, and a failure loses nothing else."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from hopwalk.web.engine import Engine, OverloadedError


@dataclass(frozen=True, eq=False)
class Doubling:
    """Double numbers; hold the engine until `go` is set; fail for inputs that are not numbers."""

    most_at_once: int = 64
    go: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    batches: list[list[Any]] = field(default_factory=list)

    def results(self, inputs: Sequence[Any]) -> list[Any]:
        self.batches.append(list(inputs))
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
    """Let the engine begin with one input, so that the next ones wait."""
    first = engine.submit(task, 1)
    assert task.began.wait(10)
    return first


def test_waiting_inputs_are_batched_and_each_gets_its_result(engine: Engine):
    task = Doubling()
    first = hold(engine, task)
    futures = [engine.submit(task, number) for number in range(20)]
    assert engine.waiting == 20
    task.go.set()
    assert [future.result(10) for future in futures] == [2 * number for number in range(20)]
    assert first.result() == 2
    assert task.batches == [[1], list(range(20))]


def test_batches_have_a_maximum_size_and_the_oldest_comes_first(engine: Engine):
    small, large = Doubling(most_at_once=2), Doubling()
    hold(engine, small)
    futures = [engine.submit(task, number) for number, task in enumerate([small, large, small, small, large])]
    small.go.set()
    large.go.set()
    assert [future.result(10) for future in futures] == [0, 2, 4, 6, 8]
    assert small.batches == [[1], [0, 2], [3]] and large.batches == [[1, 4]]


def test_one_bad_input_does_not_fail_the_others(engine: Engine):
    task = Doubling()
    hold(engine, task)
    futures = [engine.submit(task, value) for value in (1, "x", 3)]
    task.go.set()
    assert [futures[place].result(10) for place in (0, 2)] == [2, 6]
    with pytest.raises(ZeroDivisionError):
        futures[1].result(10)


def test_a_full_queue_refuses_more_but_cancelled_inputs_do_not_count(engine: Engine):
    task = Doubling()
    hold(engine, task)
    futures = [engine.submit(task, number) for number in range(20)]
    with pytest.raises(OverloadedError):
        engine.submit(task, 20)
    assert futures[3].cancel()
    last = engine.submit(task, 20)
    task.go.set()
    assert last.result(10) == 40
    assert 3 not in task.batches[1]


def test_stopping_cancels_waiting_inputs_and_finishes_the_batch_under_way():
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


def test_batches_are_reported():
    reported = []
    engine, task = Engine(most_waiting=20, on_batch=lambda size, seconds: reported.append((size, seconds >= 0))), Doubling()
    engine.start()
    hold(engine, task)
    future = [engine.submit(task, number) for number in range(3)][-1]
    task.go.set()
    future.result(10)
    engine.stop()
    assert reported == [(1, True), (3, True)]
