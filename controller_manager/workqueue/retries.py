"""The retries of a work queue: the choice of the failed key that is retried next."""

import heapq
import itertools

from .ratelimiters import TokenBucket


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
