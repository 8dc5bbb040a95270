"""`hopwalk serve`: answers on a web page and over a JSON API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hopwalk.cli.console import note_missing_digests, print_text, printable
from hopwalk.utils.text import counted, shorten


def serve(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, as `hopwalk train` writes them.", show_default=False)],
    host: Annotated[str, typer.Option(help="Bind address. Anything but loopback is reachable from the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HOPWALK_TOKEN", help="Token that clients must send. Better set in the environment.", show_default=False
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further host name of this server, e.g. of a proxy.", show_default=False)
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Maximum seconds per request.")] = 30.0,
    waiting: Annotated[int, typer.Option(min=1, help="Queries that may wait; more are refused for the moment.")] = 256,
    connections: Annotated[int, typer.Option(min=1, help="Open connections; more are refused for the moment.")] = 1000,
    connections_per_address: Annotated[
        int, typer.Option(min=1, help="Open connections of one address. Behind a proxy, set it to --connections.")
    ] = 250,
) -> None:
    """Serve runs as a web page and a JSON API, until Ctrl-C. Only this machine can connect, unless --host is changed.

    Examples:

    - `hopwalk serve runs/umls`

    - `hopwalk serve runs/umls runs/kinship --port 0`

    - `HOPWALK_TOKEN=… hopwalk serve runs/umls --host 0.0.0.0 --allow-host walks.example.org`
    """
    from hopwalk.errors import MissingPackageError

    try:
        from hopwalk.web.limits import Limits
        from hopwalk.web.server import is_loopback
        from hopwalk.web.server import serve as serve_runs
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise MissingPackageError(error.name, "`hopwalk serve`") from None

    note_missing_digests(*runs)
    if not is_loopback(host):
        who = "by anyone with the token" if token else "by anyone, without a token (--token)"
        print_text(
            printable(f"warning: {shorten(host)} is reachable from the network {who}. Requests are not encrypted."),
            to_stderr=True,
        )

    def announce(address: str) -> None:
        with_token = " with a token" if token else ""
        print_text(f"Serving {counted(len(runs), 'run')} at {address}{with_token}\nPress Ctrl-C to stop.")
        sys.stdout.flush()  # a script may wait for the address

    serve_runs(
        runs,
        host=host,
        port=port,
        token=token,
        hosts=allow_host or (),
        limits=Limits(seconds=timeout, waiting=waiting, connections=connections, connections_per_address=connections_per_address),
        announce=announce,
    )
    print_text("Stopped.")
