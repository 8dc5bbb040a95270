"""Ten minutes with 64 clients: is the server's memory flat, how long do answers take, and what does a stop leave unanswered?

    python -m benchmarks.endurance [--minutes 10] [--clients 64]
    python -m benchmarks.endurance --tables

A tiny walker and a tiny propagation model are served in a process of its own, on one thread. Every client asks one question
after the other. Once a second the resident memory of the server is read from the system (`/proc/PID/statm`, in pages); its slope
is that of a straight line through the samples after the first minute. In the end the server gets SIGTERM in the middle of the
load. A request that was sent before must be answered; a later one is answered, gets a 503, or finds the connection closed.
`--tables` measures nothing and fills in the table in docs/serving.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tools.soak.load import RUNS, Tally, described, serve_and_load

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results

RESULTS = PROJECT / "results" / "endurance.json"
PAGE = PROJECT / "docs" / "serving.md"


def measure(minutes: float, clients: int) -> dict[str, Any]:
    """The result of so many minutes with so many clients."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tools.soak.worker", "bases", "0", folder]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
        runs = [Path(folder) / "bases" / run for run in RUNS]
        tally = serve_and_load(runs, Random(0), clients, 0.0, 60 * minutes, is_hostile=False)
    return summary(tally, minutes, clients)


def summary(tally: Tally, minutes: float, clients: int) -> dict[str, Any]:
    """The figures of a tally whose memory was sampled once a second."""
    after = tally.memory_mb[60:] if len(tally.memory_mb) > 120 else tally.memory_mb
    seconds = np.arange(len(after))
    slope = 60 * float(np.polyfit(seconds, after, 1)[0]) if len(after) > 1 else 0.0
    return {
        "minutes": minutes,
        "clients": clients,
        **described(tally),
        "memory_mb_after_a_minute": after[0] if after else None,
        "memory_mb_at_the_end": after[-1] if after else None,
        "memory_mb_per_minute": round(slope, 3),
    }


def with_tables(page: str) -> str:
    """The text of the page with the table as it is in the results."""
    found = load_results(RESULTS)
    if not found:
        return fill_in(page, "endurance", "Not measured yet.")
    counts = found["counts"]
    title = ["minutes", "clients", "requests", "wrong or lost", "p50 ms", "p99 ms", "MB after a minute", "MB at the end"]
    cells = [
        f"{found['minutes']:g}",
        str(found["clients"]),
        f"{counts.get('requests', 0):,}",
        str(counts.get("failures", 0)),
        f"{found['p50_ms']:,.0f}",
        f"{found['p99_ms']:,.0f}",
        f"{found['memory_mb_after_a_minute']:,.0f}",
        f"{found['memory_mb_at_the_end']:,.0f}",
    ]
    stop = [str(counts.get(name, 0)) for name in ("503 at the stop", "closed at the stop")]
    rows = [[*title, "503 at the stop", "closed at the stop"], [*cells, *stop]]
    return fill_in(page, "endurance", markdown_table(rows, text_columns=0))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    given = parser.parse_args()
    if not given.tables:
        command = f"python -m benchmarks.endurance --minutes {given.minutes:g} --clients {given.clients}"
        found = {"command": command, **measure(given.minutes, given.clients), "machine": asdict(describe_machine())}
        write_results(RESULTS, found)
        print(json.dumps({name: value for name, value in found.items() if name != "machine"}, indent=1))
    fill_page(PAGE, with_tables)


if __name__ == "__main__":
    main()
