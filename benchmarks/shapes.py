"""Awkward shapes of graphs: what reading, training, asking and explaining cost, beside what was forecast.

    python -m benchmarks.shapes [--shapes star chain] [--queries 320] [--dry]
    python -m benchmarks.shapes --tables

A star, a chain, a clique, a complete bipartite graph, a graph of one relation, one in which every fact has a relation of its own,
and five million random facts. Each is written to a file, read, and trained with the settings that suit it, in a process of its
own, on one thread. Times are CPU seconds, so that a busy machine does not matter; a part of the training is done, and the whole
is what that comes to. `--tables` measures nothing and fills in the table in docs/benchmarks.md.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.ingest import in_fresh_process, peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from benchmarks.scale import Stopwatch
from hopwalk import api
from hopwalk.config.settings import changed
from hopwalk.data.dataset import Dataset
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner
from hopwalk.utils.text import duration

RESULTS = PROJECT / "results" / "shapes.json"
PAGE = PROJECT / "docs" / "benchmarks.md"
Edges = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]  # heads, relations, tails


def star(size: int) -> Edges:
    """A hub and its leaves, by five relations."""
    leaves = np.arange(1, size + 1)
    return np.zeros(size, dtype=int), leaves % 5, leaves


def chain(size: int) -> Edges:
    """Every entity has one neighbour on each side."""
    heads = np.arange(size)
    return heads, heads % 5, heads + 1


def clique(size: int) -> Edges:
    """All pairs of so many entities that there are about `size` of them."""
    num = int((2 * size) ** 0.5)
    heads, tails = np.triu_indices(num, 1)
    return heads, (heads + tails) % 5, tails


def bipartite(size: int) -> Edges:
    """All pairs of a left and a right entity."""
    num = int(size**0.5)
    heads, tails = np.divmod(np.arange(num * num), num)
    return heads, (heads * tails) % 5, tails + num


def one_relation(size: int) -> Edges:
    """Random facts of one relation."""
    random = np.random.default_rng(0)
    return random.integers(0, size // 10, size), np.zeros(size, dtype=int), random.integers(0, size // 10, size)


def many_relations(size: int) -> Edges:
    """Random facts, each of a relation of its own."""
    random = np.random.default_rng(0)
    return random.integers(0, size // 10, size), np.arange(size), random.integers(0, size // 10, size)


def random_edges(size: int) -> Edges:
    """Random facts of twenty relations, five an entity."""
    random = np.random.default_rng(0)
    return random.integers(0, size // 5, size), random.integers(0, 20, size), random.integers(0, size // 5, size)


SHAPES: dict[str, tuple[Callable[[int], Edges], int]] = {
    "star": (star, 100_000),
    "chain": (chain, 100_000),
    "clique": (clique, 200_000),
    "bipartite": (bipartite, 200_000),
    "one relation": (one_relation, 200_000),
    "200,000 relations": (many_relations, 200_000),
    "5 million random facts": (random_edges, 5_000_000),
}


def write_shape(path: Path, name: str, size: int = 0) -> None:
    """Write a shape as a file of triples."""
    make, usual = SHAPES[name]
    heads, relations, tails = make(size or usual)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, len(heads), 100_000):
            rows = zip(*(column[first : first + 100_000].tolist() for column in (heads, relations, tails)), strict=True)
            file.writelines(f"e{head}\tr{relation}\te{tail}\n" for head, relation, tail in rows)


def measure(name: str, num_queries: int, size: int = 0) -> dict[str, Any]:
    """Read, forecast, train for a while, rank, ask and explain: the CPU seconds and the memory of each."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.tsv"
        write_shape(path, name, size)
        clock = Stopwatch()
        dataset = api.split_dataset(api.load_dataset(path))
    found: dict[str, Any] = {"shape": name, "read_seconds": clock.lap()}
    settings = api.settings_for(name, dataset=dataset)
    found |= {"entities": len(dataset.entities), "relations": len(dataset.relations), "facts": len(dataset.facts)}
    found["settings_seconds"] = clock.lap()
    own = settings.propagation
    found["queries"] = own.queries
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), own, dataset.facts)
    learner = PropagationLearner(scorer, dataset, own)
    clock.lap()  # kernels may have been compiled
    started, started_cpu = time.perf_counter(), time.process_time()
    forecast = learner.forecast()
    share = (time.process_time() - started_cpu) / (time.perf_counter() - started)  # of a processor that this process got
    found["forecast_seconds"] = forecast.seconds_of_epoch * own.evaluations * share
    found["forecast_bytes"] = forecast.memory_bytes
    found["training_seconds"] = _train(settings, scorer, dataset, num_queries)
    found |= _ask(scorer, dataset)
    return found | {"peak_bytes": peak_memory_bytes()}


