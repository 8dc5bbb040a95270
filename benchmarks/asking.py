"""What it takes to ask: the first answer of a cold `hopwalk ask`, and many questions together beside one after the other.

    python -m benchmarks.asking runs/umls runs/fb15k-237                   # on all cores
    python -m benchmarks.asking runs/umls --questions 64 --repeats 1 --out /tmp/asking.json

A cold start is a new process; its stages are timed where `hopwalk ask` goes through them, with the files in the page cache. The
questions are the distinct ones of the run's test split, in random order, the same for both ways. Both ways take turns, and the
best turn of each counts: what disturbs the machine only makes it slower. `--tables` measures nothing and fills in the tables in
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.machine import PROJECT, describe_machine
from hopwalk.learning.run import write_text

RESULTS = PROJECT / "results" / "asking.json"
PAGE = PROJECT / "docs" / "benchmarks.md"
STAGES = ("Python", "command line", "torch", "the rest of hopwalk", "the run", "the answer")
COLD = """
import sys, time
run, head, relation, begun = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
marks = [begun, time.time()]
import hopwalk.cli.main, hopwalk.cli.answers; marks.append(time.time())
import torch; marks.append(time.time())
import hopwalk.api, hopwalk.reasoning.reasoner; marks.append(time.time())
walker = hopwalk.api.load(run); marks.append(time.time())
str(walker.ask(head, relation, num_paths=1)); marks.append(time.time())
print([after - before for before, after in zip(marks, marks[1:])])
"""


def cold_start(run: Path, query: tuple[str, str], repeats: int) -> dict[str, float]:
    """The seconds of each stage, of the repetition that took least in all."""
    import time

    turns = []
    for _ in range(repeats):
        command = [sys.executable, "-c", COLD, str(run), *query, str(time.time())]
        printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        turns.append(json.loads(printed))
    return dict(zip(STAGES, (round(seconds, 3) for seconds in min(turns, key=sum)), strict=True))


def throughput(run: Path, num_queries: int, repeats: int) -> dict[str, Any]:
    """Questions a second, one after the other and together, and how many answers have the same place in both."""
    import torch

    from hopwalk.reasoning.reasoner import LoadedWalker

    walker = LoadedWalker.of(run)
    queries = _queries(walker.dataset, num_queries)
    walker.ask_many(queries[:8])  # tables that are made once
    alone, together = [], []
    for _ in range(repeats):
        start = perf_counter()
        one_by_one = [walker.ask(*query) for query in queries]
        alone.append(perf_counter() - start)
        start = perf_counter()
        at_once = walker.ask_many(queries)
        together.append(perf_counter() - start)
    pairs = [pair for one, other in zip(one_by_one, at_once, strict=True) for pair in zip(one, other, strict=True)]
    rates = len(queries) / min(alone), len(queries) / min(together)
    return {
        "beam": walker.settings.walk.beam,
        "hops": walker.settings.walk.hops,
        "threads": torch.get_num_threads(),
        "questions": len(queries),
        "alone_per_second": round(rates[0], 1),
        "together_per_second": round(rates[1], 1),
        "ratio": round(rates[1] / rates[0], 2),
        "same_answers": round(sum(one.entity == other.entity for one, other in pairs) / len(pairs), 5),
    }


def _queries(dataset: Any, most: int) -> list[tuple[str, str]]:
    asked = list(dict.fromkeys((head, relation) for head, relation, _ in dataset.labels_of(dataset.test)))
    order = np.random.default_rng(0).permutation(len(asked))[:most]
    return [asked[row] for row in order.tolist()]


def measure(runs: list[Path], num_queries: int, repeats: int) -> dict[str, Any]:
    """All measurements."""
    from hopwalk.learning.run import Run

    found: dict[str, Any] = {"machine": asdict(describe_machine()), "cold": {}, "throughput": {}}
    for run in runs:
        dataset = Run.open(run).dataset
        found["cold"][dataset.name] = cold_start(run.resolve(), _queries(dataset, 1)[0], max(repeats, 3))
        found["throughput"][dataset.name] = throughput(run, num_queries, repeats)
    return found


def tables(found: dict[str, Any]) -> dict[str, str]:
    """The tables of docs/benchmarks.md, by the name of their place."""
    cold = [["data", *STAGES, "in all"]]
    for name, stages in found["cold"].items():
        cold.append([name, *(f"{stages[stage]:.2f}" for stage in STAGES), f"{sum(stages.values()):.2f}"])
    rates = [["data", "hops", "beam", "questions", "alone, a second", "together", "ratio", "same answers"]]
    for name, row in found["throughput"].items():
        counts = [str(row["hops"]), str(row["beam"]), f"{row['questions']:,}"]
        speeds = [f"{row['alone_per_second']:,.1f}", f"{row['together_per_second']:,.1f}", f"{row['ratio']:.1f}"]
        rates.append([name, *counts, *speeds, f"{100 * row['same_answers']:.2f} %"])
    return {"cold": _markdown(cold), "throughput": _markdown(rates)}


def _markdown(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" + "|---:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def fill_in(page: Path, found: dict[str, Any]) -> None:
    """Put the tables in their places."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables(found).items():
        start, end = f"<!-- asking: {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{table}\n{end}{rest.partition(end)[2]}"
    write_text(page, text)


def main() -> None:
    """Measure and print, or fill in the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="run folders of walkers")
    parser.add_argument("--questions", type=int, default=512, help="how many questions, at most")
    parser.add_argument("--repeats", type=int, default=3, help="how often; the best counts")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to write the numbers")
    parser.add_argument("--tables", action="store_true", help="measure nothing; fill in the tables of docs/benchmarks.md")
    args = parser.parse_args()
    if args.tables:
        fill_in(PAGE, json.loads(args.out.read_text(encoding="utf-8")))
        return
    found = measure(args.runs, args.queries, args.repeats)
    write_text(args.out, json.dumps(found, indent=2) + "\n")
    for rows in tables(found).values():
        shown = Table(*(cell.strip() for cell in rows.splitlines()[0].strip("|").split("|")))
        for line in rows.splitlines()[2:]:
            shown.add_row(*(cell.strip() for cell in line.strip("|").split("|")))
        Console().print(shown)


if __name__ == "__main__":
    main()
