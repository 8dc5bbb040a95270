"""Training scorers, ours beside PyKEEN's LCWA loop: the same queries, dimension, batch size, optimizer and number of threads.

A query is a (head, relation) in one direction, an example is one of its answers. The sides take turns, each in a process of
its own, so that what disturbs the machine meets both and peak memory is the side's own. The work before an epoch is not timed.

PyKEEN trains without regularizers and constrainers, and its ComplEx and DistMult without dropout; ours have them. It has fused
optimizers, our initialisation, no progress bars, and the fastest of several ways to cut batches up and to load them. Inverse
triples are in its factory from the start, since create_inverse_triples cannot give a part of all queries. gc.freeze() comes
before the first turn, so that the collection of garbage after each of PyKEEN's epochs costs next to nothing.

GFLOP/s are those of our three products with the tail table, and of ConvE's layers: as a share of torch.mm of square matrices,
measured in the same process before and after each turn, and of the same products alone. For the same result PyKEEN's ComplEx
needs twice the operations, as it multiplies complex numbers.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import timeit
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context, set_start_method
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional, init

from benchmarks.ingest import peak_memory_bytes
from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import parser_of
from hopwalk.api import load_dataset
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import ScorerSettings
from hopwalk.errors import DownloadError
from hopwalk.learning.optimizers import Optimizer
from hopwalk.paper.source import source_sha256
from hopwalk.scorers.models import MODELS, build_scorer
from hopwalk.scorers.queries import Batch, TrainingQueries

DATA = ("umls", "kinship", "fb15k-237", "wn18rr", "nell-995")
SAMPLED_TAILS, MANY_ENTITIES = 4096, 20_000  # sampled tails are measured where there are many entities
SECONDS_PER_TURN = 3.0  # as many epochs as fill them, and no less than one
SCORED_TAILS = {"complex": 300_000, "distmult": 60_000, "conve": 60_000}  # entities times batches of an epoch: seconds for PyKEEN
BYTES_AT_ONCE, BYTES_IN_CACHE = 4 * 2**30, 32 * 2**20
WORK = {"gflops": ".1f", "share_of_mm": ".0%", "share_of_shapes": ".0%"}
HEADINGS = ("", "examples/s", "PyKEEN", "ratio", "GFLOP/s", "of mm", "of shapes", "peak GB", "PyKEEN", "sampled tails: queries/s")


@dataclass(frozen=True)
class Case:
    """The data, the model and the settings that both sides train with."""

    data: str
    model: str
    recipe: str
    threads: int
    is_quick: bool
    num_sampled_tails: int = 0
    dimension: int = 200
    batch_size: int = 512
    seed: int = 0

    def settings(self) -> ScorerSettings:
        """Our settings: those of the recipe for any data set; a ConvE has the original layers, as PyKEEN's."""
        names = ("model", "recipe", "num_sampled_tails", "dimension", "batch_size", "seed")
        own = [f"scorer.{name}={getattr(self, name)}" for name in names]
        return load_settings(overrides=[*own, "scorer.conve_layers=original"]).scorer


