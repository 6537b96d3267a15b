"""The client-side rate limit (``--kube-api-qps``, ``--kube-api-burst``)."""

import asyncio

from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket


class RequestLimiter:
    """Allows `burst` requests at once, then `qps` requests a second.

    Requests are sent in the order in which they arrived. A `qps` of 0 or less means
    no limit, as in client-go.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Take the rate, the burst and the clock."""
        self._bucket = TokenBucket(qps, burst, clock) if qps > 0 else None

    async def acquire(self) -> float:
        """Wait until a request may be sent; return the seconds of the wait."""
        if self._bucket is None:
            return 0.0
        delay = self._bucket.reserve()
        if delay > 0:
            await asyncio.sleep(delay)
        return delay
