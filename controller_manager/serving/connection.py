"""One connection of the HTTPS server, with timeouts for a slow peer.

aiohttp limits only the idle time between two requests. A peer that sends one byte
every few seconds, or does not read the answer, could keep its connection, and a file
descriptor of the process, for ever.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web

from controller_manager.observability.logs import Logger
from controller_manager.serving.answers import refusal
from controller_manager.serving.limits import ConnectionLimits


class QuietLogger:
    """Logs messages of the HTTP library about bad requests only with ``-v=4``."""

    def __init__(self, logger: Logger) -> None:
        """Take the logger to write to."""
        self._logger = logger

    def debug(self, message: str, *args: object, **_: object) -> None:
        """Log at level 4."""
        self._logger.v(4).info("HTTP server", what=message % args if args else message)

    info = warning = error = exception = debug


class Connection(web.RequestHandler):
    """Serves HTTP to one peer, and closes the connection if the peer is slow.

    The handler of a request calls `begin` first. From then on until the answer is
    written no timeout applies, unless the peer does not read the answer. At all other
    times the connection waits for the peer, and a timer runs:

        handshake → header → (request) → idle → header → (request) → idle …

    The timer of a header is not restarted when another byte of it arrives.

    The server may close a connection that waits for its peer in favour of a new one.
    This also applies between `begin` and `admit`, because any client can send requests
    that wait for a review by the API server.
    """

    __slots__ = (
        "_closed",
        "_handling",
        "_idle",
        "_limits",
        "_link",
        "_received",
        "_stalled",
        "_timer",
        "waiting_since",
    )

    def __init__(
        self,
        server: web.Server,
        limits: ConnectionLimits,
        closed: Callable[["Connection"], None],
        logger: Logger,
    ) -> None:
        """Take aiohttp's server, and `closed`, which is called when it is closed."""
        options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            # Longer than the timers here: it would also cut a header that arrives.
            "keepalive_timeout": limits.idle + limits.header,
            "lingering_time": limits.body,
            "logger": QuietLogger(logger),
        }
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._limits = limits
        self._closed = closed
        self._link: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handling = False
        self._idle = False
        self._stalled = False
        self._received = 0
        self.waiting_since: float | None = self._loop.time()
        """When it began to wait for the peer or for a review (the loop's time);
        `None` while it answers."""

    def begin(self) -> None:
        """Record that the handling of a request begins."""
        self._handling = True
        self._idle = False
        self._received = 0
        if not self._stalled:
            self._stop_waiting()
        self.waiting_since = self._loop.time()

    def admit(self) -> None:
        """Record that the sender of the request is authorised."""
        if not self._stalled:
            self.waiting_since = None

    def abort(self) -> None:
        """Close the connection at once, without TLS closure."""
        if self._link is not None:
            self._link.abort()

    @property
    def is_made(self) -> bool:
        """True once the handshake is over."""
        return self._link is not None

    # Callbacks of asyncio and aiohttp.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._link = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        self._wait(self._limits.header)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer and release the connection."""
        self._stop_waiting()
        self._link = None
        self._closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        if self._idle:
            self._idle = False
            self._wait(self._limits.header)
        self._received += len(data)
        if self._received > self._limits.request_bytes:
            self.abort()
            return
        super().data_received(data)

    def pause_writing(self) -> None:
        """Wait until the peer reads a part of the answer."""
        super().pause_writing()
        self._stalled = True
        self._wait(self._limits.stalled)

    def resume_writing(self) -> None:
        """Record that the peer has read a part of the answer."""
        super().resume_writing()
        self._stalled = False
        if self._handling:
            self._stop_waiting()
        else:
            self._wait_for_request()

    async def finish_response(
        self,
        request: web.BaseRequest,
        resp: web.StreamResponse,
        start_time: float | None,
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer, then wait for the next request."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._handling = False
            self._received = 0
            if not self._stalled:
                self._wait_for_request()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that are no request; the text is not aiohttp's."""
        super().handle_error(request, status, exc, message)  # it logs the reason
        return refusal(status)

    # Waiting.

    def _wait_for_request(self) -> None:
        self._idle = True
        self._wait(self._limits.idle)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        if self._link is not None:
            self.waiting_since = self._loop.time()
            self._timer = self._loop.call_later(seconds, self.abort)

    def _stop_waiting(self) -> None:
        self.waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
