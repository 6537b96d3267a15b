"""The limits of a client: its rate, and the slots for its requests in flight.

The keys of syncs share the slots by turns. A slow webhook of one namespace may keep
hundreds of creates of one key waiting. If the slots were given away in the order of the
requests, the requests of all other keys of the controller would come after these.
Upstream's five workers wait just as long.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from msgspec import Struct

from controller_manager.api.meta import group_of_key
from controller_manager.clock import Clock
from controller_manager.workqueue.ratelimiters import TokenBucket

SYNC_KEY: Final[ContextVar[str]] = ContextVar("sync_key", default="")
"""The key of the sync; empty for work that belongs to no key, such as an event."""

PATIENCE: Final = 1.0
"""Seconds for which a request keeps other namespaces waiting.

Afterwards it gives its slot, and its sync gives its place among the workers, to keys of
other namespaces. Most requests end within a hundredth of that time.
"""

PLACES: Final = 4
"""The most slots and workers altogether, as a multiple of those without slow requests.

So a few namespaces with slow webhooks cannot use up memory and connections.
"""

ON_WAIT: Final[ContextVar[Callable[[], None] | None]] = ContextVar(
    "on_wait", default=None
)
"""Called when a request of the sync has waited for `PATIENCE`."""


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


_SHARES: Final = 4
"""The parts of the slots, one of which is the most of a key while another key waits.

So three busy keys leave slots free for a fourth one.
"""

_LEAST_SHARE: Final = 8
"""The share of a key, at least: few slots go to the keys that come first."""

_Waiters = deque[asyncio.Future["Slot"]]


class Slot(Struct):
    """The slot of one request of a key; `is_slow` once it has given way."""

    key: str
    is_slow: bool = False


class Slots:
    """Slots for the requests of several keys.

    A key may have all slots as long as no other key waits. Otherwise the waiting keys
    get one slot each, by turns, and no key gets more than a quarter of them. Slots that
    such keys could use then stay free for the next key.

    A request that gives way lets one more request be in flight, up to `PLACES` times
    the slots. Only keys of other namespaces get these places; keys of the namespace of
    such a request share the slots as before.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._share = max(count // _SHARES, _LEAST_SHARE)
        self._in_flight = 0
        self._used: dict[str, int] = {}
        self._slow: dict[str, int] = {}
        """The requests that have given way, by namespace."""
        self._waiting: dict[str, _Waiters] = {}
        """The waiting requests by their keys, in the order of the keys' turns."""

    async def acquire(self, key: str) -> Slot:
        """Wait for a slot for a request of `key`; `release` must follow."""
        if self._may_have_more(key):
            return self._take(key)
        granted: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(granted)
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._give_up(key, granted)
            else:  # it was granted and cancelled in the same turn of the loop
                self.release(granted.result())
            raise

    def _may_have_more(self, key: str) -> bool:
        if self._in_flight >= self._count and not self._may_be_beyond(key):
            return False
        if self._used.get(key, 0) < self._share:
            return True
        return not self._waiting or (len(self._waiting) == 1 and key in self._waiting)

    def _may_be_beyond(self, key: str) -> bool:
        """Tell whether a key may have more while as many are in flight as slots."""
        in_time = self._in_flight - sum(self._slow.values())
        has_place = in_time < self._count and self._in_flight < self._count * PLACES
        return has_place and group_of_key(key) not in self._slow

    def _take(self, key: str) -> Slot:
        self._in_flight += 1
        self._used[key] = self._used.get(key, 0) + 1
        return Slot(key)

    def give_way(self, slot: Slot) -> None:
        """Let keys of other namespaces go on: this request has waited for long."""
        slot.is_slow = True
        _count(self._slow, group_of_key(slot.key), 1)
        self._grant()

    def release(self, slot: Slot) -> None:
        """Give a slot back."""
        self._in_flight -= 1
        _count(self._used, slot.key, -1)
        if slot.is_slow:
            _count(self._slow, group_of_key(slot.key), -1)
        self._grant()

    def _give_up(self, key: str, granted: asyncio.Future[Slot]) -> None:
        waiters = self._waiting.get(key) or deque()
        if granted not in waiters:
            return  # its turn came in the turn of the loop in which it was cancelled
        waiters.remove(granted)
        if not waiters:
            # The others may have more slots now that this key does not wait.
            del self._waiting[key]
            self._grant()

    def _grant(self) -> None:
        """Give the free slots to the keys whose turn it is.

        At most four keys have their share, and the keys of a slow namespace
        are no more than the workers, so few keys are passed over.
        """
        while (key := self._next()) is not None:
            waiters = self._waiting.pop(key)
            granted = waiters.popleft()
            if waiters:
                self._waiting[key] = waiters  # its next turn comes after the others
            if not granted.done():
                granted.set_result(self._take(key))

    def _next(self) -> str | None:
        return next(filter(self._may_have_more, self._waiting), None)


def _count(counts: dict[str, int], key: str, change: int) -> None:
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]
