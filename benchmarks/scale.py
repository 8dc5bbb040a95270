"""Propagation on power-law graphs of 10⁵ to 5·10⁶ entities with a planted rule: a query should cost the same on all of them.

    python -m benchmarks.scale [--entities 100000 1000000 5000000] [--queries 8000]
    python -m benchmarks.scale --tables

Four facts an entity over 20 relations. Most are noise in which the k-th most frequent tail has a share in proportion to 1/k, so
that the largest hub has 5 % of the edges. Beside it, half of the entities have an employer, every employer is based in a
place, and whoever works for it lives there: `lives_in` follows from a rule of two hops, and its held-out facts are the dev
queries. Training knows nothing of that: its queries are all facts in both directions. Every size runs in a process of its own,
on one thread. `--tables` measures nothing and fills in the table in docs/benchmarks.md.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console

from benchmarks.ingest import in_fresh_process, peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.powerlaw import power_law_ranks
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk.config.settings import PropagationSettings
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Ids, TriplePacking, Triples, sorted_unique
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.learning.calibration import calibrate
from hopwalk.propagation.scorer import PropagationScorer
from hopwalk.propagation.training import PropagationLearner

ENTITIES = (100_000, 1_000_000, 5_000_000)
NUM_RELATIONS, FACTS_PER_ENTITY = 20, 4
WORKS_FOR, BASED_IN, LIVES_IN = 0, 1, 2
NUM_DEV = 1000
RESULTS = PROJECT / "results" / "propagation-scale.json"
PAGE = PROJECT / "docs" / "benchmarks.md"


def planted_graph(num_entities: int, seed: int = 0) -> Dataset:
    """The power-law graph with the rule `lives_in(x, z) ← works_for(x, y), based_in(y, z)`; dev has some of the conclusions."""
    random = np.random.default_rng(seed)
    entity_of_rank = random.permutation(num_entities).astype(np.int32)
    people, employers, places = np.split(
        random.permutation(num_entities).astype(np.int32)[: num_entities * 5 // 8], [num_entities // 2, num_entities * 6 // 10]
    )
    employer = random.integers(0, len(employers), len(people))
    place = power_law_ranks(random, len(employers), len(places), 0.5)
    works = people, np.full(len(people), WORKS_FOR, dtype=np.int32), employers[employer]
    based = employers, np.full(len(employers), BASED_IN, dtype=np.int32), places[place]
    lives = people, np.full(len(people), LIVES_IN, dtype=np.int32), places[place[employer]]
    is_dev = np.arange(len(people)) < NUM_DEV  # people are in random order
    size = FACTS_PER_ENTITY * num_entities - 2 * len(people) - len(employers)
    noise = (
        entity_of_rank[power_law_ranks(random, size, num_entities, 0.5)],
        random.integers(3, NUM_RELATIONS, size, dtype=np.int32),
        entity_of_rank[power_law_ranks(random, size, num_entities, 1.0)],
    )
    packing = TriplePacking(num_entities, NUM_RELATIONS)
    parts = [works, based, tuple(column[~is_dev] for column in lives), noise]
    facts = packing.unpack(sorted_unique(np.concatenate([packing.pack(*cast("tuple[Ids, Ids, Ids]", part)) for part in parts])))
    dev, nothing = Triples(*(column[is_dev] for column in lives)), Triples.of([])
    entities, relations = cast("Vocabulary", Count(num_entities)), cast("Vocabulary", Count(NUM_RELATIONS))
    return Dataset("power law", entities, relations, facts, facts, dev, nothing, nothing)


class Count:
    """A vocabulary of which only the size matters."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def settings_of(num_queries: int, **values: Any) -> PropagationSettings:
    """Three layers, with bounds on nodes and edges that keep the cost of a query independent of the graph."""
    bounds = {"layers": 3, "senders": 100, "fan_out": 100, "queries": num_queries, "evaluations": 4, "dev_queries": NUM_DEV}
    return PropagationSettings.model_validate(bounds | values)


