"""The rate limit of token reviews and subject access reviews.

Upstream: the clients of --authentication-kubeconfig and --authorization-kubeconfig
each send 200 requests a second with a burst of 400.
"""

from typing import Final

from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.clock import Clock

_QPS: Final = 200.0
_BURST: Final = 400
_MAX_WAITING: Final = 200
"""The most reviews that may wait: the last of them waits one second."""


class TooManyReviews(Exception):  # noqa: N818 - an answer, not an error
    """Too many reviews already wait, so this one is not sent (429)."""


class ReviewLimiter(RequestLimiter):
    """Allows 400 reviews at once, then 200 a second, in the order of their arrival.

    At most 200 reviews wait. A cancelled review takes no token, so clients that send
    requests and disconnect do not delay other clients.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock."""
        super().__init__(_QPS, _BURST, clock)
        self._reviews = 0

    async def acquire(self) -> float:
        """Wait until a review may be sent; return the seconds of the wait.

        Raises TooManyReviews at once if 200 wait already.
        """
        if self._reviews >= _MAX_WAITING:
            msg = f"{_MAX_WAITING} reviews wait for the API server, try again later"
            raise TooManyReviews(msg)
        self._reviews += 1
        try:
            return await super().acquire()
        finally:
            self._reviews -= 1
