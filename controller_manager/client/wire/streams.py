"""An answer that is read piece by piece, as that to a watch."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from controller_manager.client.rest.errors import TransportError

from .answers import Head, MalformedAnswer
from .compression import GzipContent, gzip_content
from .connection import Connection, ConnectionBroken
from .pool import Pool

_MOST_WAITING: Final = 1 << 20
"""The bytes that may wait for a slow reader before the server has to wait."""


class ConnectionStream:
    """The answer to one request on a connection of its own.

    `idle` is the time in seconds that each wait for data may take. `failed` returns the
    error to raise when the rest of the answer does not come.
    """

    def __init__(
        self,
        pool: Pool,
        connection: Connection,
        idle: float,
        failed: Callable[[Connection, BaseException], TransportError],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = pool
        self._connection = connection
        self._idle = idle
        self._failed = failed
        self._parts: list[bytes] = []
        self._waiting = 0
        self._is_paused = False
        self._is_whole = False
        self._error: Exception | None = None
        self._compressed: GzipContent | None = None
        self._event: asyncio.Future[None] | None = None
        self._head: Head | None = None

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._known_head().status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""
        return self._known_head().headers

    def _known_head(self) -> Head:
        assert self._head is not None  # noqa: S101 - callers get the stream after it
        return self._head

    async def begin(self, deadline: float) -> None:
        """Wait for the head; raises what ended the connection."""
        self._pool.set_deadline(self._connection, deadline)
        while self._head is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        self._wait_for_ever()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body as they arrive; see `Stream.chunks`."""
        compressed = self._compressed
        try:
            while data := await self._received():
                if compressed is None:
                    yield data
                    continue
                for piece in compressed.pieces(data):
                    yield piece
            if compressed is not None:
                compressed.end()
        except (ConnectionBroken, MalformedAnswer, OSError) as error:
            raise self._failed(self._connection, error) from error

    async def _received(self) -> bytes:
        """Return the bytes that have arrived; none after the last ones."""
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._is_whole:
                return b""
            # Only the wait counts: a slow reader does not make the server silent.
            until = self._loop.time() + self._idle
            self._pool.set_deadline(self._connection, until)
            await self._wait()
            self._wait_for_ever()
        return self._taken()

    def _wait_for_ever(self) -> None:
        """Take the deadline from the connection, unless it carries the answer no more.

        It may carry another request by now, whose deadline it has.
        """
        if self._connection.carries(self):
            self._connection.deadline = math.inf

    def _taken(self) -> bytes:
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._waiting = 0
        self._read_on()
        return data

    def _read_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._connection.resume_reading()

    async def _wait(self) -> None:
        self._event = self._loop.create_future()
        try:
            await self._event
        finally:
            self._event = None

    def _wake(self) -> None:
        if self._event is not None and not self._event.done():
            self._event.set_result(None)

    async def close(self) -> None:
        """Close the stream; its connection, too, unless the answer is whole."""
        if not self._is_whole:
            self._connection.abort()
            self._is_whole = True
            self._wake()

    # Called by the connection

    def head_received(self, head: Head) -> None:
        """Take the head."""
        self._compressed = gzip_content(head.headers)
        self._head = head
        self._wake()

    def data_received(self, data: bytes) -> None:
        """Take the next part of the body."""
        self._parts.append(data)
        self._waiting += len(data)
        if self._waiting > _MOST_WAITING and not self._is_paused:
            self._is_paused = True
            self._connection.pause_reading()
        self._wake()

    def ended(self) -> None:
        """Learn that the body is whole."""
        self._is_whole = True
        self._read_on()  # the connection may carry another request now
        self._wake()

    def failed(self, error: Exception) -> None:
        """Learn that the rest of the answer will not come."""
        self._error = error
        self._wake()
