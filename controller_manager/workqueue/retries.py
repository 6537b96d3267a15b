"""Which of the keys that failed is tried again next."""

import heapq
import itertools

from controller_manager.workqueue.ratelimiters import TokenBucket


class Retries:
    """Keys whose backoff is over, let through at the rate of a token bucket.

    client-go gives each key a place behind all others (BucketRateLimiter): with
    5,000 keys that fail for good, a healthy one that meets a single conflict waits
    for minutes. Here, of two keys that are let through, one is the key that has
    failed the least (of several, the last one), and one the key that has waited the
    longest. So a healthy key passes at once, and no key waits for ever.
    """

    def __init__(self, bucket: TokenBucket) -> None:
        """Take the bucket."""
        self._bucket = bucket
        self._due: dict[str, int] = {}
        """Failures of each key, in the order in which the keys became due."""
        self._by_failures: list[tuple[int, int, str]] = []
        self._sequence = itertools.count()
        self._takes_oldest = False

    def __len__(self) -> int:
        """Return how many keys are due and wait."""
        return len(self._due)

    def __contains__(self, key: str) -> bool:
        """Tell whether `key` is due and waits."""
        return key in self._due

    def add(self, key: str, failures: int) -> None:
        """Note that the backoff of `key`, which has failed so often, is over."""
        if key not in self._due:
            self._due[key] = failures
            entry = (failures, -next(self._sequence), key)
            heapq.heappush(self._by_failures, entry)

    def discard(self, key: str) -> None:
        """Forget `key`: it need not be tried again."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Forget all keys."""
        self._due.clear()
        self._by_failures.clear()

    def next(self) -> str | None:
        """Return a key that may be tried now; `None` if there is none."""
        if not self._due or not self._bucket.try_take():
            return None
        key = next(iter(self._due)) if self._takes_oldest else self._least_failed()
        self._takes_oldest = not self._takes_oldest
        del self._due[key]
        if not self._due:
            self._by_failures.clear()
        return key

    def next_in(self) -> float | None:
        """Return the seconds until `next` will have a key, `None` if none is due."""
        return self._bucket.next_in() if self._due else None

    @property
    def is_ready(self) -> bool:
        """Whether `next` has a key now."""
        return bool(self._due) and self._bucket.has_token()

    def _least_failed(self) -> str:
        while True:
            failures, _, key = heapq.heappop(self._by_failures)
            if self._due.get(key) == failures:
                return key
