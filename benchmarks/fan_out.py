"""Dev MRR of a trained propagation model if every node sends along a part of its edges: an even sample, or those to hubs.

    python -m benchmarks.fan_out runs/fb15k-237 [--bounds 400 100 50] [--queries 400]

PageRank in a graph with inverse edges is close to the degree, so the edges to the entities of most edges stand for the walker's
cut by PageRank. The table in docs/propagation.md is made of this output.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from benchmarks.results import parser_of
from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.learning.ranking import filtered_answers, rank_answers, sample_queries
from hopwalk.learning.run import Run
from hopwalk.propagation.graph import RunGraph
from hopwalk.propagation.model import Engine
from hopwalk.propagation.scorer import PropagationScorer


def trimmed(graph: RunGraph, fan_out: int) -> RunGraph:
    """The graph in which every entity keeps its edges to the entities of most edges."""
    degrees = np.diff(graph.run_starts[graph.run_offsets])
    sources = np.repeat(np.arange(graph.num_entities), degrees)
    relations = np.repeat(graph.run_relations, np.diff(graph.run_starts))
    order = np.lexsort((-degrees[graph.tails], sources))
    place = np.arange(len(order)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    kept = np.sort(order[place < fan_out])
    sources, relations = sources[kept], relations[kept]
    is_first = np.ones(len(kept), dtype=np.bool_)
    is_first[1:] = (np.diff(sources) != 0) | (np.diff(relations) != 0)
    starts = np.flatnonzero(is_first)
    run_offsets = np.append(0, np.cumsum(np.bincount(sources[starts], minlength=graph.num_entities)))
    run_starts, logs = np.append(starts, len(kept)), (graph.log_degrees, graph.log_counts)
    return RunGraph(run_offsets, relations[starts], run_starts, graph.tails[kept], *logs)


def measure(scorer: PropagationScorer, dataset: Dataset, num_queries: int) -> tuple[float, float]:
    """Dev MRR, and CPU milliseconds a query."""
    queries, known = sample_queries(dataset.valid, num_queries), filtered_answers(dataset, "valid")
    start = time.process_time()
    ranks = rank_answers(scorer.compact_scores, queries, known, num_entities=len(dataset.entities))
    return float((1 / ranks.realistic).mean()), 1000 * (time.process_time() - start) / len(queries)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--bounds", type=int, nargs="+", default=[400, 100, 50])
    parser.add_argument("--queries", type=int, default=400)
    given = parser.parse_args()
    torch.set_num_threads(1)
    scorer, dataset = api.load_scorer(given.run), Run.open(given.run).dataset
    assert isinstance(scorer, PropagationScorer)
    graph, settings = scorer.engine.graph, scorer.settings
    engines = {"all edges": scorer.engine}
    for bound in given.bounds:
        engines[f"even sample of {bound}"] = Engine(graph, settings.model_copy(update={"fan_out": bound}))
        engines[f"{bound} to the largest"] = Engine(trimmed(graph, bound), settings)
    for name, engine in engines.items():
        scorer.engine = engine
        mrr, milliseconds = measure(scorer, dataset, given.queries)
        Console().print(f"{name}: dev MRR {100 * mrr:.2f}, {milliseconds:.2f} ms")


if __name__ == "__main__":
    main()