def measure(num_entities: int, num_queries: int, values: dict[str, Any]) -> dict[str, Any]:
    """Build, train, rank dev, calibrate and ask, with the time and the memory of each."""
    torch.set_num_threads(1)
    dataset = planted_graph(num_entities)
    found: dict[str, Any] = {"entities": num_entities, "facts": len(dataset.facts), "largest_degree": int(dataset.degrees.max())}
    settings = settings_of(num_queries, **values)
    warm_up = planted_graph(2000)
    small = PropagationScorer(2000, NUM_RELATIONS, settings, warm_up.facts)
    PropagationLearner(small, warm_up, settings).time_batches(0)  # compiles the kernels
    small.score_reached(warm_up.valid.heads[:2], warm_up.valid.relations[:2])
    found["bytes_before"] = peak_memory_bytes()
    clock = Stopwatch()
    scorer = PropagationScorer(num_entities, NUM_RELATIONS, settings, dataset.facts)
    found["graph_seconds"] = clock.lap()
    learner = PropagationLearner(scorer, dataset, settings)
    found["index_seconds"] = clock.lap()
    forecast = learner.forecast()
    found["forecast"] = {"bytes": forecast.memory_bytes, "ms_per_query": _per_query(forecast.seconds_of_epoch, settings)}
    found |= _train(learner, settings)
    clock.lap()
    scorer.calibration, reliability = calibrate(scorer.compact_scores, dataset)
    found["calibration_seconds"] = clock.lap()
    found["calibration_error_of_top"] = reliability.top_error if reliability else None
    found |= _ask(scorer, dataset)
    return found | {"peak_bytes": peak_memory_bytes()}


def _per_query(seconds: float, settings: PropagationSettings) -> float:
    return 1000 * seconds * settings.evaluations / settings.queries


def _train(learner: PropagationLearner, settings: PropagationSettings) -> dict[str, Any]:
    """The dev MRR after each part, and the time of training and of ranking dev."""
    training, ranking, history = 0.0, 0.0, []
    generator = torch.Generator()
    for part in range(1, settings.evaluations + 1):
        clock = Stopwatch()
        learner.learn(part, generator, lambda *_: None)
        training += clock.lap()
        history.append(learner.measure()["valid_mrr"])
        ranking += clock.lap()
    return {
        "queries": settings.queries,
        "valid_mrr": [round(mrr, 4) for mrr in history],
        "ms_per_training_query": 1000 * training / settings.queries,
        "ms_per_dev_query": 1000 * ranking / settings.evaluations / NUM_DEV,
    }


def _ask(scorer: PropagationScorer, dataset: Dataset, count: int = 200) -> dict[str, Any]:
    """CPU milliseconds of a warm question, one at a time: of people where they live, and of the largest hubs."""
    hubs = np.argsort(-dataset.degrees)[:20].astype(np.int32)
    asked = {"question": dataset.valid.heads[:count], "question_to_hub": hubs}
    found: dict[str, Any] = {}
    for name, heads in asked.items():
        relations = np.full(1, LIVES_IN, dtype=np.int32)
        for head in heads[:3]:
            scorer.score_reached(np.array([head]), relations)
        start = time.process_time()
        reached = [len(scorer.score_reached(np.array([head]), relations).entities) for head in heads]
        found[f"cpu_ms_per_{name}"] = 1000 * (time.process_time() - start) / len(heads)
        found[f"reached_by_{name}"] = float(np.mean(reached))
    return found


class Stopwatch:
    """CPU seconds of this process since the last lap: with one thread they are what the work takes on a quiet machine."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def lap(self) -> float:
        """The seconds since the last lap, or since the beginning."""
        before, self._last = self._last, time.process_time()
        return self._last - before


def table(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of the table in docs/benchmarks.md."""
    titles = ["entities", "facts", "largest hub", "graph, s", "index, s", "ms a training query", "ms a question", "ms, of a hub"]
    return [[*titles, "dev MRR", "peak GB", "forecast GB"], *map(_cells, rows)]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['entities']:,}",
        f"{row['facts']:,}",
        f"{row['largest_degree']:,}",
        f"{row['graph_seconds']:.1f}",
        f"{row['index_seconds']:.1f}",
        f"{row['ms_per_training_query']:.2f}",
        f"{row['cpu_ms_per_question']:.2f}",
        f"{row['cpu_ms_per_question_to_hub']:.2f}",
        f"{100 * row['valid_mrr'][-1]:.1f}",
        f"{row['peak_bytes'] / 1e9:.2f}",
        f"{row['forecast']['bytes'] / 1e9:.2f}",
    ]


def with_tables(page: str) -> str:
    """The text of the page with its table as it is in the results."""
    return fill_in(page, "propagation: scale", markdown_table(table(load_results(RESULTS)["rows"])))


def main() -> None:
    """Measure and write the results, or fill in the table."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--entities", type=int, nargs="*", default=ENTITIES)
    parser.add_argument("--queries", type=int, default=8000, help="training queries")
    parser.add_argument("--set", action="append", default=[], help="a setting of propagation, name=value")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    values = {name: json.loads(value) for name, value in (text.split("=") for text in given.set)}
    rows = []
    for size in given.entities:
        rows.append(in_fresh_process(measure, size, given.queries, values))
        Console().print(rows[-1])
    if not given.dry:
        settings = settings_of(given.queries, **values).model_dump()
        found = {"machine": asdict(describe_machine()), "threads": 1, "settings": settings, "rows": rows}
        write_results(RESULTS, found)


if __name__ == "__main__":
    main()
