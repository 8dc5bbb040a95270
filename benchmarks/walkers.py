"""Training and decoding of walkers, ours beside the plain reference of `plain_walker.py`, with the paper's settings.

    python -m benchmarks.walkers [--data umls …] [--growth]

Each side runs in a process of its own, one after the other in turns, so that what disturbs the machine meets both and peak memory
is the side's own. The reward of both is that of an untrained ComplEx of 200 dimensions, which costs what a trained one does.
GFLOP/s are those of the LSTM, the two layers of the policy and the scores of edges, forward and backward, as a share of torch's
product of square matrices with the same number of threads, measured in the same process. A state that several walks share is
counted once. Both sides compute products as hopwalk's training does (`hopwalk.utils.products`).

With `--growth`, training on power-law graphs of 10⁴ to 5·10⁶ entities: a minibatch should take about as long on all of them.
With `--tables`, nothing is measured; the tables in docs/benchmarks.md are filled in.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.ingest import in_fresh_process, peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.plain_walker import BENCHMARK_BUCKET_INTERVAL, PlainSettings, PlainWalker
from benchmarks.powerlaw import power_law_ranks
from benchmarks.results import fill_in, fill_page, load_results, markdown_table, parser_of, write_results
from hopwalk.api import load_dataset
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import ScorerSettings, Settings
from hopwalk.data.dataset import Dataset
from hopwalk.data.graph import build_graph
from hopwalk.data.known_answers import KnownAnswers
from hopwalk.data.triples import TriplePacking, Triples, sorted_unique
from hopwalk.data.vocabulary import Vocabulary
from hopwalk.scorers.models import build_scorer
from hopwalk.utils.products import fast_products
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.environment import ActionSpace, Environment, Queries, States
from hopwalk.walker.forecast import actions_of_walk, operations_of_states, product_rate
from hopwalk.walker.runs import build_environment
from hopwalk.walker.shaping import Shaping
from hopwalk.walker.training import WalkerLearner

DATA = ("umls", "kinship", "fb15k-237", "wn18rr", "nell-995")
ENTITIES = (10_000, 100_000, 1_000_000, 5_000_000)
RESULTS = PROJECT / "results" / "walkers-speed.json"
PAGE = PROJECT / "docs" / "benchmarks.md"
TITLES = (
    "data",
    "minibatches/s",
    "plain",
    "ratio",
    "test triples/s",
    "plain",
    "ratio",
    "peak MB",
    "plain",
    "GFLOP/s",
    "of product",
    "on one thread",
)


@dataclass(frozen=True)
class Measured:
    """One side on one data set: minibatches and decoded queries a second, memory, and our floating-point work."""

    minibatches_per_second: float
    queries_per_second: float
    peak_memory_bytes: int
    gflops: float = 0.0
    product_gflops: float = 0.0

    @property
    def share_of_product(self) -> float:
        """The share of the machine's matrix-product rate that training reaches."""
        return self.gflops / self.product_gflops if self.product_gflops else 0.0


def paper_settings(data: str) -> Settings:
    """The paper's settings for the data set."""
    return load_settings(data, overrides=["walker.recipe=paper"])


def _scorer(dataset: Dataset) -> Any:
    return build_scorer(len(dataset.entities), len(dataset.relations), ScorerSettings(model="complex", dimension=200)).eval()


def _batches(dataset: Dataset, settings: Settings, number: int) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [random.choice(len(dataset.train), min(settings.walker.batch_size, len(dataset.train)), False) for _ in range(number)]


class CountingEnvironment(Environment):
    """An environment that counts the floating-point operations of training, states that walks share once."""

    operations = 0.0

    def step(self, states: States, queries: Queries, **options: Any) -> ActionSpace:
        """Count the products of the states, and of their actions' scores."""
        actions = super().step(states, queries, **options)
        self.operations += operations_of_states(self.policy.settings, len(states), 0, len(actions.tails))
        return actions

    def transition(self, states: States, actions: ActionSpace, chosen: Tensor, **options: Any) -> States:
        """Count the recurrent products of the states that are continued."""
        self.operations += operations_of_states(self.policy.settings, 0, len(states), 0)
        return super().transition(states, actions, chosen, **options)


