"""From a file of triples to a graph, timed beside polars' plain read of the same file.

Every measurement runs in a process of its own, so that its peak memory is its own. Imports are not timed. The file was written or
unpacked just before, so all read it from the page cache and none waits for the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.powerlaw import PowerLawGraph, write_power_law_graph
from benchmarks.results import load_results
from hopwalk.paper.source import source_sha256

MEMORY_LIMIT_BYTES = 12 * 10**9
SMALL_TRIPLES, SMALL_ENTITIES = 20_000, 5_000
HEADINGS = ("", "seconds", "CPU seconds", "× polars", "triples/s", "peak GB")
SPLIT_FILES = ("train.txt", "valid.txt", "test.txt")

# The function of each stage. It is wrapped with a clock while the real work runs.
DATASET_STAGES = {
    "read": "hopwalk.data.loading.read_path",
    "find inverse relations": "hopwalk.data.dataset.fold_inverse_relations",
    "distinct labels": "hopwalk.data.dataset._distinct",
    "encode": "hopwalk.data.dataset._pack",
    "sort": "hopwalk.data.dataset.sorted_unique",
}
GRAPH_STAGES = {
    "both directions": "hopwalk.data.graph._both_directions",
    "PageRank": "hopwalk.data.graph.pagerank",
    "trim hubs": "hopwalk.data.graph.kept_edges",
    "stay edges": "hopwalk.data.graph._with_stay_edges",
}
# Rows below the graph, by their key in the results. The first version saved the graph beside the data set.
SAVING = {
    "save": "save both",
    "open": "open both, memory-mapped",
    "save_dataset": "save the data set",
    "open_dataset": "open the data set, memory-mapped",
}

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass
class Timing:
    """The time of a piece of work, and the peak memory of its process at its end.

    `cpu_seconds` adds up all threads and grows little when other programs keep the processor busy, where `seconds` grows much.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Add the time of the block."""
        start, cpu_start = perf_counter(), process_time()
        yield
        self.seconds += perf_counter() - start
        self.cpu_seconds += process_time() - cpu_start
        self.peak_memory_bytes = peak_memory_bytes()

    def without(self, parts: Iterable[Timing]) -> Timing:
        """The times without those of the parts."""
        listed = list(parts)
        return Timing(
            self.seconds - sum(part.seconds for part in listed),
            self.cpu_seconds - sum(part.cpu_seconds for part in listed),
            self.peak_memory_bytes,
        )


@dataclass(frozen=True)
class Input:
    """Triples to measure: the argument of `load_dataset`, the files behind it, and their number of lines."""

    name: str
    data: Path
    files: tuple[Path, ...]
    num_triples: int
    repeats: int


@dataclass
class Ingestion:
    """From file to data set, and from data set to graph, with their stages; saving the data set; and sizes."""

    dataset: Timing = field(default_factory=Timing)
    graph: Timing = field(default_factory=Timing)
    save: Timing = field(default_factory=Timing)
    dataset_stages: dict[str, Timing] = field(default_factory=dict)
    graph_stages: dict[str, Timing] = field(default_factory=dict)
    num_facts: int = 0
    num_entities: int = 0
    num_relations: int = 0
    num_edges: int = 0

    @property
    def to_graph(self) -> Timing:
        """From file to graph; saving is not part of it."""
        return Timing(
            self.dataset.seconds + self.graph.seconds,
            self.dataset.cpu_seconds + self.graph.cpu_seconds,
            self.graph.peak_memory_bytes,
        )


def peak_memory_bytes() -> int:
    """The peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # preferred: getrusage may give a new process the peak of the one that started it
        kilobytes = next(line.split()[1] for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(kilobytes) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_fresh_process(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """The result of `work` in a new Python process."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


@contextmanager
def timed_stages(functions: dict[str, str]) -> Iterator[dict[str, Timing]]:
    """The time spent in each of the functions (dotted names, by stage) while the block runs."""
    timings = {stage: Timing() for stage in functions}

    def with_clock(function: Callable[..., Any], timing: Timing) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with timing.running():
                return function(*args, **kwargs)

        return timed

    with ExitStack() as patches:
        for stage, name in functions.items():
            patcher = patch(name)
            original, _ = patcher.get_original()
            patches.enter_context(patch(name, with_clock(original, timings[stage])))
        yield timings


def read_with_polars(files: tuple[Path, ...]) -> Timing:
    """The yardstick: all files as three columns of strings, and nothing more."""
    timing = Timing()
    with timing.running():
        for file in files:
            pl.read_csv(file, separator="\t", has_header=False, quote_char=None, infer_schema=False)
    return timing


def ingest_with_hopwalk(data: Path, prepared: Path) -> Ingestion:
    """File or folder → data set → graph; the data set is saved to the folder `prepared`."""
    import safetensors.numpy  # noqa: F401  # hopwalk imports these two where it needs them; imports are not timed
    import scipy.sparse  # noqa: F401

    from hopwalk import api

    done = Ingestion()
    with timed_stages(DATASET_STAGES) as done.dataset_stages, done.dataset.running():
        dataset = api.load_dataset(data)
    with timed_stages(GRAPH_STAGES) as done.graph_stages, done.graph.running():
        graph = api.graph_of(dataset)
    with done.save.running():
        api.prepare(dataset, prepared)
    done.num_facts = len(dataset.facts) + len(dataset.valid) + len(dataset.test)
    done.num_entities, done.num_relations, done.num_edges = len(dataset.entities), len(dataset.relations), graph.num_edges
    return done


def open_prepared(prepared: Path) -> Timing:
    """Opening the saved data set, memory-mapped."""
    import safetensors.numpy  # noqa: F401

    from hopwalk import api

    timing = Timing()
    with timing.running():
        api.load_dataset(prepared)
    return timing


def look_up_known_answers(prepared: Path, num_queries: int, seed: int) -> dict[str, Any]:
    """The rates of `KnownAnswers.contains` and `.answers`.

    `contains` gets facts, every second one with a random tail instead of its own. `answers` gets distinct queries in both
    directions, drawn with the facts, so that hubs with very many answers are among them.
    """
    from hopwalk import api
    from hopwalk.data.known_answers import KnownAnswers

    dataset = api.load_dataset(prepared)
    facts, num_entities, num_relations = dataset.facts, len(dataset.entities), len(dataset.relations)
    building, hashing, containing, answering = Timing(), Timing(), Timing(), Timing()
    with building.running():
        known = KnownAnswers([facts], num_entities, num_relations)
    with hashing.running():  # the index for `contains` is made when it is first used
        known.contains(facts.heads[:1], facts.relations[:1], facts.tails[:1])

    random = np.random.default_rng(seed)
    drawn = facts[random.integers(len(facts), size=num_queries)]
    tails = drawn.tails.copy()
    tails[::2] = random.integers(num_entities, size=len(tails[::2]))
    with containing.running():
        known.contains(drawn.heads, drawn.relations, tails)

    drawn = drawn[: num_queries // 10]
    forward = np.stack([drawn.heads, drawn.relations], axis=1)
    backward = np.stack([drawn.tails, dataset.relation_ids.inverse(drawn.relations)], axis=1)
    queries = np.unique(np.concatenate([forward, backward]), axis=0)
    random.shuffle(queries)
    with answering.running():
        _, answers = known.answers(queries[:, 0].copy(), queries[:, 1].copy())
    return {
        "build_seconds": building.seconds,
        "contains_index_seconds": hashing.seconds,
        "contains_asked": num_queries,
        "contains_per_second": num_queries / containing.seconds,
        "queries_asked": len(queries),
        "queries_per_second": len(queries) / answering.seconds,
        "answers_found": len(answers),
        "answers_per_second": len(answers) / answering.seconds,
        "peak_memory_bytes": answering.peak_memory_bytes,
    }


def measure(given: Input, prepared: Path, num_queries: int, seed: int) -> dict[str, Any]:
    """All measurements of one data set, ready for JSON; `prepared` is the folder where hopwalk saves it."""
    reads, runs = [], []
    for _ in range(given.repeats):  # in turns, so that other load on the machine meets both
        reads.append(in_fresh_process(read_with_polars, given.files))
        runs.append(in_fresh_process(ingest_with_hopwalk, given.data, prepared))
    # The stages of one run add up, medians of stages would not: all times given are those of the run with the median total.
    read = sorted(reads, key=lambda each: each.seconds)[len(reads) // 2]
    run = sorted(runs, key=lambda each: each.to_graph.seconds)[len(runs) // 2]
    return {
        "name": given.name,
        "repeats": given.repeats,
        "triples_read": given.num_triples,
        "file_bytes": sum(file.stat().st_size for file in given.files),
        "saved_bytes": sum(file.stat().st_size for file in prepared.iterdir()),
        "facts": run.num_facts,
        "entities": run.num_entities,
        "relations": run.num_relations,
        "edges": run.num_edges,
        "polars_read": asdict(read)
        | {
            "triples_per_second": given.num_triples / read.seconds,
            "all_seconds": [each.seconds for each in reads],
        },
        "hopwalk": asdict(run.to_graph)
        | {
            "triples_per_second": given.num_triples / run.to_graph.seconds,
            "times_polars_read": run.to_graph.seconds / read.seconds,
            "times_polars_read_cpu": run.to_graph.cpu_seconds / read.cpu_seconds,
            "all_seconds": [each.to_graph.seconds for each in runs],
            "dataset": _with_stages(run.dataset, run.dataset_stages),
            "graph": _with_stages(run.graph, run.graph_stages),
            "save_dataset": asdict(run.save),
            "open_dataset": asdict(in_fresh_process(open_prepared, prepared)),
        },
        "known_answers": in_fresh_process(look_up_known_answers, prepared, num_queries, seed),
    }


def _with_stages(whole: Timing, stages: dict[str, Timing]) -> dict[str, Any]:
    rest = whole.without(stages.values())
    return asdict(whole) | {"stages": {name: asdict(stage) for name, stage in (stages | {"the rest": rest}).items()}}


def unpack_fb15k_237(folder: Path) -> tuple[Path, ...]:
    """The three files of FB15k-237, unpacked from the mirror to the folder; none where there is no mirror."""
    from hopwalk.data import catalog

    entry, mirror = catalog.find("fb15k-237"), os.environ.get("HOPWALK_MIRROR")
    archive_path = Path(mirror) / entry.files[0].mirror_path if entry and mirror else None
    if archive_path is None or not archive_path.exists():
        return ()
    with tarfile.open(archive_path) as archive:
        members = [member for member in archive.getmembers() if Path(member.name).name in SPLIT_FILES]
        for member in members:
            member.name = Path(member.name).name
            archive.extract(member, folder, filter="data")
    return tuple(folder / name for name in SPLIT_FILES)


def run(given: argparse.Namespace, console: Console) -> dict[str, Any]:
    """All measurements, ready for JSON."""
    machine = describe_machine()
    graph = PowerLawGraph(given.triples, given.entities, seed=given.seed)
    measured = []
    with tempfile.TemporaryDirectory(prefix="hopwalk-benchmark-") as temporary:
        work = Path(temporary)
        console.print(f"Writing a power-law graph of {graph.num_triples:,} triples over {graph.num_entities:,} entities …")
        file = work / "power-law.tsv"
        in_fresh_process(write_power_law_graph, file, graph)
        inputs = [Input("power law", file, (file,), graph.num_triples, given.repeats)]
        folder = work / "fb15k-237"
        folder.mkdir()
        files = unpack_fb15k_237(folder)
        if files:
            num_triples = sum(file.read_bytes().count(b"\n") for file in files)
            # Fractions of a second vary more, and are cheap to repeat.
            inputs.append(Input("FB15k-237", folder, files, num_triples, 3 * given.repeats))
        else:
            console.print("FB15k-237 is skipped: HOPWALK_MIRROR names no folder that holds its archive.")
        for each in inputs:
            console.print(f"Measuring {each.name} …")
            measured.append(measure(each, work / f"prepared {each.name}", given.queries, given.seed))
    if source_sha256() != machine.source_sha256:
        raise SystemExit("hopwalk's source changed while it was measured: the numbers belong to no version of it. Run it again.")
    options = ("triples", "entities", "repeats", "queries", "seed")
    return {
        "command": " ".join(["python -m benchmarks.ingest", *(f"--{name} {getattr(given, name)}" for name in options)]),
        "seed": given.seed,
        "repeats": given.repeats,
        "memory_limit_bytes": MEMORY_LIMIT_BYTES,
        "machine": asdict(machine),
        "generator": asdict(graph),
        "measured": measured,
    }


def rows_of(measured: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The rows of the table of one data set; stages are indented below what they are part of, and have no rate."""
    polars, hopwalk = measured["polars_read"], measured["hopwalk"]
    timings = [("polars: read the file", polars)]
    for part, name in (("dataset", "file → data set"), ("graph", "data set → graph")):
        timings += [(name, hopwalk[part]), *((f"  {stage}", timing) for stage, timing in hopwalk[part]["stages"].items())]
    timings += [("file → graph", hopwalk), *((name, hopwalk[key]) for key, name in SAVING.items() if key in hopwalk)]
    for name, timing in timings:
        yield (
            name,
            f"{timing['seconds']:.3f}",
            f"{timing['cpu_seconds']:.3f}",
            f"{timing['seconds'] / polars['seconds']:.1f}",
            "" if name.startswith(" ") else f"{measured['triples_read'] / timing['seconds']:,.0f}",
            f"{timing['peak_memory_bytes'] / 1e9:.2f}",
        )


def title_of(measured: dict[str, Any]) -> str:
    """The data set and its size."""
    return f"{measured['name']}: {measured['triples_read']:,} triples, {measured['entities']:,} entities"


def known_answers_of(measured: dict[str, Any]) -> str:
    """The rates of the look-ups of known answers, in words."""
    known = measured["known_answers"]
    return (
        f"Known answers: {known['contains_per_second']:,.0f} facts a second are checked; {known['queries_per_second']:,.0f} "
        f"queries a second are answered with {known['answers_per_second']:,.0f} answers. The indexes are made in "
        f"{known['build_seconds']:.3f} s and {known['contains_index_seconds']:.3f} s; the peak is "
        f"{known['peak_memory_bytes'] / 1e9:.2f} GB."
    )


def table_of(measured: dict[str, Any]) -> Table:
    """The measurements of one data set, for the terminal."""
    table = Table(title=title_of(measured), title_justify="left", caption=known_answers_of(measured), caption_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in rows_of(measured):
        table.add_row(*row, style=None if row[0].startswith(" ") else "bold")
    return table


def markdown_of(results: dict[str, Any]) -> str:
    """All measurements in the form of docs/benchmarks.md."""
    lines = []
    for measured in results["measured"]:
        lines += [f"### {title_of(measured)}", "", f"| {' | '.join(HEADINGS)} |", f"|---|{'--:|' * (len(HEADINGS) - 1)}"]
        rows = ((f"– {name.strip()}" if name.startswith(" ") else f"**{name}**", *cells) for name, *cells in rows_of(measured))
        lines += [*(f"| {' | '.join(row)} |" for row in rows), "", known_answers_of(measured), ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=20_000_000)
    parser.add_argument("--entities", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="times each is measured; the median counts")
    parser.add_argument("--queries", type=int, default=5_000_000, help="facts whose known answers are looked up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help=f"{SMALL_TRIPLES:,} triples, once, as a test")
    parser.add_argument("--out", type=Path, help="where the JSON goes (results/ingest.json; nowhere with --small)")
    parser.add_argument("--show", type=Path, help="measure nothing, print this JSON in the form of docs/benchmarks.md")
    given = parser.parse_args(arguments)
    if given.show:
        print(markdown_of(load_results(given.show)), end="")
        return
    if given.small:
        given.triples, given.entities, given.repeats, given.queries = SMALL_TRIPLES, SMALL_ENTITIES, 1, SMALL_TRIPLES
    out = given.out or (None if given.small else PROJECT / "results" / "ingest.json")
    console = Console(width=None if sys.stdout.isatty() else 100)
    results = run(given, console)
    for measured in results["measured"]:
        console.print(table_of(measured))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        console.print(f"Written to {out.name}.")


if __name__ == "__main__":
    main()
