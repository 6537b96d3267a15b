"""The client-side rate limit (``--kube-api-qps``, ``--kube-api-burst``)."""

import asyncio
from collections import deque
from typing import Final

from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket

_LEAST_WAIT: Final = 0.001
"""The shortest wait for the next token in seconds: clocks round differently."""


class RequestLimiter:
    """Allows `burst` requests at once, then `qps` requests a second.

    Requests are sent in the order in which they arrived. A request that was cancelled
    while it waited takes no token, and one that never reached the server gives its
    token back: so after an outage no request waits for attempts that were refused. In
    client-go such attempts use up tokens. A `qps` of 0 or less means no limit.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(qps, burst, clock) if qps > 0 else None
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self) -> float:
        """Wait until a request may be sent; return the seconds of the wait."""
        if self._bucket is None or (not self._waiting and self._bucket.try_take()):
            return 0.0
        started = self._clock.monotonic()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit(self._bucket)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()
            raise
        return self._clock.monotonic() - started

    def give_back(self) -> None:
        """Return the token of a request that never reached the server."""
        if self._bucket is not None:
            self._bucket.give_back()
            self._admit(self._bucket)

    def _admit(self, bucket: TokenBucket) -> None:
        """Give the free tokens to the callers that have waited longest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            if self._waiting[0].done():  # it was cancelled
                self._waiting.popleft()
            elif bucket.try_take():
                self._waiting.popleft().set_result(None)
            else:
                delay = max(bucket.next_in(), _LEAST_WAIT)
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(delay, self._admit, bucket)
                return
