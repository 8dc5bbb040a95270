"""Middleware of the app: checks of the Host header and of sizes, security headers, and the count of requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Iterable, MutableMapping
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hopwalk.web.limits import MOST_BODY_BYTES, MOST_URL_BYTES
from hopwalk.web.metrics import Metrics
from hopwalk.web.problems import RequestError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
logger = logging.getLogger("hopwalk.web")


class RequestMiddleware:
    """Refuse requests for other hosts and requests that are too large; add the security headers to every response.

    A hostile web page can make its own host name resolve to this machine (DNS rebinding) and then read the responses. That name
    is in the Host header, so only IP addresses, `localhost` and the names in `hosts` are accepted there.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], metrics: Metrics, seconds: float) -> None:
        self._app, self._metrics, self._seconds = app, metrics, seconds
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self.is_stopping = False  # new requests are refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:  # the app has no web sockets
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = perf_counter(), 0
        is_api = scope["path"].startswith(("/api/", "/metrics"))
        caching = "no-store" if is_api else "no-cache"

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = HEADERS | {"Cache-Control": caching} | ({"Connection": "close"} if self.is_stopping else {})
                message["headers"] = [*message["headers"], *((key.lower().encode(), added[key].encode()) for key in added)]
            await send(message)

        try:
            self._check(scope)
            body = await self._body(receive)
            await self._app(scope, _replayed(body, receive), send_with_headers)
        except RequestError as error:
            await error.response()(scope, receive, send_with_headers)
        except _GoneError:
            status = 499
        except asyncio.CancelledError:
            if not self.is_stopping:
                raise
            status = 503  # the server cannot wait any longer
        except Exception:  # the client got a problem; the log has the traceback
            logger.exception("a request failed")
        endpoint = scope.get("endpoint")
        self._metrics.request(getattr(endpoint, "__name__", "other"), status or 500, perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > MOST_URL_BYTES:
            raise RequestError(414, "url_too_long", f"The address is longer than {MOST_URL_BYTES:,} bytes.")
        if not scope["path"].startswith("/"):  # else the router would send the client elsewhere
            raise RequestError(400, "bad_request", "The address does not begin with a slash.")
        names = [name for name, _ in scope["headers"]]
        if b"content-length" in names and b"transfer-encoding" in names:  # a proxy may have read another body
            raise RequestError(400, "bad_request", "The request has both Content-Length and Transfer-Encoding.")
        if self.is_stopping:
            raise RequestError(503, "stopping", "The server is stopping.", remedy="Try again in a second.", retry=True)
        name = host_name(_headers(scope).get(b"host", b"").decode("latin-1"))
        if names.count(b"host") != 1 or (name not in self._hosts and not _is_address(name)):
            remedy = "If it should be one, start the server with this name as an allowed host."
            raise RequestError(400, "unknown_host", "The Host header is not a name of this server.", remedy=remedy)

    async def _body(self, receive: Receive) -> bytes:
        """The whole body; an error if it is too large, or does not arrive in time.

        A body that is too large is still read for a while: a client that is cut off while sending does not read the response.
        """
        body, size, has_more = b"", 0, True
        try:
            async with asyncio.timeout(self._seconds):
                while has_more and size <= 4 * MOST_BODY_BYTES:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    size += len(message.get("body", b""))
                    body = body + message.get("body", b"") if size <= MOST_BODY_BYTES else b""
                    has_more = message.get("more_body", False)
        except TimeoutError:
            raise RequestError(408, "too_slow", f"The request did not arrive within {self._seconds:g} seconds.") from None
        if size > MOST_BODY_BYTES:
            raise RequestError(413, "body_too_large", f"The body is larger than {MOST_BODY_BYTES:,} bytes.")
        return body


class _GoneError(Exception):
    """The client has disconnected before its request was complete."""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A receiver of the body that was read already, and then of further messages."""
    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _headers(scope: Scope) -> dict[bytes, bytes]:
    return dict(scope["headers"])


def host_name(host: str) -> str:
    """The name or address in a Host header, without the port.

    >>> host_name("Example.org:8000"), host_name("[::1]:8000"), host_name("127.0.0.1"), host_name("[::1].evil.com")
    ('example.org', '::1', '127.0.0.1', '')
    """
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::\d*)?", host)
    return (found[1] or found[2] or "").rstrip(".").lower() if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
