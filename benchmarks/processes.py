"""Training of propagation on one and on two processes of this machine, one thread each: time, messages, and the same losses.

    python -m benchmarks.processes [--data umls] [--queries 1600] [--turns 2]
    python -m benchmarks.processes --tables

Each turn trains the same queries with the preset of the data set, first by one process, then by two that add up their gradients
over gloo, and takes the time between the first batch and the last. The best turn of each is kept. Wall time depends on who else
uses the machine; the CPU time of process 0 much less: without any cost of sharing it would be halved by two processes. Time that
a process waits for the other is not CPU time. `--tables` measures nothing and fills in the table in docs/cluster.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any

from benchmarks.machine import ONE_THREAD, PROJECT, describe_machine
from benchmarks.results import fill_in, load_results, markdown_table, parser_of, write_results

RESULTS = PROJECT / "results" / "propagation-processes.json"
PAGE = PROJECT / "docs" / "cluster.md"
TITLES = ("data", "batch", "message", "", "one process", "two processes", "ratio")


def child(name: str, num_queries: int, rank: int, count: int, address: str) -> dict[str, Any]:
    """Train as one of the processes; what it took."""
    import torch

    from hopwalk import api
    from hopwalk.learning.processes import ALONE, Processes, alone, meeting
    from hopwalk.propagation.scorer import PropagationScorer
    from hopwalk.propagation.training import PropagationLearner

    torch.set_num_threads(1)
    dataset = api.load_dataset(name)
    settings = api.settings_for(name).propagation.model_copy(update={"queries": num_queries, "evaluations": 1})
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings, dataset.facts)
    PropagationLearner(scorer, dataset, settings, ALONE).time_batches(0.0)  # compiles the kernels
    with alone() if count == 1 else meeting(address, rank, count) as processes:
        assert isinstance(processes, Processes)
        learner = PropagationLearner(scorer, dataset, settings, processes)
        processes.adopt([torch.zeros(1)])  # all are there
        start, cpu = time.perf_counter(), time.process_time()
        loss = learner.learn(1, torch.Generator(), lambda *_: None)["loss"]
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    num_values = sum(parameter.numel() for parameter in scorer.model.parameters())
    batches = -(-num_queries // settings.batch_size)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "loss": loss,
        "batches": batches,
        "batch_size": settings.batch_size,
        "bytes_of_message": 4 * (num_values + 1),
    }


def measure(name: str, num_queries: int, count: int) -> list[dict[str, Any]]:
    """What each of so many processes took."""
    from hopwalk.learning.processes import free_port

    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    command = [sys.executable, "-m", "benchmarks.processes", "--child", name, str(num_queries)]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(count), address], env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, cwd=PROJECT
        )
        for rank in range(count)
    ]
    return [json.loads(process.communicate()[0]) for process in started]


def compare(name: str, num_queries: int, turns: int) -> dict[str, Any]:
    """One process beside two."""
    found: dict[int, list[list[dict[str, Any]]]] = {1: [], 2: []}
    for _ in range(turns):
        for count, measured in found.items():
            measured.append(measure(name, num_queries, count))
    one, two = found[1], found[2]
    first = one[0][0]
    result: dict[str, Any] = {"queries": num_queries} | {key: first[key] for key in ("batches", "batch_size", "bytes_of_message")}
    for label, measured in (("one", one), ("two", two)):
        result[f"seconds_{label}"] = min(turn[0]["seconds"] for turn in measured)
        result[f"cpu_seconds_{label}"] = min(turn[0]["cpu_seconds"] for turn in measured)
        result[f"loss_{label}"] = measured[0][0]["loss"]
    result["speed_up"] = result["seconds_one"] / result["seconds_two"]
    result["cpu_speed_up"] = result["cpu_seconds_one"] / result["cpu_seconds_two"]
    return result


def table(results: dict[str, Any]) -> str:
    """The table for the docs: wall and CPU time of a batch."""
    rows = [TITLES]
    for name, found in results["data"].items():
        for label, key in (("wall time of a batch", ""), ("CPU time of process 0", "cpu_")):
            one, two = (1000 * found[f"{key}seconds_{count}"] / found["batches"] for count in ("one", "two"))
            message = f"{found['bytes_of_message'] / 1e6:.1f} MB"
            rows.append((name, str(found["batch_size"]), message, label, f"{one:.1f} ms", f"{two:.1f} ms", f"{one / two:.2f}"))
    return markdown_table(rows)


def main() -> None:
    """Measure, and write the result file."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--data", nargs="+", default=["umls"])
    parser.add_argument("--queries", type=int, default=1600)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, queries, rank, count, address = arguments.child
        print(json.dumps(child(name, int(queries), int(rank), int(count), address)))
        return
    if arguments.tables:
        page = fill_in(PAGE.read_text(encoding="utf-8"), "processes", table(load_results(RESULTS)))
        PAGE.write_text(page, encoding="utf-8")
        return
    machine = asdict(describe_machine())
    data = {name: compare(name, arguments.queries, arguments.turns) for name in arguments.data}
    write_results(RESULTS, {"machine": machine, "turns": arguments.turns, "data": data})
    print(json.dumps(data, indent=2))


if __name__ == "__main__":
    main()
