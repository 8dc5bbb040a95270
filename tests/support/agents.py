"""Clients of `hopwalk mcp`: the SDK's own, over stdio, over HTTP, and in the same process."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from hopwalk.mcp.http import create_app
from hopwalk.mcp.server import ToolServer
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web.limits import Limits
from hopwalk.web.server import bound_socket, server_of

T = TypeVar("T")
TOKEN = "correct-horse"
MODES = ("legacy", "auto")  # the handshake of 2025, and the protocol of 2026-07-28 without sessions


@dataclass(frozen=True)
class Agent:
    """Calls tools."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that succeeds; the text says the same."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        (block,) = result.content
        assert block.type == "text" and json.loads(block.text) == result.structured_content
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def fails(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that fails."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        (block,) = result.content
        assert block.type == "text" and json.loads(block.text) == result.structured_content
        assert isinstance(result.structured_content, dict)
        assert {*result.structured_content} == {"error", "try_next", "suggestions"}
        return result.structured_content


def in_process(reasoner: Reasoner, use: Callable[[Agent], Awaitable[T]], **options: Any) -> T:
    """The result of a function of an agent that is connected to a server in this process."""

    async def run() -> T:
        server = ToolServer(reasoner, **{"is_one_connection": True} | options).server
        async with Client(server) as client:
            return await use(Agent(client))

    return asyncio.run(run())


@asynccontextmanager
async def over_stdio(run: Path, mode: str) -> AsyncIterator[Agent]:
    """An agent that has started `hopwalk mcp RUN`. It does not probe the protocol for ten seconds: machines may be busy."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "hopwalk", "mcp", str(run), "--threads", "1"])
    async with Client(server, mode="2026-07-28" if mode == "auto" else mode) as client:
        yield Agent(client)


@contextmanager
def http_server(reasoner: Reasoner) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    listening, limits = bound_socket("127.0.0.1", 0), Limits()
    server = server_of(create_app(reasoner, TOKEN, limits), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@asynccontextmanager
async def over_http(address: str, mode: str) -> AsyncIterator[Agent]:
    """An agent that is connected to that server, with its token."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    transport = streamable_http_client(address, http_client=http)
    async with http, Client(transport, mode=mode) as client:
        yield Agent(client)
