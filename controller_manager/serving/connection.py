"""One connection of the HTTPS server, which may not wait for ever.

aiohttp limits only how long a connection may be idle between two requests. A
peer that sends one byte every few seconds, or reads no answer, would keep its
connection, and one of the process's files, for as long as it likes.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web

from controller_manager.observability.logs import Logger
from controller_manager.serving.limits import ConnectionLimits


class QuietLogger:
    """Takes what the HTTP library has to say of bad requests, for ``-v=4``."""

    def __init__(self, logger: Logger) -> None:
        """Take the logger that gets it."""
        self._logger = logger

    def debug(self, message: str, *args: object, **_: object) -> None:
        """Log at level 4."""
        self._logger.v(4).info("HTTP server", what=message % args if args else message)

    info = warning = error = exception = debug


class Connection(web.RequestHandler):
    """Speaks HTTP with one peer, and closes the connection when it is slow.

    Whoever handles a request calls `begin` first. From then on until the answer
    is written there is no limit, unless the peer takes nothing of it. Until `admit`
    is called, too, the connection may be closed for another one: anybody can send
    requests that wait for the API server's word. At every other time the connection
    waits for the peer, and a timer runs:

        handshake → header → (request) → idle → header → (request) → idle …

    A byte more of a header does not set its timer back.
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
        "waits_since",
    )

    def __init__(
        self,
        server: web.Server,
        limits: ConnectionLimits,
        closed: Callable[["Connection"], None],
        logger: Logger,
    ) -> None:
        """Take aiohttp's server, and what to call once the connection is closed."""
        options: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            # Never before the timers here: it cuts a header that is coming, too.
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
        self.waits_since: float | None = self._loop.time()
        """Since when it waits for the peer, or for leave to answer (the loop's
        time); `None` while it answers."""

    def begin(self) -> None:
        """Note that a request has come and is being handled."""
        self._handling = True
        self._idle = False
        self._received = 0
        if not self._stalled:
            self._stop_waiting()
        self.waits_since = self._loop.time()

    def admit(self) -> None:
        """Note that whoever sent the request may have it answered."""
        if not self._stalled:
            self.waits_since = None

    def abort(self) -> None:
        """Close the connection without a word to the peer."""
        if self._link is not None:
            self._link.abort()

    @property
    def is_made(self) -> bool:
        """Whether the handshake is over."""
        return self._link is not None

    # What asyncio and aiohttp call.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._link = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        self._wait(self._limits.header)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give up all that belongs to the connection."""
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
        """Wait for the peer to take some of the answer."""
        super().pause_writing()
        self._stalled = True
        self._wait(self._limits.stalled)

    def resume_writing(self) -> None:
        """Note that the peer has taken some of it."""
        super().resume_writing()
        self._stalled = False
        if self._handling:
            self._stop_waiting()
        else:
            self._rest()

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
                self._rest()

    # Waiting.

    def _rest(self) -> None:
        self._idle = True
        self._wait(self._limits.idle)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        if self._link is not None:
            self.waits_since = self._loop.time()
            self._timer = self._loop.call_later(seconds, self.abort)

    def _stop_waiting(self) -> None:
        self.waits_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