def _train(settings: api.Settings, scorer: PropagationScorer, dataset: Dataset, num_queries: int) -> float:
    """The CPU seconds of the whole training, from a part of it."""
    own = settings.propagation
    part = changed(settings, {"propagation.queries": min(num_queries, own.queries), "propagation.evaluations": 1}).propagation
    learner = PropagationLearner(scorer, dataset, part)
    clock = Stopwatch()
    learner.learn(1, torch.Generator(), lambda *_: None)
    return clock.lap() * own.queries / part.queries


def _ask(scorer: PropagationScorer, dataset: Dataset) -> dict[str, float]:
    """CPU milliseconds of a question to a random entity and to the largest hub, and of the paths behind its first answer."""
    facts, hub = dataset.facts, int(dataset.degrees.argmax())
    some = np.random.default_rng(0).integers(0, len(facts), 20)
    relations = facts.relations[some]
    found = {}
    for name, heads in (("question", facts.heads[some]), ("hub_question", np.full(20, hub, dtype=np.int32))):
        scorer.score_reached(heads[:1], relations[:1])
        clock = Stopwatch()
        for head, relation in zip(heads, relations, strict=True):
            reached = scorer.score_reached(np.array([head]), np.array([relation]))
        found[f"ms_per_{name}"] = 1000 * clock.lap() / len(heads)
        best = reached.entities[reached.scores.argmax()] if len(reached.entities) else head
        scorer.paths_behind(int(head), int(relation), [int(best)], num_paths=3)  # compiles the kernels
        clock.lap()
        scorer.paths_behind(int(head), int(relation), [int(best)], num_paths=3)
        found[f"ms_per_{name}_explained"] = 1000 * clock.lap()
    return found


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of the table in docs/benchmarks.md."""
    titles = ["shape", "facts", "read, s", "training", "forecast", "ms a question", "ms, of the hub", "peak GB", "forecast GB"]
    return [titles, *map(_cells, rows)]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["shape"],
        f"{row['facts']:,}",
        f"{row['read_seconds']:.1f}",
        duration(row["training_seconds"]),
        duration(row["forecast_seconds"]),
        f"{row['ms_per_question']:.1f}",
        f"{row['ms_per_hub_question']:.1f}",
        f"{row['peak_bytes'] / 1e9:.2f}",
        f"{row['forecast_bytes'] / 1e9:.2f}",
    ]


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    rows = load_results(RESULTS).get("rows", [])
    return fill_in(page, "shapes", markdown_table(table(rows)) if rows else "Not measured yet.")


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=[*SHAPES])
    parser.add_argument("--queries", type=int, default=320, help="training queries that are timed")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    before = {row["shape"]: row for row in load_results(RESULTS).get("rows", [])}
    for name in given.shapes:
        before[name] = in_fresh_process(measure, name, given.queries)
        Console().print(before[name])
        if not given.dry:
            rows = [before[shape] for shape in SHAPES if shape in before]
            command = f"python -m benchmarks.shapes --queries {given.queries}"
            found = {"command": command, "machine": asdict(describe_machine()), "threads": 1, "rows": rows}
            write_results(RESULTS, found)


if __name__ == "__main__":
    main()
