"""The engine: one thread answers the queries of all clients, and waiting queries of the same kind in one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import perf_counter
from typing import Any, Protocol


class Task(Hashable, Protocol):
    """A task for some inputs at once. Inputs of equal tasks may be in one batch."""

    @property
    def most_at_once(self) -> int:
        """The largest number of inputs in one batch."""
        ...

    def results(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """A result for each input, in their order."""
        ...


class OverloadedError(Exception):
    """The queue is full, or the engine has stopped."""


@dataclass(frozen=True, eq=False)
class _Job:
    task: Task
    input: Any
    future: Future[Any] = field(default_factory=Future)


class Engine:
    """A queue and a thread that works through it: a batch is the oldest input and those behind it with an equal task.

    `on_batch` is called with the size and the seconds of every batch.
    """

    def __init__(self, *, most_waiting: int, on_batch: Callable[[int, float], None] = lambda *_: None) -> None:
        self._most_waiting, self._on_batch = most_waiting, on_batch
        self._jobs: deque[_Job] = deque()
        self._changed = Condition()
        self._is_open = False
        self._thread = Thread(target=self._work, name="hopwalk-engine", daemon=True)

    @property
    def waiting(self) -> int:
        """The number of waiting inputs."""
        return len(self._jobs)

    def start(self) -> None:
        """Start the thread."""
        self._is_open = True
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Accept nothing more, cancel waiting inputs, and wait for the batch under way."""
        with self._changed:
            self._is_open = False
            left, self._jobs = self._jobs, deque()
            self._changed.notify()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(OverloadedError("the server is stopping"))
        self._thread.join(seconds)

    def submit(self, task: Task, input_: Any) -> Future[Any]:
        """The future result; `OverloadedError` if the queue is full."""
        job = _Job(task, input_)
        with self._changed:
            if len(self._jobs) >= self._most_waiting:  # cancelled inputs do not count
                self._jobs = deque(waiting for waiting in self._jobs if not waiting.future.cancelled())
            if not self._is_open or len(self._jobs) >= self._most_waiting:
                raise OverloadedError("the server is busy")
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def _work(self) -> None:
        while jobs := self._next_batch():
            started = perf_counter()
            self._answer(jobs)
            self._on_batch(len(jobs), perf_counter() - started)

    def _next_batch(self) -> list[_Job]:
        """The oldest job and those with an equal task; nothing once the engine has stopped."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or not self._is_open)
                if not self._jobs:
                    return []
                task, taken, left = self._jobs[0].task, list[_Job](), deque[_Job]()
                for job in self._jobs:
                    fits = job.task == task and len(taken) < task.most_at_once
                    (taken if fits else left).append(job)
                self._jobs = left
            if running := [job for job in taken if job.future.set_running_or_notify_cancel()]:
                return running

    def _answer(self, jobs: Sequence[_Job]) -> None:
        try:
            results = jobs[0].task.results([job.input for job in jobs])
            for job, result in zip(jobs, results, strict=True):
                job.future.set_result(result)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            for job in jobs:  # one bad input must not fail the others
                if not job.future.done():
                    self._answer([job])
