"""The MCP server over streamable HTTP, on this machine only and with a token, behind the limits of the web server."""

from __future__ import annotations

import hmac
import secrets
import signal
from collections.abc import Callable
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from hopwalk import __version__
from hopwalk.errors import SettingsError
from hopwalk.mcp.limits import SECONDS
from hopwalk.mcp.server import ToolServer
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.web.limits import MOST_BODY_BYTES, Limits
from hopwalk.web.metrics import Metrics
from hopwalk.web.middleware import RequestMiddleware
from hopwalk.web.problems import RequestError
from hopwalk.web.server import address_of, bound_socket, is_loopback, refuse_unsendable, server_of

PATH = "/mcp"
MOST_SESSIONS = 100


def serve_http(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8001,
    token: str | None = None,
    announce: Callable[[str, str], None] = lambda *_: None,
) -> None:
    """Serve a run over streamable HTTP until Ctrl-C or SIGTERM; `announce` is called with the address and the token.

    Without a token, a random one is made. Hosts other than loopback are refused: requests are not encrypted.
    """
    if not is_loopback(host):
        remedy = "Use 127.0.0.1 or localhost, and a tunnel or a proxy with TLS for others."
        raise SettingsError(f"{host} is not an address of this machine alone", remedy=remedy)
    refuse_unsendable(token)
    reasoner, made = Reasoner.load(run), token or secrets.token_urlsafe()
    listening, limits = bound_socket(host, port), Limits(seconds=SECONDS)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: None)  # uvicorn stops by its own handlers, then raises the signal again
    announce(f"{address_of(listening).rstrip('/')}{PATH}", made)
    server_of(create_app(reasoner, made, limits), limits).run(sockets=[listening])


def create_app(reasoner: Reasoner, token: str, limits: Limits) -> ASGIApp:
    """The SDK's app behind checks of token, Host and sizes. The SDK checks Host and Origin once more."""
    tools = ToolServer(reasoner, is_one_connection=False)
    tools.warm_up()
    app = tools.server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, max_request_body_size=MOST_BODY_BYTES, max_sessions=MOST_SESSIONS
    )
    return RequestMiddleware(_Gate(app, token), hosts=(), metrics=Metrics(__version__), seconds=limits.seconds)


class _Gate:
    """Refuse requests without the token, and GET: the server sends nothing that is not an answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                remedy = "Send it in the header: Authorization: Bearer TOKEN"
                raise RequestError(401, "unauthorized", "The token is missing or wrong.", remedy=remedy)
            if scope["method"] == "GET":
                raise RequestError(405, "method_not_allowed", "This server opens no streams of its own.")
        await self._app(scope, receive, send)
