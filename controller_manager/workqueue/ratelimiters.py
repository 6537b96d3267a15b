"""Rate limiters: the backoff of each key, and the token bucket of all retries."""

import heapq
import itertools
from typing import Final, Protocol

from controller_manager.clock import Clock

BASE_DELAY: Final = 0.005
"""Seconds before the first retry (client-go's DefaultControllerRateLimiter)."""

MAX_DELAY: Final = 120.0
"""The longest backoff in seconds.

Upstream's longest backoff is 1,000 s, so a replica set may wait up to 16 minutes after
its quota was raised (kubernetes#98656); here it is two minutes.
"""

RETRY_QPS: Final = 10.0
RETRY_BURST: Final = 100
"""Retries of all keys of a queue together, per second and at once, as upstream."""


_ROUNDING: Final = 1e-6


class Backoff(Protocol):
    """Decides how long each key waits after a failure."""

    def when(self, key: str) -> float:
        """Count a failure of `key`; return the seconds to wait."""

    def forget(self, key: str) -> None:
        """Stop tracking `key`: it succeeded, or it will not be retried."""

    def failures(self, key: str) -> int:
        """Return how often `key` has failed since it was last forgotten."""


class ExponentialBackoff:
    """Doubles the delay with each failure of a key, up to a cap.

    5 ms, 10 ms, 20 ms … 81.92 s (the 15th failure), then always 120 s.
    """

    def __init__(
        self, base_delay: float = BASE_DELAY, max_delay: float = MAX_DELAY
    ) -> None:
        """Begin with `base_delay`; both are in seconds."""
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
        """Reset `key`, so that its next delay is the first one."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class TokenBucket:
    """A bucket of `burst` tokens, refilled at `qps` a second.

    `reserve` may take tokens that the bucket does not have yet.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Make a full bucket."""
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._refilled_at: float | None = None

    def reserve(self) -> float:
        """Take a token; return the seconds until it may be used."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take a token if the bucket has a whole one; tell whether it had."""
        if not self.has_token():
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Put a token back that was not used."""
        self._refill()
        self._tokens = min(float(self._burst), self._tokens + 1)

    def has_token(self) -> bool:
        """Tell whether the bucket has a whole token."""
        self._refill()
        # A token may be slightly incomplete because of rounding; it counts as whole.
        return self._tokens >= 1 - _ROUNDING

    def next_in(self) -> float:
        """Return the seconds until the bucket has a whole token, 0 if it has one."""
        if self.has_token():
            return 0.0
        return (1 - self._tokens) / self._qps

    def _refill(self) -> None:
        now = self._clock.monotonic()
        if self._refilled_at is not None:
            refill = (now - self._refilled_at) * self._qps
            self._tokens = min(float(self._burst), self._tokens + refill)
        self._refilled_at = now


def retry_bucket(clock: Clock) -> TokenBucket:
    """Return the bucket that limits the retries of a queue, with upstream's values."""
    return TokenBucket(RETRY_QPS, RETRY_BURST, clock)


class Retries:
    """Keys whose backoff has ended, retried at the rate of a token bucket.

    client-go puts each failed key behind all others (BucketRateLimiter): with 5,000
    keys that always fail, a healthy key that had one conflict waits for minutes. Here
    the retries alternate between two choices: the key with the fewest failures (the
    newest of several), and the key that has waited longest. So a healthy key is
    retried at once, and no key waits for ever.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket
        self._due: dict[str, int] = {}
        """Failures of each key, in the order in which the keys became due."""
        self._by_failures: list[tuple[int, int, str]] = []
        self._sequence = itertools.count()
        self._takes_oldest = False

    def __len__(self) -> int:
        """Return how many keys are due."""
        return len(self._due)

    def __contains__(self, key: str) -> bool:
        """Tell whether `key` is due."""
        return key in self._due

    def add(self, key: str, failures: int) -> None:
        """Make `key` due, because its backoff has ended; `failures` is its count."""
        if key not in self._due:
            self._due[key] = failures
            entry = (failures, -next(self._sequence), key)
            heapq.heappush(self._by_failures, entry)

    def discard(self, key: str) -> None:
        """Remove `key`: it needs no retry."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._due.clear()
        self._by_failures.clear()

    def next(self) -> str | None:
        """Return a key that may be retried now and remove it; `None` for none."""
        if not self._due or not self._bucket.try_take():
            return None
        key = next(iter(self._due)) if self._takes_oldest else self._least_failed()
        self._takes_oldest = not self._takes_oldest
        del self._due[key]
        if not self._due:
            self._by_failures.clear()
        return key

    def next_in(self) -> float | None:
        """Return the seconds until `next` returns a key, `None` if no key is due."""
        return self._bucket.next_in() if self._due else None

    @property
    def is_ready(self) -> bool:
        """True if `next` returns a key now."""
        return bool(self._due) and self._bucket.has_token()

    def _least_failed(self) -> str:
        while True:
            failures, _, key = heapq.heappop(self._by_failures)
            if self._due.get(key) == failures:
                return key
