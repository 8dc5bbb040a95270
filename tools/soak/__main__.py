"""Kills, damages, malformed inputs and load for a given time: `make soak MINUTES=60`, or `python -m tools.soak --help`.

Parts take turns in one process at a time; a server is under load all the while. Case NUMBER of a part depends on the seed and on
nothing else, so a failure is repeated with `python -m tools.soak --seed SEED --repeat PART:NUMBER` (a kill by time only nearly).
"""

from __future__ import annotations

import argparse
import json
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, load_results, markdown_table

from tools.soak.worker import prepare_process, run_case

PARTS = {"kills": 0.45, "damages": 0.2, "inputs": 0.35}  # shares of the time
IN_MEMORY = {"damages", "inputs"}  # removing a folder takes a disk milliseconds, longer than to try an input
TURN = 60.0  # seconds in which each part has its turn
MOST_SECONDS = 900.0  # of a case: longer is a failure
SLOW_SECONDS = 30.0  # of the processor, of a malformed input: longer is a failure
MOST_MEMORY_MB = 4000
MEMORY = Path("/dev/shm")
RESULTS = PROJECT / "results" / "soak.json"
PAGE = PROJECT / "docs" / "threat-model.md"


@dataclass
class Report:
    """The counts of a soak, and its failures with how to repeat them."""

    seed: int
    started: float = field(default_factory=time.monotonic)
    counts: Counter[str] = field(default_factory=Counter)
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    servers: list[dict[str, Any]] = field(default_factory=list)
    load_seconds: float = 0.0

    def add(self, part: str, number: int, reply: dict[str, Any]) -> None:
        """Count a case."""
        kind = reply["what"].split(":")[0]
        self.by_kind.setdefault(f"{part}: {kind}", Counter())[reply["outcome"]] += 1
        self.counts.update(reply["counts"])
        self.counts[f"{part} {reply['outcome']}"] += 1
        self.slowest[part] = max(self.slowest.get(part, 0.0), reply["seconds"])
        self.peak_mb[part] = max(self.peak_mb.get(part, 0), reply["peak_mb"])
        if part == "inputs" and reply["seconds"] > SLOW_SECONDS:
            reply |= {"outcome": "failed", "problem": f"it took {reply['seconds']} seconds"}
        if part != "kills" and reply["peak_mb"] > MOST_MEMORY_MB:
            reply |= {"outcome": "failed", "problem": f"memory rose to {reply['peak_mb']} MB"}
        if reply["outcome"] == "failed":
            self.fail(f"{part}:{number}", reply["what"], reply["problem"])

    def add_server(self, reply: dict[str, Any]) -> None:
        """Count what the clients of one server saw."""
        self.counts.update({f"load: {name}": count for name, count in reply["counts"].items()})
        self.load_seconds += reply["seconds"]
        self.servers.append({name: reply[name] for name in ("seconds", "seconds_to_stop", "p50_ms", "p99_ms", "memory_mb")})
        for problem in reply["failures"]:
            self.fail(f"load:{reply['number']}", "load", problem)

    def fail(self, case: str, what: str, problem: str) -> None:
        """Note a failure."""
        repeat = f"python -m tools.soak --seed {self.seed} --repeat {case}"
        self.failures.append({"case": case, "what": what, "problem": problem, "repeat": repeat})
        print(f"FAILED {case} ({what}): {problem[-1500:]}\n  repeat: {repeat}", flush=True)

    def content(self) -> dict[str, Any]:
        """The report as JSON-able values."""
        return {
            "minutes": round((time.monotonic() - self.started) / 60, 1),
            "minutes_of_load": round(self.load_seconds / 60, 1),
            "seed": self.seed,
            "counts": dict(sorted(self.counts.items())),
            "failures": self.failures,
            "by_kind": {name: dict(found) for name, found in sorted(self.by_kind.items())},
            "slowest_seconds": self.slowest,
            "peak_mb": self.peak_mb,
            "servers": self.servers,
        }


