"""`hopwalk mcp`: the tools of a run for agents, by the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from hopwalk.cli.console import note_missing_digests, print_text
from hopwalk.cli.train import RunFolder


def mcp(
    run: RunFolder,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP on this machine, not stdin and stdout.")] = False,
    host: Annotated[str, typer.Option(help="Bind address with --http; loopback only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port with --http; 0 takes any free one.")] = 8001,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HOPWALK_TOKEN",
            help="Token that clients of --http must send; a random one if not given. Better set in the environment.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve a run to agents: tools to find names, ask, explain, list facts, find paths, propose and add facts.

    Over stdin and stdout, for a client that starts this command; with --http for clients that connect.

    Examples:

    - `hopwalk mcp runs/umls`

    - `HOPWALK_TOKEN=… hopwalk mcp runs/umls --http --port 8001`
    """
    from hopwalk.errors import MissingPackageError

    note_missing_digests(run)
    try:
        from hopwalk.mcp.stdio import serve_stdio

        if http:
            from hopwalk.mcp.http import serve_http
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("mcp", "mcp_types", "fastapi", "starlette", "uvicorn"):
            raise
        raise MissingPackageError(package, "`hopwalk mcp`") from None

    if not http:
        serve_stdio(run)
        return

    def announce(address: str, used: str) -> None:
        print_text(f"Serving tools for agents at {address}", to_stderr=True)
        if token is None:
            print_text(f"Clients must send: Authorization: Bearer {used}", to_stderr=True)
        print_text("Press Ctrl-C to stop.", to_stderr=True)

    serve_http(run, host=host, port=port, token=token, announce=announce)
    print_text("Stopped.", to_stderr=True)
