"""Jobs that propose missing facts: each takes turns with the queries of clients, so that nobody waits for a whole job."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from hopwalk.errors import HopwalkError
from hopwalk.web.engine import Engine, OverloadedError
from hopwalk.web.limits import MOST_JOBS, MOST_PROPOSED
from hopwalk.web.runs import RunView

SECONDS_BETWEEN_TRIES = 0.1  # to get into a queue that is full
logger = logging.getLogger("hopwalk.web")


class _StoppedError(Exception):
    """The job was cancelled, or the server stops."""


class Job:
    """One run of `complete`. It works in a thread of its own, but only while the engine gives it a turn: until its next progress.

    So it is never in the model at the same time as a query, and a query waits for one batch of the job at most.
    """

    def __init__(self, run: RunView, relations: Sequence[str], above: float, engine: Engine, folder: Path) -> None:
        self.id, self.run, self.relations, self.above = secrets.token_hex(6), run, tuple(relations), above
        self.status, self.error, self.stage = "waiting", "", ""
        self.done = self.total = self.facts = 0
        self._engine, self._file, self._is_cancelled = engine, folder / f"{self.id}.tsv", False
        self._may_go, self._turn_ended = Event(), Event()

    @property
    def is_over(self) -> bool:
        """Whether it does nothing more."""
        return self.status not in ("waiting", "running")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("status", "above", "stage", "done", "total", "facts", "error")
        about = {"job": self.id, "run": self.run.name, "relations": list(self.relations)}
        return about | {name: getattr(self, name) for name in names}

    def work(self) -> None:
        """Run it to its end."""
        status = "failed"
        try:
            self._take_turn()
            self.status = "running"
            self.run.reasoner.complete(self._file, relations=self.relations, above=self.above, on_progress=self._progress)
            status = "finished"
        except _StoppedError:
            status = "cancelled"
        except HopwalkError as error:
            self.error = f"{error.problem}. {error.remedy}".strip()
        except Exception:
            logger.exception("a job failed")
            self.error = "Internal error; see the log of the server."
        finally:
            self.status = status
            self._turn_ended.set()

    def cancel(self) -> None:
        """Stop it at its next progress, or before it begins."""
        self._is_cancelled = True
        self._may_go.set()

    def remove_files(self) -> None:
        """Remove what it wrote."""
        for path in self._file.parent.glob(f"{self.id}.tsv*"):
            path.unlink(missing_ok=True)

    def rows(self, offset: int, limit: int) -> list[dict[str, Any]]:
        """Some of the facts that it found, the columns of `complete` by name."""
        with self._file.open(encoding="utf-8", newline="\n") as lines:
            columns = next(lines).rstrip("\n").split("\t")
            page = [line.rstrip("\n").split("\t") for line in islice(lines, offset, offset + limit)]
        rows: list[dict[str, Any]] = [dict(zip(columns, row, strict=True)) for row in page]
        numbers = {"probability": float, "rule_support": int, "rule_confidence": float}
        return [row | {name: number(row[name]) for name, number in numbers.items()} for row in rows]

    def _progress(self, done: int, total: int, facts: int, stage: str) -> None:
        self.done, self.total, self.facts, self.stage = done, total, facts, stage
        if facts > MOST_PROPOSED:
            raise HopwalkError(f"there are more than {MOST_PROPOSED:,} facts", remedy="Ask for a higher probability.")
        self._turn_ended.set()
        self._take_turn()

    def _take_turn(self) -> None:
        """Wait in the engine's queue for the next turn."""
        if self._is_cancelled:
            raise _StoppedError
        self._may_go.clear()
        self._turn_ended.clear()
        turn = self._submitted()
        turn.add_done_callback(lambda ended: self._may_go.set() if ended.exception() else None)  # the engine has stopped
        self._may_go.wait()
        if self._is_cancelled or turn.done():
            raise _StoppedError

    def _submitted(self) -> Future[Any]:
        while not self._is_cancelled:
            try:
                return self._engine.submit(_Turn(self), None)
            except OverloadedError:
                time.sleep(SECONDS_BETWEEN_TRIES)
        raise _StoppedError

    def give_turn(self) -> None:
        """Let it work until its next progress, and wait for that."""
        if not self.is_over:
            self._may_go.set()
            self._turn_ended.wait()


@dataclass(frozen=True)
class _Turn:
    """A task of the engine: a turn of a job."""

    job: Job
    most_at_once: ClassVar[int] = 1

    def results(self, inputs: Sequence[None]) -> list[None]:
        """Nothing; the job has gone on meanwhile."""
        self.job.give_turn()
        return [None for _ in inputs]


class Jobs:
    """The jobs of a server: one works at a time, others wait, and ended ones are kept until newer ones need the room."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._pool = engine, ThreadPoolExecutor(1, "hopwalk-job")
        self._jobs: dict[str, Job] = {}
        self._folder: Path | None = None

    def start(self, run: RunView, relations: Sequence[str], above: float) -> Job:
        """A new job; `OverloadedError` if there is no room."""
        while len(self._jobs) >= MOST_JOBS:
            ended = next((job for job in self._jobs.values() if job.is_over), None)
            if ended is None:
                raise OverloadedError("there are too many jobs")
            self.remove(ended)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="hopwalk-jobs-"))
        job = Job(run, relations, above, self._engine, self._folder)
        self._jobs[job.id] = job
        self._pool.submit(job.work)
        return job

    def all(self) -> list[Job]:
        """The jobs, oldest first."""
        return list(self._jobs.values())

    def find(self, id_: str) -> Job | None:
        """The job of that id."""
        return self._jobs.get(id_)

    def remove(self, job: Job) -> None:
        """Forget a job that is over."""
        self._jobs.pop(job.id, None)
        job.remove_files()

    def stop(self) -> None:
        """Cancel all jobs, and remove what they wrote."""
        for job in self._jobs.values():
            job.cancel()
        self._pool.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
