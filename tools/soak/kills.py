"""Work that is killed again and again, at any time or at any write, and resumed: in the end it must have the same bits.

The work is done in forked children of a process that has imported everything, so that a kill costs a fraction of a second. What
uses polars' threads cannot be forked: it is done by processes of the command line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.support.failing_disk import FailingDisk, failing_disk
from tests.support.stopping import results_of
from tests.support.villages import train_walker

from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.errors import HopwalkError
from hopwalk.learning.run import Run
from hopwalk.reasoning.reasoner import Reasoner
from tools.soak.bases import ABOVE, propagation_settings, scorer_settings, walker_settings
from tools.soak.outcome import Outcome, WrongError, judged

MOST_SECONDS = 300.0  # of one attempt; longer is a failure
UNFINISHED, ERROR = 5, 3  # exit codes of a child
Work = Callable[[Path, Path], Any]  # scratch folder, folder → what must be the same


class KillingDisk(FailingDisk):
    """A disk at which the process is killed in place of one of its writes."""

    def step(self, name: str, path: Any) -> None:
        """Count a write; at the chosen one the process ends at once."""
        if str(path).startswith(self.folder):
            self.operations.append(name)
            if len(self.operations) == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Kill:
    """When an attempt is killed, and how: after some seconds by a signal, or at a write."""

    seconds: float = 0.0
    signal: int = signal.SIGKILL
    at_write: int = 0


def _train(settings: Callable[[], Any], data: str) -> Work:
    def work(scratch: Path, folder: Path) -> Any:
        run = api.train_scorer(_dataset(scratch / data), settings(), out=folder / "run", resume=True)
        return _finished(run)

    return work


def _train_walker(scratch: Path, folder: Path) -> Any:
    run = train_walker(_dataset(scratch / "village"), walker_settings(), out=folder / "run", resume=True)
    return _finished(run)


def _complete(suffix: str) -> Work:
    def work(scratch: Path, folder: Path) -> Any:
        target = folder / f"new{suffix}"
        _reasoner(scratch).complete(target, above=ABOVE, resume=True)  # also when it was complete at the last kill
        if not target.read_bytes().count(b"\n") > 200:
            raise WrongError("too few facts to lose any")
        return target.read_bytes(), sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))

    return work


def _finished(run: Run) -> Any:
    return results_of(run) if run.status == "finished" else None


FORKED: dict[str, Work] = {
    "train distmult": _train(lambda: scorer_settings("distmult"), "school"),
    "train complex": _train(lambda: scorer_settings("complex"), "school"),
    "train conve": _train(lambda: scorer_settings("conve"), "school"),
    "train propagation": _train(propagation_settings, "village"),
    "train a walker": _train_walker,
    "complete .tsv": _complete(".tsv"),
    "complete .nt": _complete(".nt"),
}
COMMANDS = "complete .parquet"  # by the command line


def kill_case(random: Random, scratch: Path, folder: Path) -> Outcome:
    """One piece of work, killed one to six times, then let finish."""
    name = random.choices([*FORKED, COMMANDS], [*([1.0] * len(FORKED)), 0.1])[0]
    outcome = Outcome(name, counts={"kills": 0, "resumed": 0})
    with judged(outcome):
        if name == COMMANDS:
            _killed_commands(random, scratch, folder, outcome)
        else:
            _killed_forks(name, random, scratch, folder, outcome)
    if outcome.outcome == "refused":  # nothing here may be refused
        outcome.outcome, outcome.problem = "failed", outcome.problem or "an error of ours where the work should go on"
    return outcome


def _killed_forks(name: str, random: Random, scratch: Path, folder: Path, outcome: Outcome) -> None:
    expected, seconds, num_writes = _uninterrupted(name, scratch)
    described = []
    for _ in range(random.randint(1, 6)):
        kill = _kill(random, seconds, num_writes)
        described.append(str(kill))
        code, digest = _attempt(name, scratch, folder, kill)
        if code == 0:  # it was done before its time came
            break
        if code not in (-kill.signal, UNFINISHED):
            raise WrongError(f"after {described}: {digest}")
        outcome.counts["kills"] += 1
    else:
        code, digest = _attempt(name, scratch, folder, None)
    if code != 0 or digest.split()[0] != expected:
        raise WrongError(f"after {described}: exit code {code}, {digest}, expected {expected}")
    outcome.counts["resumed"] += 1


def _kill(random: Random, seconds: float, num_writes: int) -> Kill:
    if random.random() < 0.5:
        return Kill(at_write=random.randint(1, num_writes))
    how = signal.SIGKILL if random.random() < 0.8 else random.choice((signal.SIGTERM, signal.SIGINT))
    return Kill(seconds=random.uniform(0.0, seconds), signal=how)


@cache
def _uninterrupted(name: str, scratch: Path) -> tuple[str, float, int]:
    """The digest of the result without kills, the seconds, and the number of writes."""
    if "propagation" in name or "complete" in name:  # compiled here, for all children
        _warm_up(scratch)
    folder = scratch / f"uninterrupted-{name.replace(' ', '-')}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    start = time.monotonic()
    code, digest = _attempt(name, scratch, folder, Kill(at_write=10**9))
    if code != 0:
        raise WrongError(f"without a kill: {digest}")
    result, writes = digest.split()
    return result, time.monotonic() - start, int(writes)


@cache
def _warm_up(scratch: Path) -> None:
    shutil.rmtree(scratch / "warm", ignore_errors=True)
    api.train_scorer(_dataset(scratch / "village"), propagation_settings(), out=scratch / "warm")
    _reasoner(scratch).complete(scratch / "warm" / "new.tsv", above=ABOVE)


def _attempt(name: str, scratch: Path, folder: Path, kill: Kill | None) -> tuple[int, str]:
    """The exit code of a child that works in the folder, and what it wrote: the digest of the result, or its error."""
    report = folder.with_name(f"{folder.name}.report")
    report.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os._exit(_in_child(FORKED[name], scratch, folder, kill, report))
    end = time.monotonic() + (kill.seconds if kill and not kill.at_write else MOST_SECONDS)
    status = _wait(child, end)
    if status is None and kill and not kill.at_write:
        os.kill(child, kill.signal)
        status = _wait(child, time.monotonic() + MOST_SECONDS)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return ERROR, f"it did not end within {MOST_SECONDS:.0f} seconds"
    code = os.waitstatus_to_exitcode(status)
    text = report.read_text() if report.exists() else ""
    report.unlink(missing_ok=True)
    return (UNFINISHED if kill and code == ERROR and text == "KeyboardInterrupt" else code), text


def _wait(child: int, end: float) -> int | None:
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.002)
    return None


def _in_child(work: Work, scratch: Path, folder: Path, kill: Kill | None, report: Path) -> int:
    code = ERROR
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _look(folder)
        disk = KillingDisk(folder, kill.at_write) if kill and kill.at_write else None
        with failing_disk(folder, disk=disk) if disk else nullcontext():
            result = work(scratch, folder)
        if result is None:
            return UNFINISHED
        report.write_text(f"{_digest(result)} {len(disk.operations) if disk else 0}")
        code = 0
    except KeyboardInterrupt:
        report.write_text("KeyboardInterrupt")
    except BaseException:
        report.write_text(traceback.format_exc()[-4000:])
    return code


def _digest(result: Any) -> str:
    """The same for equal results: the order of keys does not matter."""
    text = json.dumps(result, sort_keys=True, default=lambda value: hashlib.sha256(value).hexdigest())
    return hashlib.sha256(text.encode()).hexdigest()


def _look(folder: Path) -> None:
    """Open what the killed process left, as somebody who is curious: it is whole, or an error of ours."""
    if (folder / "run" / "run.json").exists():
        try:
            run = Run.open(folder / "run")
            assert isinstance(run.history, list)
            if run.weights_path.exists():
                run.load_weights()
        except HopwalkError:
            pass


def _killed_commands(random: Random, scratch: Path, folder: Path, outcome: Outcome) -> None:
    """Complete to Parquet by the command line, killed some times."""
    arguments = ["complete", str(scratch / "bases" / "propagation"), "--above", str(ABOVE), "--resume"]
    whole, seconds = _uninterrupted_command(scratch, tuple(arguments))
    target = folder / "new.parquet"
    for _ in range(random.randint(1, 3)):
        code, told = _command([*arguments, "--out", str(target)], random.uniform(0.3, seconds))
        if code not in (0, -signal.SIGKILL):
            raise WrongError(f"exit code {code}: {told}")
        outcome.counts["kills"] += code != 0
        if code == 0:
            break
    code, told = _command([*arguments, "--out", str(target)], None)  # also when it was complete at the last kill
    if code != 0:
        raise WrongError(f"it cannot be resumed: {told}")
    if target.read_bytes() != whole:
        raise WrongError("another file than without kills")
    outcome.counts["resumed"] += 1


@cache
def _uninterrupted_command(scratch: Path, arguments: tuple[str, ...]) -> tuple[bytes, float]:
    """The table without kills, and the seconds that it takes."""
    table, start = scratch / "uninterrupted.parquet", time.monotonic()
    for path in scratch.glob(f"{table.name}*"):
        path.unlink()
    code, told = _command([*arguments, "--out", str(table)], None)
    if code != 0:
        raise WrongError(f"without a kill: {told}")
    return table.read_bytes(), time.monotonic() - start


def _command(arguments: list[str], seconds: float | None) -> tuple[int, str]:
    """The exit code of a command that is killed after some seconds, and the end of what it told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hopwalk", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _, told = process.communicate(timeout=seconds or MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
    return process.returncode, told[-1000:]


@cache
def _dataset(folder: Path) -> Dataset:
    return api.load_dataset(folder)


@cache
def _reasoner(scratch: Path) -> Reasoner:
    return api.load(scratch / "bases" / "propagation")