class Worker:
    """A process that does the cases of a part; another takes its place if it dies or hangs."""

    def __init__(self, part: str, seed: int, scratch: Path) -> None:
        self._part, self._command = part, [sys.executable, "-m", "tools.soak.worker", part, str(seed), str(scratch)]
        self._process: subprocess.Popen[str] | None = None

    def do(self, number: int) -> dict[str, Any]:
        """The outcome of a case."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], MOST_SECONDS)
        line = process.stdout.readline() if ready else ""
        if line:
            reply: dict[str, Any] = json.loads(line)
            return reply
        problem = f"the process ended with code {process.wait()}" if ready else f"no end within {MOST_SECONDS:.0f} seconds"
        self.close()
        return {"what": "process", "outcome": "failed", "problem": problem, "counts": {}, "seconds": 0.0, "peak_mb": 0}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextmanager
def under_load(report: Report, scratch: Path, clients: int, rate: float, seconds: float) -> Iterator[None]:
    """A server under load within the block."""
    if not clients:
        yield
        return
    command = [sys.executable, "-m", "tools.soak.load", str(scratch), str(report.seed), str(clients), str(rate), str(seconds)]
    with tempfile.TemporaryFile("w+") as replies, subprocess.Popen(command, stdout=replies) as process:
        try:
            yield
        finally:
            process.terminate()
            code = process.wait()
            replies.seek(0)
            for line in replies:
                report.add_server(json.loads(line))
            if code:
                report.fail("load:0", "load", f"the clients ended with code {code}")


def soak(report: Report, scratches: dict[str, Path], minutes: float, parts: dict[str, float], first: int) -> None:
    """Let the parts take turns until the time is over, each in its scratch folder."""
    workers = {part: Worker(part, report.seed, scratches[part]) for part in parts}
    numbers, end, total = dict.fromkeys(parts, first), time.monotonic() + 60 * minutes, sum(parts.values())
    try:
        while time.monotonic() < end:
            for part, share in parts.items():
                until = min(time.monotonic() + TURN * share / total, end)
                while time.monotonic() < until:
                    report.add(part, numbers[part], workers[part].do(numbers[part]))
                    numbers[part] += 1
            print(_line(report), flush=True)
    finally:
        for worker in workers.values():
            worker.close()


def _line(report: Report) -> str:
    counts, minutes = report.counts, (time.monotonic() - report.started) / 60
    return (
        f"{minutes:6.1f} min  {counts['kills']:,} kills, {counts['resumed']:,} resumed to the same bits, "
        f"{counts['damages']:,} damages, {counts['inputs']:,} inputs, {len(report.failures)} failures"
    )


def with_table(page: str) -> str:
    """The text of the page with the counts of the last recorded soak."""
    found = load_results(RESULTS)
    if not found:
        return fill_in(page, "soak", "No long run is recorded yet.")
    counts, titles = (
        found["counts"],
        ["minutes", "of load", "kills", "resumed to the same bits", "damaged runs", "malformed inputs"],
    )
    load = [
        ("requests", "requests"),
        ("malformed requests", "malformed requests"),
        ("servers stopped", "servers stopped under load"),
    ]
    cells = [f"{found['minutes']:g}", f"{found['minutes_of_load']:g}"]
    cells += [*(f"{counts.get(name, 0):,}" for name in ("kills", "resumed", "damages", "inputs"))]
    cells += [f"{counts.get(f'load: {name}', 0):,}" for _, name in load]
    rows = [[*titles, *(title for title, _ in load), "failures"], [*cells, str(len(found["failures"]))]]
    return fill_in(page, "soak", markdown_table(rows, text_columns=0))


@contextmanager
def _folder(parent: Path | None) -> Iterator[Path]:
    """A temporary folder, in memory if that is where the parent is and the system has it."""
    with tempfile.TemporaryDirectory(prefix="hopwalk-soak-", dir=parent if parent and parent.is_dir() else None) as made:
        yield Path(made)


def main() -> None:
    """Soak, print counts, write failures and, with --record, the results; exit code 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="tools.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each part")
    parser.add_argument("--clients", type=int, default=8, help="of the server; 0: no server")
    parser.add_argument("--rate", type=float, default=30.0, help="requests of all clients in a second; 0: as many as they can")
    parser.add_argument("--server-seconds", type=float, default=180.0, help="until a server is stopped under load")
    parser.add_argument("--repeat", metavar="PART:NUMBER", help="do this case only")
    parser.add_argument("--scratch", type=Path, help="a folder for the work; without it temporary ones, on disk and in memory")
    parser.add_argument("--record", action="store_true", help="write results/soak.json")
    parser.add_argument("--tables", action="store_true", help="do nothing but fill in the table in docs/threat-model.md")
    parser.add_argument("--failures", type=Path, default=Path("soak-failures.json"))
    given = parser.parse_args()
    if given.tables:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    with _folder(None) as on_disk, _folder(MEMORY) as in_memory:
        scratch = given.scratch or on_disk
        subprocess.run(
            [sys.executable, "-m", "tools.soak.worker", "bases", "0", str(scratch)], stdin=subprocess.DEVNULL, check=True
        )
        if given.repeat:
            part, number = given.repeat.split(":")
            prepare_process()
            print(json.dumps(asdict(run_case(part, given.seed, int(number), scratch)), indent=1))
            return
        report, scratches = Report(given.seed), dict.fromkeys(PARTS, scratch)
        if not given.scratch:
            shutil.copytree(scratch, in_memory, dirs_exist_ok=True)
            scratches |= dict.fromkeys(IN_MEMORY, in_memory)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with under_load(report, scratch, given.clients, given.rate, given.server_seconds), suppress(KeyboardInterrupt):
            soak(report, scratches, given.minutes, {part: PARTS[part] for part in given.parts}, given.first)
    options = {"minutes": given.minutes, "seed": given.seed, "clients": given.clients, "rate": given.rate}
    command = " ".join(["python -m tools.soak", *(f"--{name} {value:g}" for name, value in options.items())])
    content = {"command": command, **report.content()}
    print(json.dumps({name: content[name] for name in ("minutes", "counts", "slowest_seconds", "peak_mb")}, indent=1))
    if given.record:
        RESULTS.write_text(json.dumps({**content, "machine": asdict(describe_machine())}, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if report.failures:
        given.failures.write_text(json.dumps(report.failures, indent=1) + "\n", encoding="utf-8")
        print(f"{len(report.failures)} failures: {given.failures}")
        sys.exit(1)


if __name__ == "__main__":
    main()
