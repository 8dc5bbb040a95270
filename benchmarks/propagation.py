"""The kernels of propagation beside the same model in plain torch, and beside the machine's memory bandwidth. One thread.

    python -m benchmarks.propagation [--data wn18rr fb15k-237] [--turns 3]
    python -m benchmarks.propagation --tables

Both train on the same batches in the same process, in turns, with the preset of the data set, after some training: loss and
gradients of all parameters, without the optimizer. Times are CPU times of the process, the best turn of each. "Exact" computes
all gradients of negatives, as the plain model does; training samples those below a threshold. Bytes are those that an edge must
read and write in both passes; they come from the cache as long as a query fits into it. `--tables` measures nothing and fills in
the table in docs/benchmarks.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numba import njit
from rich.console import Console

from benchmarks import plain_propagation
from benchmarks.ingest import in_fresh_process, peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.propagation.parameters import Tasks
from hopwalk.propagation.queries import QuerySampler, plain_tasks
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

RESULTS = PROJECT / "results" / "propagation-speed.json"
PAGE = PROJECT / "docs" / "benchmarks.md"
TITLES = (
    "data",
    "ms a training query",
    "exact",
    "plain torch",
    "ratio",
    "exact",
    "edges a query",
    "edges/s",
    "GB/s",
    "triad GB/s",
)


def measure(name: str, turns: int, num_trained: int, num_asked: int) -> dict[str, Any]:
    """Training queries by the kernels and by the plain model, warm questions, and the memory bandwidth."""
    torch.set_num_threads(1)
    dataset, settings = api.load_dataset(name), api.settings_for(name).propagation
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings, dataset.facts)
    trained = settings.model_copy(update={"queries": num_trained, "evaluations": 1})
    PropagationLearner(scorer, dataset, trained).learn(1, torch.Generator(), lambda *_: None)
    sampler = QuerySampler(scorer.engine.graph, dataset, settings)
    size, model, engine = settings.batch_size, scorer.model, scorer.engine

    losses: dict[str, Callable[[Tasks], torch.Tensor]] = {
        "kernels": lambda tasks: model.mean_loss(engine, tasks, settings.negative_threshold),
        "exact": lambda tasks: model.mean_loss(engine, tasks),
        "plain": lambda tasks: plain_propagation.mean_loss(model, engine.graph, tasks),
    }
    losses["exact"](sampler.batch(0, size)).backward()  # the workspace grows to what it needs
    best = dict.fromkeys(losses, float("inf"))
    for turn in range(turns):
        tasks = sampler.batch((turn + 1) * size, size)
        for way, loss in losses.items():
            start = time.process_time()
            loss(tasks).backward()
            best[way] = min(best[way], (time.process_time() - start) / size)
            model.zero_grad()
    edges, rows = _size_of_queries(scorer, sampler)
    bytes_of_query = edges * bytes_of_edge(settings.width)
    return {
        "settings": settings.model_dump(),
        "trained_queries": num_trained,
        **{f"ms_per_training_query_{way}": 1000 * seconds for way, seconds in best.items()},
        "ratio": best["plain"] / best["kernels"],
        "ratio_exact": best["plain"] / best["exact"],
        "edges_per_query": edges,
        "rows_per_query": rows,
        "edges_per_second": edges / best["kernels"],
        "gigabytes_per_second": bytes_of_query / best["exact"] / 1e9,
        "triad_gigabytes_per_second": triad(),
        "cpu_ms_per_question": _cpu_of_question(scorer, dataset, num_asked),
        "peak_bytes": peak_memory_bytes(),
    }


def bytes_of_edge(width: int) -> int:
    """What an edge reads and writes: its tail's sum in and out, its gradient in, and 33 bytes of ids in both passes."""
    return 3 * 4 * width + 33


def _size_of_queries(scorer: PropagationScorer, sampler: QuerySampler, count: int = 64) -> tuple[float, float]:
    """The mean numbers of edges that carry messages, and of (layer, node) pairs, of a training query."""
    num_layers, edges, rows = scorer.settings.layers, [], []
    for number in range(count):
        tasks = sampler.batch(number, 1)
        hidden = [tasks.hidden]
        scorer.model.score_reached(scorer.engine, plain_tasks(tasks.heads, tasks.relations, hidden))
        workspace = scorer.engine.workspaces[0]
        last_sender = workspace.sender_starts[num_layers] - 1
        last_run = workspace.sender_run_ends[last_sender] - 1
        edges.append(int(workspace.run_ends[last_run]) if last_run >= 0 else 0)
        rows.append(int(workspace.row_starts[num_layers + 1]))
    return float(np.mean(edges)), float(np.mean(rows))


def _cpu_of_question(scorer: PropagationScorer, dataset: Dataset, count: int) -> float:
    """CPU milliseconds of a warm question, one at a time: the scores of everything it reaches."""
    some = dataset.valid[np.random.default_rng(0).permutation(len(dataset.valid))[:count]]
    for row in range(count // 10):
        scorer.score_reached(some.heads[row : row + 1], some.relations[row : row + 1])
    start = time.process_time()
    for row in range(len(some)):
        scorer.score_reached(some.heads[row : row + 1], some.relations[row : row + 1])
    return 1000 * (time.process_time() - start) / len(some)


def triad(size: int = 2**25, repeats: int = 5) -> float:
    """Gigabytes a second of a[i] = b[i] + 3 c[i] over arrays far larger than the cache, 12 bytes an entry; the best turn."""
    a, b, c = np.zeros(size, dtype=np.float32), np.ones(size, dtype=np.float32), np.ones(size, dtype=np.float32)
    _triad(a[:8], b[:8], c[:8])
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        _triad(a, b, c)
        seconds.append(time.process_time() - start)
    return 12 * size / min(seconds) / 1e9


@njit(fastmath=True)  # type: ignore[untyped-decorator]
def _triad(a: Any, b: Any, c: Any) -> None:
    for place in range(len(a)):
        a[place] = b[place] + np.float32(3.0) * c[place]


def table(rows: dict[str, Any]) -> list[list[str]]:
    """The rows of the table in docs/benchmarks.md."""
    shown = [[*TITLES, "ms a question"]]
    for name, row in rows.items():
        milliseconds = [f"{row[f'ms_per_training_query_{way}']:.2f}" for way in ("kernels", "exact", "plain")]
        ratios = [f"{row[ratio]:.1f}" for ratio in ("ratio", "ratio_exact")]
        rates = [f"{row['edges_per_second'] / 1e6:.0f} million", f"{row['gigabytes_per_second']:.1f}"]
        bandwidth, question = f"{row['triad_gigabytes_per_second']:.1f}", f"{row['cpu_ms_per_question']:.2f}"
        shown.append([name, *milliseconds, *ratios, f"{row['edges_per_query']:,.0f}", *rates, bandwidth, question])
    return shown


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "propagation: speed", markdown_table(table(load_results(RESULTS)["rows"])))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--data", nargs="*", default=["wn18rr", "fb15k-237"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--train", type=int, default=2000, help="training queries before anything is measured")
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    found = load_results(RESULTS) or {"rows": {}}
    for name in given.data:
        row = in_fresh_process(measure, name, given.turns, given.train, given.questions)
        found["rows"][name] = row | {"machine": asdict(describe_machine())}
        Console().print(row)
        write_results(RESULTS, found)


if __name__ == "__main__":
    main()
