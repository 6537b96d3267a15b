"""How long to wait before trying a key again."""

import math
from typing import Final, Protocol

from controller_manager.clock import Clock

BASE_DELAY: Final = 0.005
"""Seconds before the first retry (client-go's DefaultControllerRateLimiter)."""

MAX_DELAY: Final = 120.0
"""Seconds between retries at most.

Upstream's cap is 1,000 s, which makes a replica set wait up to 16 minutes
after its quota was raised (kubernetes#98656); here it is two minutes.
"""

OVERALL_QPS: Final = 10.0
OVERALL_BURST: Final = 100
OVERALL_MAX_WAIT: Final = 5.0
"""Seconds that the overall bucket makes a key wait at most.

With a cap of two minutes 1,200 failing keys use all ten retries a second, and
a debt without bound would make healthy keys wait for hours.
"""


class RateLimiter(Protocol):
    """Decides delays, key by key."""

    def when(self, key: str) -> float:
        """Count a failure of `key`; return the seconds to wait."""

    def forget(self, key: str) -> None:
        """Stop tracking `key`: it succeeded, or nobody will retry it."""

    def failures(self, key: str) -> int:
        """Return how often `key` has failed since it was last forgotten."""


class ExponentialBackoff:
    """Doubles the delay with each failure of a key, up to a cap.

    5 ms, 10 ms, 20 ms … 81.92 s (the 15th failure), then 120 s for good.
    """

    def __init__(
        self, base_delay: float = BASE_DELAY, max_delay: float = MAX_DELAY
    ) -> None:
        """Take the first delay and the cap, in seconds."""
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._failures: dict[str, int] = {}

    def when(self, key: str) -> float:
        """Count a failure of `key`; return the seconds to wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2.0**1024 overflows; no cap needs more doublings than this.
        return min(self._base_delay * 2.0 ** min(failures, 64), self._max_delay)

    def forget(self, key: str) -> None:
        """Start `key` at the first delay again."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class TokenBucket:
    """`burst` tokens at once, refilled at `qps` a second; may run into debt."""

    def __init__(
        self, qps: float, burst: int, clock: Clock, max_wait: float = math.inf
    ) -> None:
        """Take the rate, the size of the bucket (which starts full), a clock.

        No reservation waits longer than `max_wait` seconds.
        """
        self._max_debt = max_wait * qps
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._refilled_at: float | None = None

    def reserve(self) -> float:
        """Take a token; return the seconds until it may be used."""
        self._refill()
        self._tokens = max(self._tokens - 1, -self._max_debt)
        return max(0.0, -self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take a token if there is a whole one; tell whether there was."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = self._clock.monotonic()
        if self._refilled_at is not None:
            refill = (now - self._refilled_at) * self._qps
            self._tokens = min(float(self._burst), self._tokens + refill)
        self._refilled_at = now


class OverallBucket:
    """Limits retries of all keys together."""

    def __init__(
        self, clock: Clock, qps: float = OVERALL_QPS, burst: int = OVERALL_BURST
    ) -> None:
        """Take a clock, and how many retries a second and at once are allowed."""
        self._bucket = TokenBucket(qps, burst, clock, OVERALL_MAX_WAIT)

    def when(self, key: str) -> float:  # noqa: ARG002 - every key counts alike
        """Take a token; return the seconds until it may be used."""
        return self._bucket.reserve()

    def forget(self, key: str) -> None:
        """Do nothing: the bucket does not know keys."""

    def failures(self, key: str) -> int:  # noqa: ARG002 - part of the protocol
        """Return 0: the bucket does not know keys."""
        return 0


class MaxOf:
    """The longest of several delays."""

    def __init__(self, *limiters: RateLimiter) -> None:
        """Take the limiters to combine."""
        self._limiters = limiters

    def when(self, key: str) -> float:
        """Count a failure in every limiter; return the longest wait."""
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: str) -> None:
        """Forget `key` in every limiter."""
        for limiter in self._limiters:
            limiter.forget(key)

    def failures(self, key: str) -> int:
        """Return the largest count."""
        return max(limiter.failures(key) for limiter in self._limiters)


def default_rate_limiter(clock: Clock) -> RateLimiter:
    """Return what every controller uses: per-key backoff and overall bucket."""
    return MaxOf(ExponentialBackoff(), OverallBucket(clock))
