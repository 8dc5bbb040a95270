"""Matrix products of a walker's training step, by torch's default and by oneDNN (`hopwalk.utils.products`), in one run.

    python -m benchmarks.products      # writes results/products.json and the table of docs/benchmarks.md

One thread, CPU time. A layer's products are forward, gradient of the input and gradient of the weight. A step is a batch of UMLS
by the recipe `paper`, without reward shaping.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk import api
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.utils.products import fast_products
from hopwalk.walker.environment import Environment
from hopwalk.walker.policy import Policy
from hopwalk.walker.training import WalkerLearner

RESULTS, PAGE = PROJECT / "results" / "products.json", PROJECT / "docs" / "benchmarks.md"
SHAPES = {"LSTM, first layer": (2560, 400, 800), "LSTM, other layers": (2560, 200, 800), "W2": (2560, 400, 400)}
TURNS = 5


def cpu_seconds(work: Callable[[], object], repetitions: int) -> float:
    """The CPU seconds of one repetition."""
    start = time.process_time()
    for _ in range(repetitions):
        work()
    return (time.process_time() - start) / repetitions


def layer_products(rows: int, inputs: int, outputs: int) -> Callable[[], None]:
    """The three products of a layer."""
    x, weight, gradient = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)

    def work() -> None:
        x @ weight.t()
        gradient @ weight
        gradient.t() @ x

    return work


def training_step() -> Callable[[], object]:
    """A step of the recipe `paper` on UMLS."""
    dataset = api.load_dataset("umls")
    settings = api.settings_for("umls", overrides=["walker.recipe=paper", "walker.reward_shaping=false"])
    policy = Policy(len(dataset.entities), len(dataset.relations), settings.walker)
    known = KnownAnswers([dataset.train], len(dataset.entities), len(dataset.relations))
    learner = WalkerLearner(Environment(api.graph_of(dataset, settings), policy, known), dataset, settings, None)
    policy.train()
    rows, generator = torch.arange(settings.walker.batch_size), torch.Generator().manual_seed(0)
    return lambda: learner.learn_batch(rows, generator)


def measure() -> dict[str, Any]:
    """Medians of turns, in which the two take turns."""
    torch.set_num_threads(1)
    works = {name: (layer_products(*shape), 10) for name, shape in SHAPES.items()} | {"training step": (training_step(), 5)}
    found: dict[str, Any] = {"machine": asdict(describe_machine()), "milliseconds": {}}
    for name, (work, repetitions) in works.items():
        seconds: dict[str, list[float]] = {"default": [], "onednn": []}
        for _ in range(TURNS):
            for way, context in (("default", nullcontext()), ("onednn", fast_products())):
                with context:
                    work()  # prepares kernels and memory
                    seconds[way].append(cpu_seconds(work, repetitions))
        found["milliseconds"][name] = {way: round(1000 * float(np.median(times)), 2) for way, times in seconds.items()}
        Console().print(name, found["milliseconds"][name])
    return found


def with_table(page: str) -> str:
    """The page with the table of the results."""
    rows = [["CPU ms, one thread", "torch's default", "oneDNN", "ratio"]]
    for name, times in load_results(RESULTS)["milliseconds"].items():
        default, onednn = times["default"], times["onednn"]
        rows.append([name, f"{default:.1f}", f"{onednn:.1f}", f"{default / onednn:.1f}"])
    return fill_in(page, "speed: products", markdown_table(rows))


def main() -> None:
    """Measure, and fill in the page."""
    if not parser_of(__doc__, PAGE).parse_args().tables:
        write_results(RESULTS, measure())
    fill_page(PAGE, with_table)


if __name__ == "__main__":
    main()
