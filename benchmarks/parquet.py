"""From Parquet to predictions: 20 million facts are read, propagation is trained, asked, and completes a sample of the graph.

    python -m benchmarks.parquet [--entities 5000000] [--queries 8000]
    python -m benchmarks.parquet --tables

The graph is that of `benchmarks.scale`, with labels such as Q2823302, in 16 Parquet files, which are written to a temporary
folder first. After that come the calls of users: `load_dataset`, `train`, `load`, `ask`, `complete`, in one process with one
thread. Settings are those that hopwalk chooses for such a graph, but for the number of training queries. Completing stops after
a number of queries, as Ctrl-C would stop it. `--tables` measures nothing and fills in the table in docs/benchmarks.md.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from benchmarks.ingest import in_fresh_process, peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from benchmarks.scale import LIVES_IN, planted_graph

NUM_FILES = 16
NUM_ASKED, NUM_COMPLETED = 200, 5000
RESULTS = PROJECT / "results" / "parquet-scale.json"
PAGE = PROJECT / "docs" / "benchmarks.md"


def write_graph(folder: Path, num_entities: int) -> int:
    """Write the facts to Parquet files, and some of the dev facts to valid.parquet; returns the number of training facts."""
    graph = planted_graph(num_entities)
    (folder / "train").mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(graph.facts)), NUM_FILES)):
        _frame(graph.facts[rows].array()).write_parquet(folder / "train" / f"part-{number:05}.parquet")
    _frame(graph.valid.array()).write_parquet(folder / "valid.parquet")
    return len(graph.facts)


def _frame(triples: np.ndarray[Any, Any]) -> pl.DataFrame:
    numbers = pl.DataFrame(triples, schema=["head", "relation", "tail"], orient="row")
    return numbers.select(
        head=pl.concat_str(pl.lit("Q"), "head"),
        relation=pl.concat_str(pl.lit("P"), "relation"),
        tail=pl.concat_str(pl.lit("Q"), "tail"),
    )


class Stages:
    """Wall and CPU seconds of each stage, with the peak of memory after it."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure the block. CPU seconds are of this process and of children that have ended."""
        wall, before = time.perf_counter(), _cpu_seconds()
        yield
        self.found[name] = {
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": _cpu_seconds() - before,
            "peak_bytes": peak_memory_bytes(),
        }


def _cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class EnoughError(Exception):
    """So many queries are completed."""


def measure(folder: Path, num_queries: int, num_asked: int, num_completed: int, *overrides: str) -> dict[str, Any]:
    """Read, train, load, ask and complete, with the time and memory of each."""
    os.environ["OMP_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = "1"
    import torch

    import hopwalk

    torch.set_num_threads(1)
    stages, work = Stages(), folder / "work"
    with stages.measured("read"):
        dataset = hopwalk.load_dataset(folder / "graph")
    settings = hopwalk.settings_for("graph", overrides=[f"propagation.queries={num_queries}", *overrides], dataset=dataset)
    with stages.measured("train"):
        run = hopwalk.train(dataset, settings, out=work / "run")
    heads = [dataset.entities[head] for head in dataset.valid.heads[:num_asked]]
    answers = {dataset.entities[head]: dataset.entities[tail] for head, _, tail in dataset.valid.array()[:num_asked].tolist()}
    found: dict[str, Any] = {"entities": len(dataset.entities), "facts": len(dataset.facts), "queries": num_queries}
    del dataset
    with stages.measured("load"):
        reasoner = hopwalk.load(run.path)
    relation = f"P{LIVES_IN}"
    reasoner.ask(heads[0], relation)
    with stages.measured("ask"):
        first = [reasoner.ask(head, relation, k=1, num_paths=1)[0] for head in heads]
    right = sum(answer.key == answers[head] for head, answer in zip(heads, first, strict=True))
    progress = [0, 0, 0]

    def stop(done: int, total: int, facts: int, stage: str) -> None:
        progress[:] = done, total, facts
        if done >= num_completed:
            raise EnoughError

    with stages.measured("complete"), suppress(EnoughError):
        reasoner.complete(work / "new.parquet", relations=[relation], on_progress=stop)
    about = {"asked": len(heads), "first_is_right": right, "completed": progress[0], "to_complete": progress[1]}
    history = {"valid_mrr": run.history[-1]["valid_mrr"], "run_bytes": sum(file.stat().st_size for file in run.path.iterdir())}
    return found | about | history | {"proposed": progress[2], "stages": stages.found}


def table(row: dict[str, Any]) -> list[list[str]]:
    """The rows of the table in docs/benchmarks.md."""
    done = {
        "read": (f"{row['facts']:,} facts", row["facts"], "facts/s"),
        "train": (f"{row['queries']:,} queries, and dev", row["queries"], "queries/s"),
        "load": ("the run", 0, ""),
        "ask": (f"{row['asked']:,} questions with a path", row["asked"], "questions/s"),
        "complete": (f"{row['completed']:,} of {row['to_complete']:,} queries", row["completed"], "queries/s"),
    }
    rows = [["stage", "work", "seconds", "CPU seconds", "throughput (CPU)", "peak GB"]]
    for name, (work, count, unit) in done.items():
        stage = row["stages"][name]
        rate = f"{count / max(stage['cpu_seconds'], 1e-9):,.0f} {unit}" if unit else ""
        times = [f"{stage['seconds']:.1f}", f"{stage['cpu_seconds']:.1f}"]
        rows.append([name, work, *times, rate, f"{stage['peak_bytes'] / 1e9:.2f}"])
    return rows


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "parquet: scale", markdown_table(table(load_results(RESULTS)["row"]), text_columns=2))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--queries", type=int, default=8000, help="training queries")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    with tempfile.TemporaryDirectory(prefix="hopwalk-benchmark-") as made:
        folder = Path(made)
        in_fresh_process(write_graph, folder / "graph", given.entities)
        row = in_fresh_process(measure, folder, given.queries, NUM_ASKED, NUM_COMPLETED)
    Console().print(row)
    if not given.dry:
        found = {"machine": asdict(describe_machine()), "threads": 1, "row": row}
        write_results(RESULTS, found)


if __name__ == "__main__":
    main()
