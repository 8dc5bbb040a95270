"""The cost of asking: the first answer of a cold `hopwalk ask`, and many queries together beside one after the other.

    python -m benchmarks.asking runs/umls runs/fb15k-237                   # on all cores
    python -m benchmarks.asking runs/umls --queries 64 --repeats 1 --out /tmp/asking.json

A cold start is a new process; its stages are timed where `hopwalk ask` goes through them, with the files in the page cache. The
queries are the distinct ones of the run's test split, in random order, the same for both ways. Both ways take turns, and the
best turn of each counts: what disturbs the machine only makes it slower. `--tables` measures nothing and fills in the tables in
docs/benchmarks.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, load_results, markdown_table, parser_of
from hopwalk.utils.files import write_text

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
reasoner = hopwalk.api.load(run); marks.append(time.time())
str(reasoner.ask(head, relation, num_paths=1)); marks.append(time.time())
print([after - before for before, after in zip(marks, marks[1:])])
"""


def cold_start(run: Path, query: tuple[str, str], repeats: int) -> dict[str, float]:
    """The seconds of each stage in the fastest turn."""
    turns = []
    for _ in range(repeats):
        command = [sys.executable, "-c", COLD, str(run), *query, str(time())]
        printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        turns.append(json.loads(printed))
    return dict(zip(STAGES, (round(seconds, 3) for seconds in min(turns, key=sum)), strict=True))


def throughput(run: Path, num_queries: int, repeats: int) -> dict[str, Any]:
    """Queries a second, one after the other and together, and the share of answers with the same rank in both."""
    import torch

    from hopwalk.reasoning.reasoner import Reasoner
    from hopwalk.reasoning.walker_model import WalkerModel

    reasoner = Reasoner.load(run)
    model = reasoner.model
    queries = _queries(reasoner.dataset, num_queries)
    reasoner.ask_many(queries[:8])  # tables that are computed once
    alone, together = [], []
    for _ in range(repeats):
        start = perf_counter()
        one_by_one = [reasoner.ask(*query) for query in queries]
        alone.append(perf_counter() - start)
        start = perf_counter()
        at_once = reasoner.ask_many(queries)
        together.append(perf_counter() - start)
    pairs = [pair for one, other in zip(one_by_one, at_once, strict=True) for pair in zip(one, other, strict=True)]
    rates = len(queries) / min(alone), len(queries) / min(together)
    return {
        "beam": model.decoder.settings.walk.beam if isinstance(model, WalkerModel) else None,
        "hops": model.max_hops,
        "threads": torch.get_num_threads(),
        "queries": len(queries),
        "alone_per_second": round(rates[0], 1),
        "together_per_second": round(rates[1], 1),
        "ratio": round(rates[1] / rates[0], 2),
        "same_answers": round(sum(one.entity == other.entity for one, other in pairs) / len(pairs), 5),
    }


def _queries(dataset: Any, most: int) -> list[tuple[str, str]]:
    distinct = list(dict.fromkeys((head, relation) for head, relation, _ in dataset.labels_of(dataset.test)))
    order = np.random.default_rng(0).permutation(len(distinct))[:most]
    return [distinct[row] for row in order.tolist()]


def measure(runs: list[Path], num_queries: int, repeats: int) -> dict[str, Any]:
    """All measurements."""
    from hopwalk.learning.run import Run

    found: dict[str, Any] = {"machine": asdict(describe_machine()), "cold": {}, "throughput": {}}
    for run in runs:
        dataset = Run.open(run).dataset
        found["cold"][dataset.name] = cold_start(run.resolve(), _queries(dataset, 1)[0], max(repeats, 3))
        found["throughput"][dataset.name] = throughput(run, num_queries, repeats)
    return found


def tables(found: dict[str, Any]) -> dict[str, list[list[str]]]:
    """The rows of the tables of docs/benchmarks.md, by their name there."""
    cold = [["data", *STAGES, "in all"]]
    for name, stages in found["cold"].items():
        cold.append([name, *(f"{stages[stage]:.2f}" for stage in STAGES), f"{sum(stages.values()):.2f}"])
    rates = [["data", "hops", "beam", "queries", "alone, a second", "together", "ratio", "same answers"]]
    for name, row in found["throughput"].items():
        counts = [str(row["hops"]), str(row["beam"] or ""), f"{row['queries']:,}"]
        speeds = [f"{row['alone_per_second']:,.1f}", f"{row['together_per_second']:,.1f}", f"{row['ratio']:.1f}"]
        rates.append([name, *counts, *speeds, f"{100 * row['same_answers']:.2f} %"])
    return {"cold": cold, "throughput": rates}


def with_tables(page: str, found: dict[str, Any]) -> str:
    """The text of the page with its tables as they are in the results, between `<!-- asking: NAME -->` and `<!-- end -->`."""
    for name, rows in tables(found).items():
        page = fill_in(page, f"asking: {name}", markdown_table(rows))
    return page


def main() -> None:
    """Measure and print, or fill in the tables."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("runs", nargs="*", type=Path, help="run folders of walkers or propagation")
    parser.add_argument("--queries", type=int, default=512, help="how many queries, at most")
    parser.add_argument("--repeats", type=int, default=3, help="number of turns; the best one counts")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file to write")
    args = parser.parse_args()
    if args.tables:
        write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8"), load_results(args.out)))
        return
    found = measure(args.runs, args.queries, args.repeats)
    write_text(args.out, json.dumps(found, indent=2) + "\n")
    for titles, *rows in tables(found).values():
        shown = Table(*titles)
        for row in rows:
            shown.add_row(*row)
        Console().print(shown)


if __name__ == "__main__":
    main()
