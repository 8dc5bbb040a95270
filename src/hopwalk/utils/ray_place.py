"""A Ray cluster as a place to work: one process (an actor) per CPU, which lives as long as there are pieces for it.

A piece goes only to a process that has started, so a cluster that shrinks never holds one back. If a process or its node is lost,
its piece is given to another. Results travel to this process, which alone writes files: nothing is lost, nothing comes twice.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from hopwalk.errors import ClusterError, HopwalkError, MissingPackageError, WorkError, cut
from hopwalk.utils.places import OnReport, Piece, Place, Result, Work, ignore

SECONDS_TO_CONNECT = 5.0
SECONDS_BETWEEN_LOOKS = 0.1  # at reports, and at the size of the cluster
SECONDS_TO_END = 30.0  # that pieces have after Ctrl-C
MOST_ATTEMPTS = 4  # for a piece whose process is lost
START = "Start one with `ray start --head --disable-usage-stats`, or give no address to work on this machine alone."
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0 makes Ray bind to 127.0.0.1 alone, on every system


@contextmanager
def connected(address: str) -> Iterator[RayPlace]:
    """The cluster at HOST:PORT; "": that of RAY_ADDRESS, or without one a new one on this machine, until the block ends."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise ClusterError(
            "Ray's client protocol is not supported", remedy="Run hopwalk on a node of the cluster, with HOST:PORT."
        )
    if address:
        _require_listening(address)
    ray, is_own = _import_ray(loopback_only=not address or _is_loopback_only(address)), False
    if not ray.is_initialized():
        is_own = True
        before = signal.getsignal(signal.SIGTERM)
        _init(ray, address)
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)  # Ray puts its own there
    try:
        yield RayPlace(ray)
    finally:
        if is_own:
            ray.shutdown()


def _is_loopback_only(address: str) -> bool:
    """Whether a cluster listens at a loopback address alone. Ray itself takes 127.0.0.1 for the machine's own address."""
    host, _, port = address.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]"):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: the system only chooses the address to send from
        socket.create_connection((probe.getsockname()[0], int(port)), timeout=SECONDS_TO_CONNECT).close()
        return False
    return True


def _import_ray(*, loopback_only: bool) -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a FutureWarning
    if loopback_only:
        os.environ.setdefault(LOOPBACK_ONLY, "0")
    try:
        import ray
    except ImportError:
        raise MissingPackageError("ray", "working on a Ray cluster") from None
    return ray


