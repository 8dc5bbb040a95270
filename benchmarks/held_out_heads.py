"""Propagation by what training hides, where heads are held out as NELL-995's test holds them out.

    python -m benchmarks.held_out_heads nell-995 --hiding query head --seeds 0 1

A sixth of the heads of training queries lose all their facts in the relations that training asks for; these are the queries,
those left without any fact aside. So a choice can be made on 1,100 queries like those of the test; dev has heads that keep such
facts. Dev is ranked too, twice: as it is, and with such facts of its heads hidden. Writes `results/propagation-hiding.json`.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import load_results, parser_of, write_results
from hopwalk import api
from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids, Triples
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import ScoreAllTails, filtered_answers, rank_answers, split_queries
from hopwalk.learning.reached import ReachedScores
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

RESULTS = PROJECT / "results" / "propagation-hiding.json"
SHARE = 6  # one of so many heads is held out


def with_held_out_heads(dataset: Dataset) -> Dataset:
    """The data with the facts of some heads, in relations that training asks for, as its dev queries."""
    heads = np.unique(dataset.train.heads)
    held_out = np.random.default_rng(7).permutation(heads)[: len(heads) // SHARE]
    is_query = np.isin(dataset.train.heads, held_out)
    is_gone = np.isin(dataset.facts.heads, held_out) & np.isin(dataset.facts.relations, dataset.train.relations)
    facts, queries = dataset.facts[~is_gone], dataset.train[is_query]
    with_facts = np.union1d(facts.heads, facts.tails)
    return replace(dataset, facts=facts, train=dataset.train[~is_query], valid=queries[np.isin(queries.heads, with_facts)])


def measure(dataset: Dataset, settings: PropagationSettings) -> dict[str, Any]:
    """The MRR of held-out heads and of dev, in both directions, by a model that was trained without these heads' facts."""
    held_out = with_held_out_heads(dataset)
    scorer = PropagationScorer(len(dataset.entities), len(dataset.relations), settings, held_out.facts)
    learner = PropagationLearner(scorer, held_out, settings)
    for part in range(1, settings.evaluations + 1):
        learner.learn(part, torch.Generator(), lambda *_: None)
    scorer.eval()
    whole = scorer.with_graph(dataset.facts, len(dataset.entities))
    asked = dataset.facts[np.isin(dataset.facts.relations, dataset.train.relations)]

    def without_heads_facts(heads: Ids, relations: Ids) -> ReachedScores:
        return whole.score_candidates(heads, relations, [asked[asked.heads == head] for head in heads.tolist()])

    def mrr(score: ScoreAllTails, queries: Triples) -> float:
        ranks = rank_answers(score, queries, filtered_answers(dataset, "valid"), num_entities=len(dataset.entities))
        return round(metrics(ranks).mrr, 4)

    queries, both = held_out.valid, split_queries(held_out, "valid", "both")
    return {
        "hiding": settings.hiding,
        "seed": settings.seed,
        "num_queries": len(queries),
        "tails": mrr(scorer.compact_scores, queries),
        "heads": mrr(scorer.compact_scores, both[len(queries) :]),
        "dev": mrr(whole.compact_scores, dataset.valid),
        "dev_without_facts_of_heads": mrr(without_heads_facts, dataset.valid),
    }


def main() -> None:
    """Measure and write the results."""
    parser = parser_of(__doc__)
    parser.add_argument("data")
    parser.add_argument("--hiding", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    torch.set_num_threads(1)
    dataset, runs = api.load_dataset(given.data), []
    for seed in given.seeds:
        for hiding in given.hiding:
            overrides = [f"propagation.hiding={hiding}", f"propagation.seed={seed}"]
            runs.append(measure(dataset, api.settings_for(given.data, overrides=overrides).propagation))
            Console().print(runs[-1])
    found = load_results(RESULTS)
    found[given.data] = {"machine": asdict(describe_machine()), "runs": runs}
    write_results(RESULTS, found)


if __name__ == "__main__":
    main()
