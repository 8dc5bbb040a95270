"""The server process: load the runs, bind the port, and answer until a signal stops it."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from hopwalk.errors import SettingsError
from hopwalk.web.app import create_app
from hopwalk.web.limits import MOST_HEADER_BYTES, Limits
from hopwalk.web.protocol import SECONDS_TO_CLOSE, GracefulServer, protocol_with
from hopwalk.web.runs import load_runs


def serve(
    folders: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve run folders until Ctrl-C or SIGTERM; `announce` is called with the address once clients can connect.

    Folders are loaded, and refused if they are damaged, before the port is bound. `hosts` are further host names of this server.
    """
    limits = limits or Limits()
    refuse_unsendable(token)
    runs = load_runs(folders)
    for run in runs.values():
        run.warm_up()
    listening = bound_socket(host, port)
    sys.setswitchinterval(0.001)  # the engine's thread yields more often, so that a request need not wait for a batch
    app = create_app(runs, limits=limits, token=token, hosts=[host, *hosts])
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: None)  # uvicorn stops by its own handlers, then raises the signal again
    announce(address_of(listening))
    server_of(app, limits).run(sockets=[listening])


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """The HTTP server of an app: it logs no requests, and finishes those under way before it stops."""
    config = uvicorn.Config(
        app,
        http=protocol_with(limits),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_graceful_shutdown=int(2 * SECONDS_TO_CLOSE),  # after the answers: see GracefulServer
    )
    return GracefulServer(config, app, limits.seconds)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server bound to the host.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(listening: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on the first usable address of the host."""
    problem = "no address"
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        ):
            try:
                return _listening(socket.socket(family, kind, protocol), address)
            except OSError as error:
                problem = error.strerror or str(error)
    except (OSError, UnicodeError) as error:  # the host is unknown
        problem = getattr(error, "strerror", None) or str(error)
    remedy = "Choose another host or port; port 0 takes any free port."
    raise SettingsError(f"the address {host} port {port} cannot be used ({problem})", remedy=remedy)


def _listening(made: socket.socket, address: Any) -> socket.socket:
    """The socket, bound and listening. It must have been made for TCP by name, or asyncio would not set TCP_NODELAY."""
    try:
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that a server can restart at once
        made.bind(address)
        made.listen(2048)
    except OSError:
        made.close()
        raise
    return made


def refuse_unsendable(token: str | None) -> None:
    """An error if a token cannot be the part of an HTTP header."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        remedy = "Use letters and digits, e.g. from: python -c 'import secrets; print(secrets.token_urlsafe())'"
        raise SettingsError("the token is empty, or has characters that an HTTP header cannot hold", remedy=remedy)
