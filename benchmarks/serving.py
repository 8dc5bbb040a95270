"""`hopwalk serve` under load: latencies, requests a second, errors and memory, on one machine.

    python -m benchmarks.serving runs/umls runs/fb15k-237              # 1, 8 and 64 clients, 60 seconds each
    python -m benchmarks.serving runs/umls --seconds 5 --clients 8 --out /tmp/serving.json

The server is a process of its own, as `hopwalk serve` starts it. The clients are coroutines of this process, each with a
connection that it keeps: it sends the next of the run's held-out queries once it has the answer of the last, and checks that the
answer is that of its own query. Both share the machine, so the cost of the clients is part of the measurement.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote

import requests
from rich.console import Console
from rich.table import Table

from benchmarks.machine import PROJECT, describe_machine
from benchmarks.results import fill_in, load_results, markdown_table, parser_of
from hopwalk.learning.run import Run

RESULTS = PROJECT / "results" / "serving.json"
PAGE = PROJECT / "docs" / "serving.md"  # has the table of the results
WARM_UP = 2.0  # seconds that are not counted
K, PATHS = 10, 3
MIXED_UP = "mixed up"  # the problem of a response that answers another request
COLUMNS = {  # of the tables: the value in each, and its format
    "operation": ("operation", ""),
    "clients": ("clients", ""),
    "requests/s": ("requests_per_second", ",.0f"),
    "p50 ms": ("p50_ms", ",.0f"),
    "p99 ms": ("p99_ms", ",.0f"),
    "slowest ms": ("slowest_ms", ",.0f"),
    "errors": ("errors", ""),
    "mixed up": ("mixed_up", ""),
    "MB before": ("memory_before_mb", ",.0f"),
    "MB after": ("memory_after_mb", ",.0f"),
}


@dataclass(frozen=True)
class Request:
    """A request as bytes, and the beginning of its answer."""

    content: bytes
    answer: bytes


@dataclass(frozen=True)
class Load:
    """The measurements of some clients."""

    operation: str
    clients: int
    seconds: float
    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    slowest_ms: float
    errors: int
    mixed_up: int
    queries_per_batch: float | None
    memory_before_mb: float
    memory_after_mb: float


@contextmanager
def served(folder: Path, threads: int | None) -> Iterator[str]:
    """The address of a server with this run."""
    command = [sys.executable, "-m", "hopwalk", "serve", str(folder), "--port", "0"]
    command += ["--threads", str(threads)] if threads else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+/", line)
            if not found:
                raise SystemExit(f"the server did not start: {line}")
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)


def held_out_facts(run: Run) -> list[tuple[str, str, str]]:
    """Held-out facts of the run in a random order, one of each query; training facts if none are held out."""
    dataset = run.dataset
    facts = dataset.labels_of(dataset.test) + dataset.labels_of(dataset.valid) or dataset.labels_of(dataset.train)
    distinct = list({(head, relation): (head, relation, tail) for head, relation, tail in facts}.values())
    random.Random(0).shuffle(distinct)
    return distinct


def ask_requests(address: str, run: str, queries: Sequence[tuple[str, str, str]]) -> list[Request]:
    """Requests for answers."""
    found = []
    for head, relation, _ in queries:
        body = {"head": head, "relation": relation, "k": K, "paths": PATHS}
        begins = {"run": run, "head": head, "name": head, "relation": relation}
        found.append(Request(_post(address, "ask", body), _text(begins)[:-1]))
    return found


def explain_requests(address: str, run: str, queries: Sequence[tuple[str, str, str]]) -> list[Request]:
    """Requests for explanations of held-out answers."""
    bodies = [{"head": head, "relation": relation, "tail": tail} for head, relation, tail in queries]
    return [Request(_post(address, "explain", body), _text({"run": run} | body)[:-1]) for body in bodies]


def name_requests(address: str, queries: Sequence[tuple[str, str, str]]) -> list[Request]:
    """Requests for names that begin as the names of heads do, as they are sent while somebody types."""
    prefixes = [head[:length] for head, _, _ in queries for length in range(1, min(len(head), 8) + 1)]
    return [Request(_request(address, "GET", f"entities?q={quote(text, safe='')}"), b'{"entities":[') for text in prefixes]


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _post(address: str, operation: str, body: Any) -> bytes:
    return _request(address, "POST", operation, _text(body))


def _request(address: str, method: str, path: str, body: bytes = b"") -> bytes:
    host = address.removeprefix("http://").rstrip("/")
    lines = [
        f"{method} /api/v1/{path} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True)
class Response:
    """When a response had come, after how many seconds, and what was wrong with it: an HTTP status, or `MIXED_UP`."""

    ended: float
    seconds: float
    problem: str


async def client(address: str, queue: Iterator[Request], until: float, responses: list[Response]) -> None:
    """Send one request after the other, and add a response for each."""
    host, port = address.removeprefix("http://").rstrip("/").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    while (started := perf_counter()) < until:
        request = next(queue)
        writer.write(request.content)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        is_ok = head.startswith(b"HTTP/1.1 200 ")
        problem = "" if is_ok and body.startswith(request.answer) else MIXED_UP if is_ok else head[:12].decode()
        ended = perf_counter()
        responses.append(Response(ended, ended - started, problem))
    writer.close()
    await writer.wait_closed()


async def _all_clients(address: str, queue: Sequence[Request], clients: int, seconds: float) -> list[Response]:
    """The responses after the warm-up."""
    responses: list[Response] = []
    begin = perf_counter() + WARM_UP
    shared = itertools.cycle(queue)  # every client takes the next request
    await asyncio.gather(*(client(address, shared, begin + seconds, responses) for _ in range(clients)))
    return [response for response in responses if response.ended >= begin]


def measure(address: str, operation: str, queue: Sequence[Request], clients: int, seconds: float) -> Load:
    """The load of so many clients for so many seconds."""
    before = metrics_of(address)
    responses = asyncio.run(_all_clients(address, queue, clients, seconds))
    after = metrics_of(address)
    latencies = sorted(1000 * response.seconds for response in responses)
    problems = [response.problem for response in responses if response.problem]
    batches, batched = (after[name] - before[name] for name in ("hopwalk_batch_size_count", "hopwalk_batch_size_sum"))
    return Load(
        operation=operation,
        clients=clients,
        seconds=seconds,
        requests=len(responses),
        requests_per_second=round(len(responses) / seconds, 1),
        p50_ms=round(_quantile(latencies, 0.5), 2),
        p99_ms=round(_quantile(latencies, 0.99), 2),
        slowest_ms=round(latencies[-1], 2) if latencies else float("nan"),
        errors=sum(problem != MIXED_UP for problem in problems),
        mixed_up=problems.count(MIXED_UP),
        queries_per_batch=round(batched / batches, 2) if batches else None,
        memory_before_mb=round(before["process_resident_memory_bytes"] / 1e6, 1),
        memory_after_mb=round(after["process_resident_memory_bytes"] / 1e6, 1),
    )


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)] if ascending else float("nan")


def metrics_of(address: str) -> dict[str, float]:
    """The metrics of the server that have no labels."""
    text = requests.get(f"{address}metrics", timeout=60).text
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE)}


def measure_run(folder: Path, clients: Sequence[int], seconds: float, threads: int | None, console: Console) -> list[Load]:
    """All measurements of one run, with one server."""
    queries, loads = held_out_facts(Run.open(folder)), []
    with served(folder, threads) as address:
        name = folder.resolve().name
        plans = [("ask", ask_requests(address, name, queries), count, seconds) for count in clients]
        plans += [("explain", explain_requests(address, name, queries), 1, seconds / 4)]
        plans += [("suggest names", name_requests(address, queries), 1, seconds / 4)]
        for plan in plans:
            loads.append(measure(address, *plan))
            console.print(_table(folder.name, loads[-1:]))
    return loads


def _table(title: str, loads: Sequence[Load]) -> Table:
    table = Table(*COLUMNS, title=title)
    for load in loads:
        table.add_row(*_cells(asdict(load)))
    return table


def _cells(load: Mapping[str, Any]) -> list[str]:
    return [f"{load[name]:{form}}" for name, form in COLUMNS.values()]


def with_table(page: str) -> str:
    """The text of the page with the table as it is in the results, between `<!-- serving -->` and `<!-- end -->`."""
    rows = [[data, *_cells(load)] for data, found in load_results(RESULTS).items() for load in found["loads"]]
    table = markdown_table([["data", *COLUMNS], *rows], text_columns=2) if rows else "Not measured on a quiet machine yet."
    return fill_in(page, "serving", table)


def main() -> None:
    """Measure, print tables, and write `results/serving.json` and the table of the docs; without runs, that table alone."""
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of trained walkers")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each number of clients")
    parser.add_argument("--threads", type=int, help="threads of the server")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    console = Console()
    found = load_results(given.out)
    for folder in given.runs:
        loads = measure_run(folder, given.clients, given.seconds, given.threads, console)
        found[Run.open(folder).dataset.name] = {
            "command": f"python -m benchmarks.serving {folder} --seconds {given.seconds:g}",
            "machine": asdict(describe_machine()),
            "k": K,
            "paths": PATHS,
            "threads": given.threads,
            "loads": [asdict(load) for load in loads],
        }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
