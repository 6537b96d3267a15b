"""The connections to one server, and the times at which they give up.

One rule for all: a connection is used again if its last answer came whole, within the
time of its request. Behind a proxy that ends TCP, a connection to a dead API server
looks alive: the proxy acknowledges each byte, and no answer comes. So after a request
without an answer, the pool closes all idle connections, and those in use at that time
are not used again. A watch that falls silent has had its answer, and perhaps nothing
has changed: it closes its own connection only.
"""

import asyncio
import math
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
        """Take the running loop."""
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
        """Close the connections whose time has passed."""
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
