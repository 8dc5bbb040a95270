"""Clients of a server, good ones and hostile ones, for as long as it is wanted; the server is stopped under load now and then.

A good client gets the same answer every time. Requests that were sent before the server was told to stop are answered; later ones
are answered, get a 503, or find the connection closed before any byte of an answer. As with every server that closes idle
connections, a request on one that was idle for seconds may find it closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

from tools.soak.mutations import spoilt_bytes
from tools.soak.outcome import WrongError

QUERIES = [(f"child {number}", "uncle") for number in range(8)] + [(f"mother {number}", "brother") for number in range(4)]
OTHERS = ["/", "/api/v1/runs", "/api/v1/health", "/metrics", "/api/v1/entities?q=ch", "/api/v1/nothing", "/openapi.json"]
RUNS = ("walker", "propagation")
SURE_SECONDS = 0.1  # a request that was sent so long before the signal was accepted
MOST_SECONDS = 60.0  # for any answer
MOST_PAUSE = 2.0  # between two requests
IDLE_SECONDS = 4.0  # after 5 seconds the server may close an idle connection
SECONDS_TO_STOP = 120.0  # for a server that was told to: its limit of 30 seconds, and as much again for a machine that is busy


@dataclass
class Tally:
    """What the clients saw."""

    counts: Counter[str] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of load
    seconds_to_stop: float = 0.0
    failures: list[str] = field(default_factory=list)

    def fail(self, problem: str) -> None:
        """Note a failure, the first hundred with their text."""
        self.counts["failures"] += 1
        if len(self.failures) < 100:
            self.failures.append(problem)


class Session:
    """One server and its clients."""

    def __init__(
        self,
        address: str,
        pid: int,
        random: Random,
        clients: int,
        rate: float,
        *,
        runs: Sequence[str] = RUNS,
        is_hostile: bool = True,
    ) -> None:
        self._host, port = address.removeprefix("http://").rstrip("/").split(":")
        self._port, self._pid, self._random = int(port), pid, random
        self._clients, self._rate, self._is_hostile = clients, rate, is_hostile
        self._runs = list(runs)
        self._expected: dict[bytes, Any] = {}
        self.stopped = float("inf")
        self.tally = Tally()

    def _request(self, method: str, path: str, body: Any = None) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content

    def _ask(self) -> bytes:
        (head, relation), run = self._random.choice(QUERIES), self._random.choice(self._runs)
        return self._request("POST", "/api/v1/ask", {"run": run, "head": head, "relation": relation, "k": 3})

    async def run(self, seconds: float) -> None:
        """Send requests for so many seconds, then stop the server under load, and go on until it is gone."""
        clients = [asyncio.create_task(self._client()) for _ in range(self._clients)]
        start = time.monotonic()
        end = start + seconds
        while time.monotonic() < end:
            self.tally.memory_mb.append(_resident_mb(self._pid))
            await asyncio.sleep(min(1.0, max(end - time.monotonic(), 0)))
        self.stopped = time.monotonic()
        self.tally.seconds = self.stopped - start
        os.kill(self._pid, signal.SIGTERM)
        await asyncio.gather(*clients)

    async def _client(self) -> None:
        while time.monotonic() < self.stopped + MOST_SECONDS:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError:
                if time.monotonic() < self.stopped:
                    self.tally.fail("the server does not accept a connection")
                    await asyncio.sleep(1)
                    continue
                return
            try:
                await self._talk(reader, writer)
            except OSError:  # the server closed the connection of a hostile client, or is gone
                self.tally.counts["closed"] += 1
            finally:
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Some requests on one connection, then perhaps a hostile one."""
        last_answer = time.monotonic()
        for _ in range(self._random.randint(1, 50)):
            pause = self._random.expovariate(self._rate / self._clients) if self._rate else 0.0
            await asyncio.sleep(min(pause, MOST_PAUSE))
            chance = self._random.random()
            if not self._is_hostile:
                chance = 1.0
            if chance < 0.06:
                await self._hostile(reader, writer, spoilt_bytes(self._ask(), self._random))
                return
            if chance < 0.07:
                await self._not_reading(writer)
                return
            if chance < 0.08:
                writer.write(self._ask()[: self._random.randint(1, 60)])  # and no more
                await asyncio.sleep(self._random.uniform(0, 3))
                self.tally.counts["half-open"] += 1
                return
            is_query = chance > 0.15
            content = self._ask() if is_query else self._request("GET", self._random.choice(OTHERS))
            if not await self._good(reader, writer, content, is_query, last_answer):
                return
            last_answer = time.monotonic()

    async def _not_reading(self, writer: asyncio.StreamWriter) -> None:
        """Send many requests and read no response."""
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(self._request("GET", "/openapi.json") * 300)
        await asyncio.sleep(self._random.uniform(0, 5))
        self.tally.counts["not reading"] += 1
        writer.transport.abort()

    async def _good(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        content: bytes,
        is_query: bool,
        last_answer: float,
    ) -> bool:
        """Send a right request and check its answer; whether the connection can be used again."""
        sent = time.monotonic()
        writer.write(content)
        try:
            async with asyncio.timeout(MOST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
        except TimeoutError:  # before OSError, which it is
            self.tally.fail(f"no answer within {MOST_SECONDS:.0f} seconds")
            return False
        except (OSError, asyncio.IncompleteReadError) as error:
            if getattr(error, "partial", b""):
                self.tally.fail("half an answer")
            elif sent > last_answer + IDLE_SECONDS:
                self.tally.counts["closed while idle"] += 1
            elif sent < self.stopped - SURE_SECONDS:
                when = f"{self.stopped - sent:.2f} seconds before the stop" if self.stopped < float("inf") else "before any stop"
                self.tally.fail(
                    f"a request sent {when}, {sent - last_answer:.2f} after the last answer, was not answered: {error!r}"
                )
            else:
                self.tally.counts["closed at the stop"] += 1
            return False
        status = int(head[9:12])
        self.tally.counts["requests"] += 1
        if is_query:
            self._judge(content, status, body, sent)
        elif status >= 500 and not (status == 503 and time.monotonic() > self.stopped):
            self.tally.fail(f"status {status} for {content[:60]!r}")
        return b"connection: close" not in head.lower()

    def _judge(self, content: bytes, status: int, body: bytes, sent: float) -> None:
        if status == 200:
            self.tally.milliseconds.append(1000 * (time.monotonic() - sent))
            found = json.loads(body)
            if not _is_same(self._expected.setdefault(content, found), found):
                self.tally.fail(f"another answer than the first time for {content[-80:]!r}: {body[:300]!r}")
        elif status == 503 and sent >= self.stopped - SURE_SECONDS and b'"stopping"' in body:
            self.tally.counts["503 at the stop"] += 1
        else:
            self.tally.fail(f"status {status}: {body[:300]!r}")

    async def _hostile(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes) -> None:
        """Send a malformed request: no answer of the server may be its own fault."""
        writer.write(content)
        if writer.can_write_eof():
            writer.write_eof()
        self.tally.counts["malformed requests"] += 1
        try:
            async with asyncio.timeout(MOST_SECONDS):
                answer = await reader.read(1 << 20)
        except TimeoutError:
            self.tally.fail(f"a malformed request was not answered nor closed: {content[:200]!r}")
            return
        own = f"location: http://{self._host}:{self._port}/".encode()  # a path with a slash too many
        is_redirect = answer.startswith(b"HTTP/1.1 307") and own in answer.lower()
        if answer and not is_redirect and not re.match(rb"HTTP/1\.1 (2|4|503)", answer):
            self.tally.fail(f"{answer[:60]!r} for {content[:200]!r}")


def _is_same(first: Any, other: Any) -> bool:
    """Whether two answers are the same but for the rounding of sums, which depends on what else is in a batch."""
    if isinstance(first, dict) and isinstance(other, dict):
        return first.keys() == other.keys() and all(_is_same(first[name], other[name]) for name in first)
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(_is_same, first, other))
    if isinstance(first, float) and isinstance(other, float):
        return abs(first - other) <= 1e-4 * max(abs(first), 1.0)
    return bool(first == other)


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return float("nan")
    return round(pages * 4096 / 1e6, 1)


