"""The client-side rate limit (``--kube-api-qps``, ``--kube-api-burst``)."""

import asyncio

from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket


class RequestLimiter:
    """Lets `burst` requests through at once, then `qps` a second.

    Requests are let through in the order in which they came. A `qps` of 0 or
    less limits nothing, as in client-go.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Take the rate, the burst and the clock."""
        self._bucket = TokenBucket(qps, burst, clock) if qps > 0 else None

    async def acquire(self) -> float:
        """Wait for leave to send; return the seconds that it took."""
        if self._bucket is None:
            return 0.0
        delay = self._bucket.reserve()
        if delay > 0:
            await asyncio.sleep(delay)
        return delay
