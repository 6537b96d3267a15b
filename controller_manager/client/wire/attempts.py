"""One attempt to send a request over aiohttp, at most once and only if allowed.

aiohttp sends PUT, DELETE and GET a second time when a connection that was in use before
breaks without an answer, and does not report it. The first write may have been applied,
so only the caller can decide what comes next. client-go does the same: Go's net/http
repeats only reads, and requests of which no byte was written (Go 1.24, transport.go,
shouldRetryRequest).

Between the decision to write and the first byte of the write lie the look-up of the
name, the connection, the TLS handshake, and a turn of the event loop for the body.
`Request.before_write` is called after each of them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.payload import BytesPayload
from aiohttp.tracing import Trace

from controller_manager.client.errors import NotSent
from controller_manager.client.transport import READS, Request
from controller_manager.client.wire.dialing import CONNECT_TIMEOUT


class Attempt:
    """One attempt to send one request."""

    def __init__(self, request: Request) -> None:
        """Take the request."""
        self.request = request
        self._has_begun = False
        self._transport: asyncio.Transport | None = None
        self.refusal: NotSent | None = None
        """The reason why the request was not sent, if its `before_write` refused it."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the attempt that connections are opened for while entered.

        An attempt to write that fails leaves nothing in the buffer of its connection:
        otherwise the event loop would send it later.
        """
        token = _ATTEMPT.set(self)
        try:
            yield
        except BaseException:
            if self._transport is not None and self.request.method not in READS:
                self._transport.abort()
            raise
        finally:
            _ATTEMPT.reset(token)

    @property
    def may_be_sent(self) -> bool:
        """True if the request has a connection: some of it may have been written."""
        return self._transport is not None

    def body(self) -> BytesPayload | None:
        """Return the body, which calls `before_write` before it is written."""
        content = self.request.body
        return None if content is None else _Body(content, self)

    def begin(self) -> None:
        """Begin; raises ServerDisconnectedError if aiohttp repeats the request."""
        if self._has_begun:
            msg = "the connection broke before an answer came"
            raise aiohttp.ServerDisconnectedError(msg)
        self._has_begun = True

    def check(self) -> None:
        """Call `before_write`; raises NotSent if it refuses the request."""
        try:
            self.request.before_write()
        except NotSent as refusal:
            self.refusal = refusal
            raise

    def send_on(self, connection: Connection) -> None:
        """Take the connection to send on."""
        self._transport = connection.transport


_ATTEMPT: Final[ContextVar[Attempt | None]] = ContextVar("attempt", default=None)
"""The attempt of the task; aiohttp has no other way to tell a connector of it."""


class Connector(aiohttp.TCPConnector):
    """Connects at most once for each attempt, and only as long as it may be sent."""

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        """Return a connection; aiohttp writes the headers in the same turn.

        Raises NotSent if the request must not be sent any more.
        """
        attempt = _ATTEMPT.get()
        if attempt is None:
            return await super().connect(req, traces, timeout)
        attempt.begin()
        # aiohttp has no limit for the answer of a proxy to CONNECT.
        async with asyncio.timeout(CONNECT_TIMEOUT):
            connection = await super().connect(req, traces, timeout)
        try:
            attempt.check()
        except BaseException:
            connection.release()  # nothing was written on it
            raise
        attempt.send_on(connection)
        return connection


class _Body(BytesPayload):
    """A body that is written only if its attempt may still be sent.

    aiohttp writes it in a task of its own, before Python 3.12 a turn of the loop later.
    """

    def __init__(self, content: bytes, attempt: Attempt) -> None:
        super().__init__(content)
        self._attempt = attempt

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._attempt.check()
        await super().write(writer)

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._attempt.check()
        await super().write_with_length(writer, content_length)