def serve_and_load(
    folders: list[Path], random: Random, clients: int, rate: float, seconds: float, *, is_hostile: bool = True
) -> Tally:
    """The tally of one server with its clients; `rate` is that of all their requests, 0: as many as they can."""
    names = [folder.name for folder in folders]
    command = [sys.executable, "-m", "hopwalk", "serve", *map(str, folders), "--port", "0", "--threads", "1"]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            session = Session(_address(process.stdout), process.pid, random, clients, rate, runs=names, is_hostile=is_hostile)
            asyncio.run(session.run(seconds))
            tally = session.tally
            try:
                process.wait(SECONDS_TO_STOP)
                tally.seconds_to_stop = round(time.monotonic() - session.stopped, 1)
            except subprocess.TimeoutExpired:
                tally.fail(f"the server did not stop within {SECONDS_TO_STOP:.0f} seconds")
        finally:
            process.kill()
        errors.seek(0)
        logged = errors.read()
        if "Traceback" in logged:
            tally.fail(f"the server logged: {logged[-3000:]}")
    tally.counts["servers stopped under load"] += 1
    return tally


def _address(stdout: IO[str] | None) -> str:
    line = stdout.readline() if stdout else ""
    found = re.search(r"http://\S+/", line)
    if not found:
        raise WrongError(f"the server did not start: {line}")
    return found[0]


def described(tally: Tally) -> dict[str, Any]:
    """The tally as JSON-able values."""
    times = sorted(tally.milliseconds)
    memory = [value for value in tally.memory_mb if value == value]
    return {
        "seconds": round(tally.seconds, 1),
        "seconds_to_stop": tally.seconds_to_stop,
        "counts": dict(tally.counts),
        "failures": tally.failures,
        "p50_ms": round(times[len(times) // 2], 1) if times else None,
        "p99_ms": round(times[int(0.99 * len(times))], 1) if times else None,
        "memory_mb": memory[:: max(len(memory) // 60, 1)],
    }


def main() -> None:
    """Serve and load again and again, printing a line of JSON for each server, until this process is told to stop."""
    scratch, seed, clients, rate, seconds = sys.argv[1:]
    is_stopping = False

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    number = 0
    while not is_stopping:
        folders = [Path(scratch) / "bases" / run for run in RUNS]
        try:
            tally = serve_and_load(folders, Random(f"{seed}:load:{number}"), int(clients), float(rate), float(seconds))
        except Exception:  # the next server may do better
            tally = Tally()
            tally.fail(traceback.format_exc()[-3000:])
        print(json.dumps({"number": number, **described(tally)}), flush=True)
        number += 1


if __name__ == "__main__":
    main()
