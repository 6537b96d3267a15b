"""The connections to one server, the requests in progress, and when they give up.

One rule for all: a connection is used again if its last answer came whole, within the
time of its request. Behind a proxy that ends TCP, a connection to a dead API server
looks alive: the proxy acknowledges each byte, and no answer comes. So after a request
without an answer, the pool closes all idle connections, and those in use at that time
are not used again. A watch that falls silent has had its answer, and perhaps nothing
has changed: it closes its own connection only.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from .connection import Connection

_KEEP_ALIVE: Final = 60.0
"""Seconds for which a connection is kept idle: API servers close it after 90."""

_LEAST_WAIT: Final = 0.001
"""Seconds between two looks at the deadlines, at least."""

_CLOSED: Final = "the transport is closed"


class Pool:
    """All connections; a timer closes those whose deadline has passed.

    There is one timer, not one for each request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: list[Connection] = []
        """The connection that was used last is at the end, and used first."""
        self._in_use: set[Connection] = set()
        self._generation = 0
        """The number of times that connections were left behind."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._is_closed = False

    def take(self, key: object, since: float = -math.inf) -> Connection | None:
        """Return an idle connection of the key, `None` if there is none.

        Its last answer must have come since a time of the loop.
        """
        now = self._loop.time()
        while self._idle:
            if self._idle[-1].deadline - _KEEP_ALIVE < since:
                return None  # the others have been idle for longer
            connection = self._idle.pop()
            if connection.key is key and connection.deadline > now:
                self._in_use.add(connection)
                return connection
            connection.abort()
        return None

    def add(self, connection: Connection) -> None:
        """Add a new connection, which is in use.

        Raises ConnectionAbortedError if the pool was closed while it was opened.
        """
        if self._is_closed:
            connection.abort()
            raise ConnectionAbortedError(_CLOSED)
        connection.generation = self._generation
        self._in_use.add(connection)

    def freed(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        if connection.generation != self._generation:
            connection.abort()
            return
        self._in_use.discard(connection)
        self._idle.append(connection)
        self.set_deadline(connection, self._loop.time() + _KEEP_ALIVE)

    def lost(self, connection: Connection) -> None:
        """Forget a connection."""
        self._in_use.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def leave_behind(self, connection: Connection) -> None:
        """Close the idle connections, because a request on one got no answer.

        Nothing happens if `connection` was left behind before: many requests may get no
        answer at the same time.
        """
        if connection.generation == self._generation:
            self._generation += 1
            while self._idle:
                self._idle.pop().abort()

    def set_deadline(self, connection: Connection, when: float) -> None:
        """Close a connection at `when`, a time of the loop, unless it is set anew."""
        connection.deadline = when
        if when < self._timer_at:
            self._set_timer(when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._check) if when < math.inf else None

    def _check(self) -> None:
        self._timer, self._timer_at = None, math.inf
        now = self._loop.time()
        late = [each for each in self._in_use if each.deadline <= now]
        for connection in late:
            connection.give_up(TimeoutError())
        for connection in [each for each in self._idle if each.deadline <= now]:
            connection.abort()
        everything = (*self._in_use, *self._idle)
        earliest = min((each.deadline for each in everything), default=math.inf)
        self._set_timer(max(earliest, now + _LEAST_WAIT))

    def close(self) -> None:
        """Close all connections, and take no new ones."""
        self._is_closed = True
        self._set_timer(math.inf)
        for connection in (*self._in_use, *self._idle):
            connection.give_up(ConnectionAbortedError(_CLOSED))


class TransportClosed(Exception):
    """The transport was closed before or during a request."""

    def __init__(self) -> None:
        super().__init__(_CLOSED)


class InProgress:
    """The requests, or parts of them, that end at once when their transport closes.

    Each runs in the task of its caller, which must not be cancelled: the caller gets an
    error instead.
    """

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._have_ended: asyncio.Event = asyncio.Event()
        self.is_closed = False

    @asynccontextmanager
    async def until(self, deadline: float) -> AsyncGenerator[asyncio.Timeout, None]:
        """End the block at `deadline`, a time of the loop, by TimeoutError.

        Raises TransportClosed if the transport closes before or while it runs.
        """
        if self.is_closed:
            raise TransportClosed
        try:
            async with asyncio.timeout_at(deadline) as limit:
                self._limits.add(limit)
                try:
                    yield limit
                finally:
                    self._limits.discard(limit)
                    if not self._limits:
                        self._have_ended.set()
        except TimeoutError as error:
            if self.is_closed:
                raise TransportClosed from error
            raise

    async def close(self) -> None:
        """End all requests, and wait until their tasks have left them."""
        self.is_closed = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(now)
        while self._limits:
            self._have_ended.clear()
            await self._have_ended.wait()
