"""`hopwalk serve`: answers over HTTP and on a page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hopwalk.cli.console import print_text, printable


def serve(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, as `hopwalk train` writes them.", show_default=False)],
    host: Annotated[str, typer.Option(help="The address to listen at; the network can reach any but loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="HOPWALK_TOKEN", help="Ask clients for this token. Better in the environment.", show_default=False),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that leads to this server, e.g. of a proxy.", show_default=False)
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take.")] = 30.0,
    waiting: Annotated[int, typer.Option(min=1, help="How many questions may wait; more are told to come again.")] = 256,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of a matrix product; as many as there are cores if not said.", show_default=False),
    ] = None,
) -> None:
    """Serve walkers on a page and as a JSON API, until Ctrl-C. Only this machine can connect, unless --host says otherwise.

    Examples:

    - `hopwalk serve runs/umls`

    - `hopwalk serve runs/umls runs/kinship --port 0`

    - `HOPWALK_TOKEN=… hopwalk serve runs/umls --host 0.0.0.0 --allow-host walks.example.org`
    """
    from hopwalk.errors import MissingPackageError

    # Read when torch is first imported: threads that wait for each other sleep, and do not keep others from the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from hopwalk.web.limits import Limits
        from hopwalk.web.server import is_loopback
        from hopwalk.web.server import serve as serve_runs
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise MissingPackageError(error.name, "`hopwalk serve`") from None

    if not is_loopback(host):
        who = "whoever has the token" if token else "anybody there, without a token (--token)"
        print_text(
            printable(f"warning: {host} can be reached from the network, by {who}. Requests are not encrypted."), to_stderr=True
        )

    def announce(address: str) -> None:
        asks = "; it asks for the token" if token else ""
        print_text(f"hopwalk serves {len(runs)} run{'s' if len(runs) > 1 else ''} at {address}{asks}\nCtrl-C stops it")
        sys.stdout.flush()  # whoever started it may wait for the address

    serve_runs(
        runs,
        host=host,
        port=port,
        token=token,
        hosts=allow_host or (),
        limits=Limits(seconds=timeout, waiting=waiting),
        threads=threads,
        announce=announce,
    )
    print_text("stopped")
