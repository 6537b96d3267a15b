"""The fence: this process sends a write only if it owns the key of the sync.

Every write is part of the sync of a key, or belongs to no key (an event, a token).
Before each write the fence asks the ownership for how many seconds this process may
still write for that key.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Final, Protocol

from controller_manager.client.rest.errors import NotSent, RequestTimeout
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.client.rest.transport import (
    READS,
    Request,
    Response,
    Stream,
    Transport,
)

from .leader_election import LeaderElector


class Ownership(Protocol):
    """Knows the keys that this process may write for.

    Two processes must never own one key at the same time. Therefore the answer is a
    time: it ends before another process can own the key, even if this process has
    lost its connection to the server.
    """

    def seconds_left(self, key: str) -> float:
        """Return for how many seconds from now this process may write for `key`.

        0 means that this process does not own `key`, infinity that no other process
        can ever own it. The empty key stands for writes that belong to no key. This
        is called before each write, and once a second while a write is in progress,
        so it must be cheap.
        """


class PermanentOwnership:
    """Owns every key for ever: no other process writes (``--leader-elect=false``)."""

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return infinity."""
        return math.inf


class LeaseOwnership:
    """Owns every key while this process holds the lease, and no key otherwise.

    Upstream has only this form: the leader does everything. The elector may run in
    another thread: only the time until which it leads is read.
    """

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def seconds_left(self, key: str) -> float:  # noqa: ARG002 - all keys are alike
        """Return for how many seconds this process leads if no renewal succeeds."""
        return self._elector.seconds_left()


_LEAST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 1.0
"""Seconds between two checks of the ownership, at least and at most."""


class NotLeading(NotSent):
    """A write that was not sent, because this process does not own its key."""


class _WhileOwned:
    """Context that raises TimeoutError as soon as this process loses the key.

    It checks the ownership again and again, because the lease is usually renewed
    while a write is in progress.
    """

    def __init__(self, seconds_left: Callable[[], float]) -> None:
        self._seconds_left = seconds_left
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._check()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._seconds_left()
        if left > 0:
            # The loop's time stands still while the machine is suspended.
            delay = min(max(left, _LEAST_WAIT), _LONGEST_WAIT)
            self._timer = loop.call_later(delay, self._check)
        else:
            self._timeout.reschedule(loop.time())


class FencedTransport:
    """Sends a write only while this process owns the key of the sync.

    The ownership is checked before anything else, and again at the moment at which the
    bytes are written: meanwhile a TLS handshake may have taken long, or the process was
    suspended. When the ownership ends, a write in progress is cancelled. So no write of
    this process is in progress when another process starts to write for the key. Each
    renewal of the lease gives a write more time: it may last until its own timeout,
    which is much longer than one lease.
    """

    def __init__(self, inner: Transport, ownership: Ownership) -> None:
        self._inner = inner
        self.ownership = ownership

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._inner.host

    async def request(self, request: Request) -> Response:
        """Send; raises NotLeading for a write that may not be sent."""
        if request.method in READS:
            return await self._inner.request(request)
        key = SYNC_KEY.get()
        if self._seconds_left(request, key) == math.inf:
            return await self._inner.request(request)
        check = partial(self._seconds_left, request, key)
        try:
            # The time includes what the transport does first (tokens, plugins).
            async with _WhileOwned(partial(self.ownership.seconds_left, key)):
                return await self._inner.request(replace(request, before_write=check))
        except TimeoutError:
            msg = f"{request.method} {request.path}: no answer while this process led"
            raise RequestTimeout(msg) from None

    def _seconds_left(self, request: Request, key: str) -> float:
        """Return for how many seconds a write may last; raises NotLeading for none."""
        left = self.ownership.seconds_left(key)
        if left <= 0:
            msg = (
                f"{request.method} {request.path}: not sent, this process does not lead"
            )
            raise NotLeading(msg)
        return left

    async def stream(self, request: Request) -> Stream:
        """Send a watch without a check: it writes nothing."""
        return await self._inner.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()