@dataclass(frozen=True, eq=False)
class Work:
    """The queries of an epoch: random ones of the data set, with all their answers."""

    num_entities: int
    num_relations: int
    chosen: Batch

    @staticmethod
    def of(case: Case) -> Work:
        """The queries of a case, the same every time. All batches are full."""
        dataset = load_dataset(case.data)
        queries, num_entities = TrainingQueries.of(dataset), len(dataset.entities)
        most = 1 if case.is_quick else len(queries) // case.batch_size
        size = min(max(SCORED_TAILS[case.model] // num_entities, 1), most) * case.batch_size
        every = next(queries.batches(len(queries), torch.Generator().manual_seed(case.seed)))
        ours = every.queries < size
        chosen = Batch(every.heads[:size], every.relations[:size], every.queries[ours], every.answers[ours])
        return Work(num_entities, len(dataset.relations), chosen)

    def queries(self) -> TrainingQueries:
        """The queries as hopwalk takes them."""
        ends = torch.bincount(self.chosen.queries, minlength=len(self.chosen.heads)).cumsum(0)
        return TrainingQueries(self.chosen.heads, self.chosen.relations, functional.pad(ends, (1, 0)), self.chosen.answers)

    def factory(self) -> Any:
        """The queries as PyKEEN takes them."""
        from pykeen.triples import CoreTriplesFactory

        heads, relations = (column[self.chosen.queries] for column in (self.chosen.heads, self.chosen.relations))
        triples = torch.stack([heads, relations, self.chosen.answers], dim=1)
        return CoreTriplesFactory(triples, num_entities=self.num_entities, num_relations=2 * self.num_relations)


@dataclass(frozen=True)
class Turn:
    """The time of some epochs, the rate of torch.mm before and after them, memory before there was a model, and the peak."""

    epochs: int
    seconds: float
    cpu_seconds: float
    loss: float
    mm_gflops: tuple[float, float] = (0.0, 0.0)
    memory_before: int = 0
    peak_memory: int = 0


class Ours:
    """Our training."""

    def __init__(self, case: Case, work: Work) -> None:
        settings = case.settings()
        scorer = build_scorer(work.num_entities, work.num_relations, settings)
        self._scorer, self._optimizer, self._queries = (
            scorer.train(),
            Optimizer(scorer, settings.optimizer, settings.learning_rate),
            work.queries(),
        )
        self._generator, self._batch_size = torch.Generator().manual_seed(case.seed), case.batch_size

    def train(self, num_epochs: int) -> Turn:
        """Train so many epochs more."""
        start, cpu_start, loss = perf_counter(), process_time(), 0.0
        for _ in range(num_epochs):
            for batch in self._queries.batches(self._batch_size, self._generator):
                loss = self._scorer.learn(batch, self._optimizer, self._generator)
        return Turn(num_epochs, perf_counter() - start, process_time() - cpu_start, loss)

    def warm_up(self) -> tuple[float, dict[str, Any]]:
        """The seconds of the second epoch; nothing more to report."""
        self.train(1)
        return self.train(1).seconds, {}


@dataclass(frozen=True)
class Way:
    """A way to train a batch with PyKEEN: whole, in parts of it, or in slices of the tails; and how many processes load it."""

    sub_batch_size: int | None = None
    slice_size: int | None = None
    num_workers: int = 0


class Pykeen:
    """PyKEEN's training loop as it is, but for a clock that starts when its data are ready."""

    def __init__(self, case: Case, work: Work) -> None:
        logging.getLogger("pykeen").setLevel(logging.ERROR)  # it would warn that it creates no inverse triples: they are there
        from pykeen.training import LCWATrainingLoop

        settings, factory = case.settings(), work.factory()
        smoothing = settings.label_smoothing if settings.loss == "binary" else 0.0
        self._options = {"batch_size": case.batch_size, "label_smoothing": smoothing, "drop_last": False, "pin_memory": False}
        optimizer = {"optimizer": settings.optimizer, "optimizer_kwargs": {"lr": settings.learning_rate, "fused": True}}
        parts: dict[str, Any] = {"model": pykeen_model(settings, factory), "triples_factory": factory, **optimizer}
        loop: Any = LCWATrainingLoop(**parts, automatic_memory_optimization=False)
        self._load, loop._create_training_data_loader = loop._create_training_data_loader, self._load_and_start
        self._loop, self._factory, self._start, self._num_epochs = loop, factory, (0.0, 0.0), 0
        self._ways = ways(settings, work.num_entities)[: 1 if case.is_quick else None]
        self._way = self._ways[0]

    def _load_and_start(self, *args: Any, **kwargs: Any) -> Any:
        loader = self._load(*args, **kwargs)
        self._start = perf_counter(), process_time()
        return loader

    def train(self, num_epochs: int) -> Turn:
        """Train so many epochs more; CPU seconds are without those of a process that loads."""
        self._num_epochs += num_epochs
        options = {**self._options, **asdict(self._way), "continue_training": self._num_epochs > num_epochs}
        losses = self._loop.train(self._factory, num_epochs=self._num_epochs, use_tqdm=False, **options)
        return Turn(num_epochs, perf_counter() - self._start[0], process_time() - self._start[1], float(losses[-1]))

    def warm_up(self) -> tuple[float, dict[str, Any]]:
        """The seconds of an epoch in the fastest way, found by trying all, and what each took."""
        self.train(1)
        seconds = {}
        for way in self._ways:
            self._way = way
            seconds[way] = self.train(1).seconds
        self._way = min(seconds, key=lambda way: seconds[way])
        tried = [[asdict(way), taken] for way, taken in seconds.items()]
        return seconds[self._way], {"way": asdict(self._way), "seconds_of_ways": tried}


def pykeen_model(settings: ScorerSettings, factory: Any) -> Any:
    """PyKEEN's model with our dimensions and initialisation, without extras that cost time and that ours does not have."""
    from pykeen.models import ComplEx, ConvE, DistMult

    scale = settings.initial_scale
    sample: Any = partial(init.normal_, std=scale) if scale else init.xavier_normal_
    loss = "bcewithlogits" if settings.loss == "binary" else "crossentropy"
    common = {"triples_factory": factory, "embedding_dim": settings.dimension, "loss": loss, "random_seed": settings.seed}
    common |= {"entity_initializer": sample, "relation_initializer": sample}
    if settings.model == "complex":
        return ComplEx(regularizer=None, **common)
    if settings.model == "distmult":
        return DistMult(regularizer=None, entity_constrainer=None, **common)
    common |= {"input_dropout": settings.input_dropout, "output_dropout": settings.hidden_dropout}
    return ConvE(feature_map_dropout=settings.feature_dropout, **common)  # filters and reshape are ours by default


def ways(settings: ScorerSettings, num_entities: int) -> list[Way]:
    """The ways to train a batch with PyKEEN's loop that fit into memory.

    ComplEx is a matrix product there. DistMult and ConvE make a tensor [Q, E, D] and another for its gradient: as much of it at
    once as memory allows, or for DistMult as much as the cache holds. Batch normalisation forbids parts of batches.
    """
    size, bytes_per_tail = settings.batch_size, 2 * 4 * settings.dimension
    if settings.model == "complex":
        cuts = [Way()]
    elif settings.model == "distmult":
        parts = (max(limit // (num_entities * bytes_per_tail), 1) for limit in (BYTES_AT_ONCE, BYTES_IN_CACHE))
        cuts = [Way(sub_batch_size=part if part < size else None) for part in parts]
    else:
        most = BYTES_AT_ONCE // (size * bytes_per_tail)
        cuts = [Way(slice_size=most if most < num_entities else None)]
    loaders = (0, 1) if settings.model == "complex" or num_entities < MANY_ENTITIES else (0,)  # else loading hardly counts
    return [replace(cut, num_workers=number) for cut in cuts for number in loaders]


_started: dict[str, tuple[Case, Ours | Pykeen, int, int]] = {}  # in a side's process: the epochs of a turn, the memory before


def start(name: str, case: Case) -> dict[str, Any]:
    """Set a side up in this process; the sizes of its work, and what its warm-up found."""
    torch.set_num_threads(case.threads)
    work, memory_before = Work.of(case), peak_memory_bytes()
    side = Pykeen(case, work) if name == "pykeen" else Ours(case, work)
    gc.collect()
    gc.freeze()
    seconds, about = side.warm_up()
    _started[name] = case, side, 1 if case.is_quick else max(round(SECONDS_PER_TURN / seconds), 1), memory_before
    sizes = {"entities": work.num_entities, "relations": work.num_relations, "queries": len(work.chosen.heads)}
    return {"sizes": {**sizes, "examples": len(work.chosen.answers)}, "about": about}


def take_turn(name: str) -> Turn:
    """One turn of the side of this process."""
    case, side, epochs, memory_before = _started[name]
    size = 256 if case.is_quick else 2048
    product = partial(torch.mm, *torch.rand(2, size, size))
    before = gflops(2 * size**3, product)
    with suppress(OSError):  # resets the peak, to which the ways tried out have added
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    turn, peak = side.train(epochs), peak_memory_bytes()
    return replace(turn, mm_gflops=(before, gflops(2 * size**3, product)), memory_before=memory_before, peak_memory=peak)


def gflops(operations: float, work: Callable[[], Any], repeats: int = 5) -> float:
    """Billions of operations a second, the best of some repetitions after one more."""
    return operations / min(timeit.repeat(work, number=1, repeat=repeats + 1)[1:]) / 1e9


def products(settings: ScorerSettings, num_entities: int) -> dict[str, tuple[float, Callable[[], Any]]]:
    """The products that a batch cannot do without: the number of their operations, and a function that does them alone.

    Matrices lie in memory as they do in `losses.py`, scores as [E, Q]. Results go where there is room already.
    """
    size, width = settings.batch_size, settings.dimension * MODELS[settings.model].numbers_per_dimension
    table, vectors, scores = torch.rand(num_entities, width), torch.rand(size, width), torch.rand(num_entities, size)
    for_table, for_vectors, for_scores = torch.empty_like(table), torch.empty_like(vectors), torch.empty_like(scores)
    operations = 2.0 * size * num_entities * width
    found: dict[str, tuple[float, Callable[[], Any]]] = {
        "[E,D]@[D,Q]": (operations, lambda: torch.mm(table, vectors.T, out=for_scores)),
        "[Q,E]@[E,D]": (operations, lambda: torch.mm(scores.T, table, out=for_vectors)),
        "[E,Q]@[Q,D]": (operations, lambda: torch.mm(scores, vectors, out=for_table)),
    }
    if settings.model == "conve":
        height, kernel = settings.embedding_height, settings.kernel_size
        image = torch.rand(size, 1, 2 * height, width // height, requires_grad=True)
        filters = torch.rand(settings.num_filters, 1, kernel, kernel, requires_grad=True)
        features = functional.conv2d(image, filters).detach()
        inputs = features.flatten(1).requires_grad_()
        layer = torch.rand(width, inputs.shape[1], requires_grad=True)
        convolve = lambda: torch.autograd.grad(functional.conv2d(image, filters), [image, filters], features)  # noqa: E731
        project = lambda: torch.autograd.grad(functional.linear(inputs, layer), [inputs, layer], vectors)  # noqa: E731
        # Each is one product forward and two backward, to its input and to its weights.
        found["convolution"] = (3 * 2.0 * features.numel() * kernel**2, convolve)
        found["full layer"] = (3 * 2.0 * size * layer.numel(), project)
    return found


def measure_products(case: Case, num_entities: int) -> dict[str, Any]:
    """The rates of the products alone, and of all of them together."""
    needed = products(case.settings(), num_entities)
    rates = {name: gflops(operations, work) for name, (operations, work) in needed.items()}
    total = sum(operations for operations, _ in needed.values())
    together = total / sum(operations / rates[name] for name, (operations, _) in needed.items())
    return {"operations_per_batch": total, "gflops": rates, "gflops_together": together}


def fresh_process() -> Executor:
    """A new Python process that keeps the side it sets up."""
    return ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), initializer=use_own_start_method)


def use_own_start_method() -> None:
    """Start processes as the platform does: a spawned one would spawn PyKEEN's loaders, at a cost that is not PyKEEN's."""
    # Not as the initializer itself: it is a method, and would reach the new process with a copy of its object.
    set_start_method(None, force=True)


def measure(case: Case, num_turns: int) -> dict[str, Any]:
    """The sides of a case, in turns."""
    cases = {"hopwalk": case, "pykeen": case}
    if len(load_dataset(case.data).entities) > MANY_ENTITIES:
        cases["hopwalk_sampled_tails"] = replace(case, num_sampled_tails=SAMPLED_TAILS)
    with ExitStack() as stack:
        processes = {name: stack.enter_context(fresh_process()) for name in cases}
        started = {name: processes[name].submit(start, name, cases[name]).result() for name in cases}
        sizes = started["hopwalk"]["sizes"]
        turns = [{name: processes[name].submit(take_turn, name).result() for name in cases} for _ in range(num_turns)]
        alone = processes["hopwalk"].submit(measure_products, case, sizes["entities"]).result()
    measured: dict[str, Any] = {**asdict(case), **sizes}
    for name in cases:
        measured[name] = {"turns": [asdict(turn[name]) for turn in turns], **started[name]["about"]}
        for unit in ("examples", "queries"):
            rates = [sizes[unit] * turn[name].epochs / turn[name].seconds for turn in turns]
            measured[name][f"{unit}_per_second"] = summary(rates)
    per_query = alone["operations_per_batch"] / case.batch_size / 1e9
    rates = [per_query * rate for rate in measured["hopwalk"]["queries_per_second"]["all"]]
    shares = [rate / max(turn["hopwalk"].mm_gflops) for rate, turn in zip(rates, turns, strict=True)]
    work = zip(WORK, (rates, shares, [rate / alone["gflops_together"] for rate in rates]), strict=True)
    return {**measured, "useful_work": {name: summary(values) for name, values in work}, "products_alone": alone}


def summary(values: Sequence[float]) -> dict[str, Any]:
    """The best and the median of rates, and all of them."""
    return {"best": max(values), "median": median(values), "all": list(values)}


def table_of(measured: Sequence[dict[str, Any]]) -> Table:
    """The measurements of one data set, for the terminal; rates are medians."""
    title = "{data}: {entities:,} entities, epochs of {queries:,} queries with {examples:,} answers".format_map(measured[0])
    table = Table(title=title, title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for case in measured:
        sides, work = [case["hopwalk"], case["pykeen"]], case["useful_work"]
        ours, theirs = (side["examples_per_second"]["median"] for side in sides)
        cells = [f"{case['model']}, {case['recipe']}", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.1f}"]
        cells += [f"{work[name]['median']:{form}}" for name, form in WORK.items()]
        cells += [f"{max(turn['peak_memory'] for turn in side['turns']) / 1e9:.2f}" for side in sides]
        if "hopwalk_sampled_tails" in case:
            few, many = (case[name]["queries_per_second"]["median"] for name in ("hopwalk_sampled_tails", "hopwalk"))
            cells.append(f"{few:,.0f}, {few / many:.1f} × all tails")
        table.add_row(*cells)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--models", nargs="+", choices=tuple(SCORED_TAILS), default=tuple(SCORED_TAILS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=3, help="turns of each side")
    parser.add_argument("--quick", action="store_true", help="one turn of one batch, as a test")
    parser.add_argument("--out", type=Path, help="where the JSON goes (results/scorers-speed.json; nowhere with --quick)")
    given = parser.parse_args(arguments)
    if not find_spec("pykeen"):
        raise SystemExit("This benchmark needs the package pykeen, which is not installed: pip install pykeen")
    turns = 1 if given.quick else given.turns
    out = given.out or (None if given.quick else PROJECT / "results" / "scorers-speed.json")
    console, machine, measured = Console(width=None if sys.stdout.isatty() else 130), describe_machine(), []
    kinds = [(model, recipe) for model in given.models for recipe in ("paper", "modern")]
    for data in given.data:
        try:
            of_data = [measure(Case(data, *kind, given.threads, given.quick), turns) for kind in kinds]
        except DownloadError as error:
            console.print(f"{data} is skipped: {error}")
            continue
        console.print(table_of(of_data))
        measured += of_data
        if source_sha256() != machine.source_sha256:
            raise SystemExit("hopwalk's source changed while it was measured: the numbers belong to no version. Run it again.")
        if out:  # after each data set: the large ones take long
            names = " ".join(dict.fromkeys(case["data"] for case in measured))
            command = f"python -m benchmarks.scorers --data {names} --models {' '.join(given.models)} --turns {turns}"
            about = {"command": command, "about": __doc__, "torch": version("torch"), "pykeen": version("pykeen")}
            results = {**about, "machine": asdict(machine), "measured": measured}
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
            console.print(f"Written to {out.name}.")


if __name__ == "__main__":
    main()