def _init(ray: Any, address: str) -> None:
    options = {"logging_level": "ERROR", "log_to_driver": False, "namespace": f"hopwalk-{os.getpid()}"}
    _tell_on_stderr(ray)
    try:
        if address:
            ray.init(address=address, **options)
        else:
            ray.init(address="local", include_dashboard=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        what = f"the Ray cluster at {address} cannot be joined" if address else "Ray does not start on this machine"
        raise ClusterError(f"{what} ({problem})", remedy=START) from None


def _tell_on_stderr(ray: Any) -> None:
    """What Ray says of lost nodes, as a line on stderr: Ray prints it on stdout, with part of a log, whatever we ask for."""

    def tell(data: dict[str, Any], ignore_prefix: bool) -> None:  # the name and the form of Ray's own function
        for text in data.get("lines", ()):
            sys.stderr.write(f"Ray: {cut(str(text).strip().partition(os.linesep)[0])}\n")

    ray._private.worker.print_to_stdstream = tell


def _require_listening(address: str) -> None:
    """An error if nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ClusterError(f"{address!r} is not the address of a cluster", remedy="Give HOST:PORT, such as 10.0.0.1:6379.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster answers at {address} ({error.strerror or error})", remedy=START) from None


@dataclass(frozen=True)
class Failure:
    """An error of a piece: ours as it is, others as text."""

    error: HopwalkError | None
    problem: str
    traceback: str
    node: str

    @staticmethod
    def of(error: BaseException) -> Failure:
        """That of an exception, in a form that any process can read."""
        own = None
        if isinstance(error, HopwalkError):
            with suppress(Exception):
                own = pickle.loads(pickle.dumps(error))  # noqa: S301  # of this very process
        return Failure(own, f"{type(error).__name__}: {error}", traceback.format_exc(), platform.node())

    def raised(self, what: str) -> HopwalkError:
        """The exception for the user: an error of ours is itself, others become a `WorkError`."""
        if self.error is not None:
            return self.error
        return WorkError(f"{what} failed on {self.node} ({self.problem})", traceback=self.traceback)


@dataclass(frozen=True)
class Outcome:
    """What became of a piece: a result, a failure, or neither if it was cancelled."""

    result: Any = None
    failure: Failure | None = None
    was_cancelled: bool = False


class _Mailbox:
    """An actor beside the driver that keeps reports until the driver looks, and knows which pieces should end."""

    def __init__(self) -> None:
        self._reports: list[tuple[int, Any]] = []
        self._ending: set[int] = set()
        self._is_cancelled = False

    def put(self, number: int, value: Any) -> tuple[bool, bool]:
        """Keep a report; whether its piece should end early, and whether everything should."""
        self._reports.append((number, value))
        return number in self._ending, self._is_cancelled

    def take(self) -> list[tuple[int, Any]]:
        """The reports since the last time."""
        found, self._reports = self._reports, []
        return found

    def end(self, number: int) -> None:
        """End this piece at its next report."""
        self._ending.add(number)

    def cancel(self) -> None:
        """End all pieces at their next reports."""
        self._is_cancelled = True


class _Worker:
    """An actor on one CPU that does pieces."""

    def __init__(self, make_work: Callable[[], Any], mailbox: Any) -> None:
        self._make_work, self._mailbox, self._work = make_work, mailbox, None

    def start(self) -> tuple[str, Failure | None]:
        """Load what the work needs; the version of hopwalk here, and what went wrong."""
        try:
            self._work = self._make_work()
        except Exception as error:
            return version("hopwalk"), Failure.of(error)
        return version("hopwalk"), None

    def do(self, number: int, piece: Any) -> Outcome:
        """Do one piece."""
        import ray

        def report(value: Any) -> bool:
            should_end, is_cancelled = ray.get(self._mailbox.put.remote(number, value))
            if is_cancelled:
                raise KeyboardInterrupt
            return bool(should_end)

        try:
            return Outcome(self._work(piece, report))  # type: ignore[misc]
        except KeyboardInterrupt:
            return Outcome(was_cancelled=True)
        except Exception as error:
            return Outcome(failure=Failure.of(error))


class RayPlace(Place):
    """The cluster that this process is connected to."""

    is_here = False

    def __init__(self, ray: Any) -> None:
        self.ray = self._ray = ray

    @property
    def num_slots(self) -> int:
        """The CPUs of the nodes that are alive: pieces at once."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def describe(self) -> str:
        """The nodes and CPUs of the cluster."""
        nodes = sum(node["Alive"] for node in self._ray.nodes())
        return f"Ray: {nodes} node{'s' * (nodes != 1)}, {self.num_slots} CPU{'s' * (self.num_slots != 1)}"

    def run(
        self, make_work: Callable[[], Work[Piece, Result]], pieces: Iterable[Piece], on_report: OnReport[Piece] = ignore
    ) -> Iterator[tuple[Piece, Result]]:
        """Each piece with its result, as they are ready."""
        if not self.num_slots:
            raise ClusterError("the Ray cluster has no CPUs", remedy="Start nodes that have CPUs.")
        crew = _Crew(self, self._ray, make_work, pieces, on_report)
        try:
            yield from crew.results()
        except KeyboardInterrupt:
            yield from crew.last_results()
            raise
        finally:
            crew.dismiss()


@dataclass(frozen=True)
class _Job:
    """A piece at a process."""

    worker: Any
    number: int
    piece: Any


class _Crew:
    """The processes that do the pieces of one `run`."""

    def __init__(self, place: RayPlace, ray: Any, make_work: Any, pieces: Iterable[Any], on_report: OnReport[Any]) -> None:
        self._place, self._ray, self._on_report = place, ray, on_report
        self._make_work = ray.put(make_work)  # once; a node fetches it once
        self._worker: Any = ray.remote(_Worker)
        beside_driver = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._mailbox: Any = ray.remote(_Mailbox).options(num_cpus=0, scheduling_strategy=beside_driver).remote()
        self._pieces, self._is_exhausted = enumerate(pieces), False
        self._lost: deque[tuple[int, Any]] = deque()
        self._attempts: dict[int, int] = {}
        self._starting: dict[Any, Any] = {}  # reference to the start → worker
        self._idle: list[Any] = []
        self._busy: dict[Any, _Job] = {}
        self._failed_starts = 0

    def results(self) -> Iterator[tuple[Any, Any]]:
        """The pieces and their results, until there is nothing left to do."""
        while True:
            while self._idle and (job := self._next()) is not None:
                worker = self._idle.pop()
                self._busy[worker.do.remote(*job)] = _Job(worker, *job)
            if self._is_exhausted and not self._busy and not self._lost:
                return
            self._start_more()
            waiting = [*self._busy, *self._starting]
            ready, _ = self._ray.wait(waiting, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
            for reference in ready:
                if reference in self._starting:
                    self._on_started(reference)
                else:
                    yield from self._on_done(reference)
            if not ready:
                self._deliver_reports()

    def _next(self) -> tuple[int, Any] | None:
        """The next piece: a lost one, or a new one; None if there is none now."""
        if self._lost:
            return self._lost.popleft()
        if not self._is_exhausted:
            with suppress(StopIteration):
                return next(self._pieces)
            self._is_exhausted = True
        return None

    def _start_more(self) -> None:
        """Start processes for CPUs that have none, while there may be pieces for them."""
        wanted = len(self._lost) if self._is_exhausted else self._place.num_slots
        room = self._place.num_slots - len(self._idle) - len(self._busy) - len(self._starting)
        for _ in range(min(room, wanted - len(self._starting))):
            worker = self._worker.options(num_cpus=1).remote(self._make_work, self._mailbox)
            self._starting[worker.start.remote()] = worker

    def _on_started(self, reference: Any) -> None:
        worker = self._starting.pop(reference)
        try:
            found, failure = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts >= MOST_ATTEMPTS:
                problem = str(error).strip().splitlines()[-1]
                remedy = "Every node needs this Python with hopwalk and Ray in the same versions."
                raise ClusterError(f"no process starts on the cluster ({problem})", remedy=remedy) from None
            return
        self._failed_starts = 0
        if failure is not None:
            raise failure.raised("loading")
        if found != version("hopwalk"):
            problem = f"a node has hopwalk {found}, and this is hopwalk {version('hopwalk')}"
            raise ClusterError(problem, remedy="Install the same version on every node.")
        self._idle.append(worker)

    def _on_done(self, reference: Any) -> Iterator[tuple[Any, Any]]:
        job = self._busy.pop(reference)
        try:
            outcome = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # the process, its node, or the result on it is lost
            tried = self._attempts[job.number] = self._attempts.get(job.number, 0) + 1
            if tried >= MOST_ATTEMPTS:
                problem = str(error).strip().splitlines()[0]
                remedy = "See the memory of the nodes and Ray's logs."
                raise ClusterError(f"a piece of work lost its process {tried} times ({problem})", remedy=remedy) from None
            self._lost.append((job.number, job.piece))
            self._ray.kill(job.worker)
            return
        self._deliver_reports(job)
        if outcome.failure is not None:
            raise outcome.failure.raised("a piece of work")
        self._idle.append(job.worker)
        if not outcome.was_cancelled:
            yield job.piece, outcome.result

    def _deliver_reports(self, *ended: _Job) -> None:
        """Pass on the reports of pieces that are under way or have just ended."""
        pieces = {job.number: job.piece for job in (*self._busy.values(), *ended)}
        for number, value in self._ray.get(self._mailbox.take.remote()):
            if number in pieces and self._on_report(pieces[number], value):
                self._mailbox.end.remote(number)

    def last_results(self) -> Iterator[tuple[Any, Any]]:
        """After Ctrl-C: what the pieces under way still give, if they end soon. A second Ctrl-C does not wait for them."""
        self._ray.get(self._mailbox.cancel.remote())
        deadline = time.monotonic() + SECONDS_TO_END
        while self._busy and (left := deadline - time.monotonic()) > 0:
            for reference in self._ray.wait([*self._busy], num_returns=1, timeout=left)[0]:
                yield from self._on_done(reference)

    def dismiss(self) -> None:
        """End all processes."""
        workers = [*self._idle, *self._starting.values(), *(job.worker for job in self._busy.values()), self._mailbox]
        for worker in workers:
            with suppress(Exception):  # it may be gone with its node
                self._ray.kill(worker)
