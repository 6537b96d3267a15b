"""The nodes of one zone that wait for their NoExecute taint, at a limited rate."""

from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket


class EvictionQueue:
    """Names of nodes in the order in which they were added, each once.

    One node may be tainted at a time, and then one every 1/rate seconds. Upstream:
    RateLimitedTimedQueue. There a write that fails has used the turn of its zone;
    here a turn is used by a taint that was written.
    """

    def __init__(self, rate: float, clock: Clock) -> None:
        """Take the rate, in nodes a second, 0 for none, and a clock."""
        self._clock = clock
        self._rate = rate
        self._bucket = _bucket(rate, clock)
        self._names: dict[str, None] = {}

    def __len__(self) -> int:
        """Return how many nodes wait."""
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        """Tell whether a node waits."""
        return name in self._names

    def add(self, name: str) -> None:
        """Add a node behind the others, unless it waits already."""
        self._names.setdefault(name)

    def discard(self, name: str) -> None:
        """Remove a node, if it waits."""
        self._names.pop(name, None)

    def postpone(self, name: str) -> None:
        """Put a node behind the others, if it waits."""
        if name in self._names:
            self.discard(name)
            self.add(name)

    def head(self) -> str | None:
        """Return the node whose turn it is now, `None` for none."""
        if self._bucket is None or not self._bucket.has_token():
            return None
        return next(iter(self._names), None)

    def used(self) -> None:
        """Note that a node was tainted."""
        if self._bucket is not None:
            self._bucket.try_take()

    def next_in(self) -> float | None:
        """Return the seconds until the next turn, `None` if no node will have one."""
        if self._bucket is None or not self._names:
            return None
        return self._bucket.next_in()

    def set_rate(self, rate: float) -> None:
        """Change the rate; a turn that was waited for is waited for at the new rate."""
        if rate == self._rate:
            return
        waiting = self._bucket is None or not self._bucket.has_token()
        self._rate = rate
        self._bucket = _bucket(rate, self._clock)
        if waiting:
            self.used()


def _bucket(rate: float, clock: Clock) -> TokenBucket | None:
    return TokenBucket(rate, 1, clock) if rate > 0 else None
