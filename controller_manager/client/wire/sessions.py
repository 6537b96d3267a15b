"""The HTTP sessions of a transport: a new one leaves suspect connections behind.

Behind a proxy that ends TCP, a connection to a dead API server looks alive: the proxy
acknowledges each byte, and no answer comes. If one request gets no answer, the idle
connections of its pool are probably dead, too, and each of them would cost another
request its timeout. aiohttp cannot close idle connections alone, so a new session with
its own pool takes over, and the old one is closed after its last request.
"""

from collections.abc import Callable
from dataclasses import dataclass

import aiohttp


@dataclass(eq=False, slots=True)
class Session:
    """An HTTP session with its own pool of connections, and its use."""

    http: aiohttp.ClientSession
    users: int = 0
    """The number of requests and streams that use the session."""


class Sessions:
    """The session for new requests, and the older ones that are still in use."""

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        """Take the function that makes a session; make the first one."""
        self._make = make
        self._current = Session(make())
        self._retired: set[Session] = set()
        self._is_closed = False

    def take(self) -> Session:
        """Return the session for a new request; `give_back` must follow."""
        self._current.users += 1
        return self._current

    async def give_back(self, session: Session) -> None:
        """End the use of a session; close it if it was replaced and has no user."""
        session.users -= 1
        if session in self._retired and not session.users:
            self._retired.discard(session)
            await session.http.close()

    def replace(self, session: Session) -> None:
        """Leave the idle connections of a session behind; its caller still uses it.

        Nothing happens if the session was replaced
        before: many requests may get no answer at the same time.
        """
        if session is self._current and not self._is_closed:
            self._retired.add(session)
            self._current = Session(self._make())

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for session in (*self._retired, self._current):
            await session.http.close()
