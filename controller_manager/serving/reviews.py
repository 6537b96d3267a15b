"""How often the API server is asked who somebody is, and what they may do.

Upstream: --authentication-kubeconfig and --authorization-kubeconfig each get a
client with 200 requests a second and a burst of 400.
"""

import asyncio
from typing import Final

from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket

_QPS: Final = 200.0
_BURST: Final = 400
_MOST_WAITING: Final = 200
"""Reviews that may wait: the last of them waits one second."""


class TooManyReviews(Exception):  # noqa: N818 - an answer, not an error
    """So many reviews wait already that this one is not sent (429)."""


class ReviewLimiter(RequestLimiter):
    """Lets 400 reviews through at once, then 200 a second, in their order.

    At most 200 wait. One that is given up takes nothing from the others, so
    callers that ask and leave cannot delay those that stay; the limiter that
    clients have otherwise counts what was given up.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock."""
        super().__init__(_QPS, _BURST, clock)
        self._clock = clock
        self._reviews = TokenBucket(_QPS, _BURST, clock)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def acquire(self) -> float:
        """Wait for leave to send; return the seconds that it took.

        Raises TooManyReviews at once if 200 wait already.
        """
        if self._waiting >= _MOST_WAITING:
            msg = f"{_MOST_WAITING} reviews wait for the API server, try again later"
            raise TooManyReviews(msg)
        started = self._clock.monotonic()
        self._waiting += 1
        try:
            async with self._turn:
                while not self._reviews.try_take():  # noqa: ASYNC110 - time fills it
                    await asyncio.sleep(1 / _QPS)
        finally:
            self._waiting -= 1
        return self._clock.monotonic() - started
