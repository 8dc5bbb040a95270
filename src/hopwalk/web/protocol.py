"""uvicorn's server with what it lacks: deadlines for headers and for reading responses, caps on connections, an orderly end.

When it is told to stop, it has as long as a request may take, and `SECONDS_TO_CLOSE`: then what is still open is cut off.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hopwalk.web.limits import Limits, most_connections
from hopwalk.web.middleware import RequestMiddleware

SECONDS_TO_CLOSE = 5.0  # for the client to read the rest of a response
SECONDS_BETWEEN_LOGS = 10.0
GRACE_SECONDS = 1.0  # so that a request which has taken too long is told so before its connection is closed
SECONDS_TO_REFUSE = 0.5  # when the server stops: requests on open connections get a 503, not a closed connection
logger = logging.getLogger("hopwalk.web")


def protocol_with(limits: Limits) -> type[H11Protocol]:
    """The protocol of a connection, with these limits."""
    most = most_connections(limits)

    class LimitedProtocol(H11Protocol):
        """A connection that is refused if there are too many, and cut off if a client is too slow to send headers or to read."""

        deadline: asyncio.TimerHandle | None = None
        reading_deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Refuse the connection if there are too many of all clients or of this address; else wait for headers."""
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # so that we are told of any byte that the client has not taken
            address = self.client[0] if self.client else ""
            clients = [getattr(other, "client", None) for other in self.connections]
            of_address = sum(bool(client and client[0] == address) for client in clients)
            if len(self.connections) > most or of_address > limits.connections_per_address:
                self.refuse(503, "too_many_connections", "There are too many connections.")
                return
            self.await_headers()

        def data_received(self, data: bytes) -> None:
            """Take bytes; the deadline stands until the headers are whole."""
            if self.transport.is_closing():
                return
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self.cancel_deadline()
            elif self.deadline is None and self.timeout_keep_alive_task is None:
                self.await_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the connection."""
            self.cancel_deadline()
            self._cancel_reading_deadline()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            """Wait for the client to read what it was sent, but not for good."""
            super().pause_writing()
            self.reading_deadline = self.loop.call_later(limits.seconds, self.transport.abort)

        def resume_writing(self) -> None:
            """Go on: the client has read all."""
            self._cancel_reading_deadline()
            super().resume_writing()

        def _cancel_reading_deadline(self) -> None:
            if self.reading_deadline is not None:
                self.reading_deadline.cancel()
                self.reading_deadline = None

        def await_headers(self) -> None:
            self.deadline = self.loop.call_later(limits.header_seconds, self.end_slow_request)

        def cancel_deadline(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def end_slow_request(self) -> None:
            self.refuse(408, "too_slow", f"The headers did not arrive within {limits.header_seconds:g} seconds.")

        def refuse(self, status: int, code: str, message: str) -> None:
            """Answer with a problem and close, also if the client does not read it."""
            problem: dict[str, Any] = {"code": code, "message": message, "remedy": "", "field": None, "suggestions": []}
            body = json.dumps({"error": problem}).encode()
            self.transport.write(
                f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                "Retry-After: 1\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            self.transport.close()
            self.loop.call_later(SECONDS_TO_CLOSE, self.transport.abort)

    return LimitedProtocol


class GracefulServer(uvicorn.Server):
    """A server that, when it is told to stop, answers what it has accepted, and refuses new requests with 503 until then."""

    def __init__(self, config: uvicorn.Config, app: Any, seconds: float) -> None:
        super().__init__(config)
        self._app, self._seconds, self._last_log = app, seconds, -SECONDS_BETWEEN_LOGS

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen. What the event loop reports, such as having no more files, is logged now and then."""
        asyncio.get_running_loop().set_exception_handler(self._log)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the requests under way, and for a moment refuse new ones; then close, and cut off who does not let go."""
        if isinstance(self._app, RequestMiddleware):
            self._app.is_stopping = True
        accepted, start = set(self.server_state.tasks), time.monotonic()
        while not self.force_exit:
            is_answering = any(not task.done() for task in accepted) and time.monotonic() < start + self._seconds + GRACE_SECONDS
            is_refusing = bool(self.server_state.connections) and time.monotonic() < start + SECONDS_TO_REFUSE
            if not (is_answering or is_refusing):
                break
            await asyncio.sleep(0.02)
        cutting = asyncio.get_running_loop().call_later(SECONDS_TO_CLOSE, self._cut_off)
        await super().shutdown(sockets)
        cutting.cancel()

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()

    def _log(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if time.monotonic() - self._last_log >= SECONDS_BETWEEN_LOGS:
            self._last_log = time.monotonic()
            logger.warning("%s: %s", context.get("message"), context.get("exception"))