@fast_products()
def measure_ours(data: str, threads: int, minibatches: int, num_queries: int) -> Measured:
    """Our engine: some minibatches after the first two, then test queries, of which each distinct one is decoded once."""
    torch.set_num_threads(threads)
    dataset, settings = load_dataset(data), paper_settings(data)
    plain = build_environment(dataset, settings)
    environment = CountingEnvironment(plain.graph, plain.policy, plain.known)
    learner = WalkerLearner(environment, dataset, settings, Shaping(_scorer(dataset)))
    generator = torch.Generator().manual_seed(0)
    seconds = []
    rate = product_rate(0.5)
    for rows in _batches(dataset, settings, minibatches + 2):
        start = time.perf_counter()
        learner.learn_batch(torch.from_numpy(rows), generator)
        seconds.append(time.perf_counter() - start)
    rate = max(rate, product_rate(0.5))
    operations = environment.operations / (minibatches + 2)
    pairs = np.unique(np.stack([dataset.test.heads, dataset.test.relations], axis=1), axis=0)
    queries = _of_some_heads(pairs, num_queries)
    environment.policy.eval()
    decoder = Decoder(environment, settings)
    decoder.scores(queries[:16, 0], queries[:16, 1])
    start, at_once = time.perf_counter(), max(2**26 // len(dataset.entities), 1)
    for first in range(0, len(queries), at_once):
        part = queries[first : first + at_once]
        decoder.scores(part[:, 0], part[:, 1])
    decoding = (time.perf_counter() - start) * len(pairs) / len(dataset.test)  # each distinct query is decoded once
    speed = 1 / median(seconds[2:])
    return Measured(speed, len(queries) / decoding, peak_memory_bytes(), operations * speed / 1e9, rate / 1e9)


def _of_some_heads(pairs: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """All queries of some heads, about so many: as in the whole test set, where queries of a head share their paths."""
    heads = np.unique(pairs[:, 0])
    chosen = heads[_sample(len(heads), max(most * len(heads) // len(pairs), 1))]
    return pairs[np.isin(pairs[:, 0], chosen)]


def _sample(size: int, most: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(0).permutation(size)[:most]


@fast_products()
def measure_plain(data: str, threads: int, minibatches: int, num_queries: int) -> Measured:
    """The plain reference: the same minibatches, and one decode for each test triple."""
    torch.set_num_threads(threads)
    dataset, settings = load_dataset(data), paper_settings(data)
    own, scorer = settings.walker, _scorer(dataset)
    size = len(dataset.entities), len(dataset.relations)
    plain = PlainSettings(
        hops=settings.walk.hops,
        rollouts=own.rollouts,
        embedding_dropout=own.embedding_dropout,
        feed_forward_dropout=own.hidden_dropout,
        action_dropout=own.action_dropout,
        entropy_weight=own.entropy,
        max_gradient_norm=own.gradient_clip or None,
        bucket_interval=BENCHMARK_BUCKET_INTERVAL,
    )
    graph, known = build_graph(dataset.facts, *size, settings.graph), KnownAnswers([dataset.facts], *size)
    walker = PlainWalker(graph, known, plain, scorer.probability_of_triples)  # which it calls without gradients
    seconds = []
    for rows in _batches(dataset, settings, minibatches + 1):
        facts, start = dataset.train[rows], time.perf_counter()
        walker.train_minibatch(facts.heads, facts.relations, facts.tails)
        seconds.append(time.perf_counter() - start)
    triples = dataset.test[_sample(len(dataset.test), num_queries)]
    walker.decode(triples.heads[:4], triples.relations[:4], triples.tails[:4], settings.walk.beam)
    start = time.perf_counter()
    walker.decode(triples.heads, triples.relations, triples.tails, settings.walk.beam)
    decoding = time.perf_counter() - start
    return Measured(1 / median(seconds[1:]), len(triples) / decoding, peak_memory_bytes())


def measure_growth(num_entities: int, threads: int, minibatches: int) -> dict[str, float]:
    """Seconds of a minibatch on a power-law graph, 2 facts an entity; 32 dimensions, so that 5·10⁶ entities fit the machine."""
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    num_facts = 2 * num_entities
    shuffled = random.permutation(num_entities)
    ranks = [power_law_ranks(random, num_facts, num_entities, exponent) for exponent in (0.5, 1.0)]
    packing = TriplePacking(num_entities, 100)
    relations = random.integers(0, 100, num_facts)
    columns = shuffled[ranks[0]].astype(np.int32), relations.astype(np.int32), shuffled[ranks[1]].astype(np.int32)
    facts = packing.unpack(sorted_unique(packing.pack(*columns)))
    entities, names, empty = cast("Vocabulary", _Count(num_entities)), cast("Vocabulary", _Count(100)), Triples.of([])
    dataset = Dataset("power law", entities, names, facts, facts, empty, empty, empty, ())
    settings = load_settings(overrides=["walker.dimension=32", "walker.reward_shaping=false", "graph.fan_out=200"])
    environment = build_environment(dataset, settings)
    learner = WalkerLearner(environment, dataset, settings, None)
    generator, seconds = torch.Generator().manual_seed(0), []
    for rows in _batches(dataset, settings, minibatches + 2):
        start = time.perf_counter()
        learner.learn_batch(torch.from_numpy(rows), generator)
        seconds.append(time.perf_counter() - start)
    return {
        "entities": num_entities,
        "facts": len(facts),
        "seconds_per_minibatch": median(seconds[2:]),
        "actions_per_walk": actions_of_walk(environment.graph),
        "peak_memory_bytes": peak_memory_bytes(),
    }


class _Count:
    """A vocabulary of which only the size matters."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def main() -> None:
    """Measure, print a table, and write `results/walkers-speed.json`."""
    parser = parser_of(__doc__, PAGE)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--minibatches", type=int, default=9)
    parser.add_argument("--queries", type=int, default=640, help="test triples to decode with our engine")
    parser.add_argument("--plain-queries", type=int, default=64, help="test triples to decode with the plain reference")
    parser.add_argument("--growth", action="store_true")
    given = parser.parse_args()
    if given.tables:
        fill_page(PAGE, with_tables)
        return
    console = Console()
    found = load_results(RESULTS)
    if given.growth:
        rows = [in_fresh_process(measure_growth, size, given.threads, given.minibatches) for size in ENTITIES]
        found["growth"] = {"machine": asdict(describe_machine()), "threads": given.threads, "rows": rows}
        for row in rows:
            console.print(row)
    else:
        for data in given.data:
            ours = in_fresh_process(measure_ours, data, given.threads, given.minibatches, given.queries)
            plain = in_fresh_process(measure_plain, data, given.threads, 2, given.plain_queries)
            alone = in_fresh_process(measure_ours, data, 1, given.minibatches, given.queries)
            found.setdefault("sets", {})[data] = {
                "machine": asdict(describe_machine()),
                "threads": given.threads,
                "ours": asdict(ours) | {"share_of_product": ours.share_of_product},
                "ours_on_one_thread": asdict(alone) | {"share_of_product": alone.share_of_product},
                "plain": asdict(plain),
                "training_ratio": ours.minibatches_per_second / plain.minibatches_per_second,
                "decoding_ratio": ours.queries_per_second / plain.queries_per_second,
            }
            console.print(_table({data: found["sets"][data]}))
    write_results(RESULTS, found)


def _rows(sets: dict[str, Any]) -> list[list[str]]:
    rows = []
    for data, row in sets.items():
        ours, plain, alone = row["ours"], row["plain"], row["ours_on_one_thread"]
        rows.append(
            [
                data,
                f"{ours['minibatches_per_second']:.2f}",
                f"{plain['minibatches_per_second']:.3f}",
                f"{row['training_ratio']:.1f}",
                f"{ours['queries_per_second']:,.0f}",
                f"{plain['queries_per_second']:.1f}",
                f"{row['decoding_ratio']:.1f}",
                f"{ours['peak_memory_bytes'] / 2**20:,.0f}",
                f"{plain['peak_memory_bytes'] / 2**20:,.0f}",
                f"{ours['gflops']:.0f}",
                f"{ours['share_of_product']:.0%}",
                f"{alone['share_of_product']:.0%}",
            ]
        )
    return rows


def _table(sets: dict[str, Any]) -> Table:
    table = Table(*TITLES)
    for row in _rows(sets):
        table.add_row(*row)
    return table


def with_tables(page: str) -> str:
    """The text of the page with its tables as they are in the results, between `<!-- speed: NAME -->` and `<!-- end -->`."""
    found = load_results(RESULTS)
    growth = [
        [
            f"{row['entities']:,}",
            f"{row['facts']:,}",
            f"{1000 * row['seconds_per_minibatch']:.0f}",
            f"{row['peak_memory_bytes'] / 2**20:,.0f}",
        ]
        for row in found["growth"]["rows"]
    ]
    tables = {
        "walkers": [list(TITLES), *_rows(found["sets"])],
        "growth": [["entities", "facts", "milliseconds a minibatch", "peak MB"], *growth],
    }
    for name, rows in tables.items():
        page = fill_in(page, f"speed: {name}", markdown_table(rows))
    return page


if __name__ == "__main__":
    main()
