"""The MCP server over standard input and output: a client starts it as a process, and is its only client."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

from mcp.server.stdio import stdio_server

from hopwalk.mcp.server import ToolServer
from hopwalk.reasoning.reasoner import Reasoner


def serve_stdio(run: str | Path) -> None:
    """Serve a run over stdin and stdout until the client closes them. Nothing else is written to stdout.

    Signals end the process at once: there is nothing to save, and a thread that waits for input cannot be stopped.
    """
    with suppress(ValueError):  # not in the main thread
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.SIG_DFL)
    asyncio.run(_serve(Reasoner.load(run)))


async def _serve(reasoner: Reasoner) -> None:
    tools = ToolServer(reasoner, is_one_connection=True)
    tools.warm_up()
    server = tools.server
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
