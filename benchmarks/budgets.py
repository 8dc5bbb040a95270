"""Dev MRR of propagation by its budget of training queries, each budget a run of its own, and the rise in each run's second half.

    python -m benchmarks.budgets umls --queries 2500 5000 10000 20000 --seeds 0 1
    python -m benchmarks.budgets wn18rr --queries 6000 12000 24000 48000

`hopwalk.propagation.budget.outlook` says what twice the time would bring; these are the numbers behind it (docs/propagation.md).
Dev is ranked after a half of the queries and at the end; the standard deviation is that of the change of a query's reciprocal
rank in between. Writes `results/propagation-budgets.json`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import load_results, parser_of, write_results
from hopwalk import api
from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.learning.ranking import Floats, filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

RESULTS = PROJECT / "results" / "propagation-budgets.json"


def measure(dataset: Dataset, settings: PropagationSettings) -> dict[str, Any]:
    """Dev MRR at the middle and at the end of a run, and how far single queries moved in between."""
    halves = settings.model_copy(update={"evaluations": 2})
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), halves, dataset.facts)
    learner = PropagationLearner(scorer, dataset, halves)
    middle, end = (_reciprocal_ranks(learner, part, scorer, dataset, halves) for part in (1, 2))
    return {
        "queries": settings.queries,
        "seed": settings.seed,
        "dev_queries": len(end),
        "mrr_at_half": round(float(middle.mean()), 4),
        "mrr": round(float(end.mean()), 4),
        "deviation_of_change": round(float((end - middle).std()), 3),
    }


def _reciprocal_ranks(
    learner: PropagationLearner, part: int, scorer: PropagationScorer, dataset: Dataset, settings: PropagationSettings
) -> Floats:
    learner.learn(part, torch.Generator(), lambda *_: None)
    queries, known = sample_queries(split_queries(dataset, "valid"), settings.dev_queries), filtered_answers(dataset, "valid")
    ranks = rank_answers(scorer.compact_scores, queries, known, num_entities=len(dataset.entities))
    reciprocal: Floats = 1 / ranks.realistic
    return reciprocal


def share_of_rises(runs: list[dict[str, Any]]) -> float:
    """What twice the queries brought in all, as a share of the rises in the second halves of the shorter runs."""
    mrr = {(run["seed"], run["queries"]): run["mrr"] for run in runs}
    pairs = [(run, mrr[key]) for run in runs if (key := (run["seed"], 2 * run["queries"])) in mrr]
    rises = sum(run["mrr"] - run["mrr_at_half"] for run, _ in pairs)
    return float(np.divide(sum(longer - run["mrr"] for run, longer in pairs), rises))


def main() -> None:
    """Measure and write the results."""
    parser = parser_of(__doc__)
    parser.add_argument("data")
    parser.add_argument("--queries", type=int, nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    torch.set_num_threads(1)
    dataset, runs = api.load_dataset(given.data), []
    for seed in given.seeds:
        for queries in given.queries:
            overrides = [f"propagation.queries={queries}", f"propagation.seed={seed}"]
            runs.append(measure(dataset, api.settings_for(given.data, overrides=overrides).propagation))
            Console().print(runs[-1])
    found = load_results(RESULTS)
    found[given.data] = {"machine": asdict(describe_machine()), "share_of_rises": share_of_rises(runs), "runs": runs}
    write_results(RESULTS, found)


if __name__ == "__main__":
    main()
