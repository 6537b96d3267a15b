"""The end of requests in progress when their transport closes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class TransportClosed(Exception):
    """The transport was closed before or during a request."""

    def __init__(self) -> None:
        super().__init__("the transport is closed")


class InProgress:
    """The requests, or parts of them, that end at once when their transport closes.

    Each runs in the task of its caller, which must not be cancelled: the caller gets an
    error instead.
    """

    def __init__(self) -> None:
        """Begin without a request."""
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
