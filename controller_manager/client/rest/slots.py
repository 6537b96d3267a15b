"""The slots for requests in flight, which the keys of a client share by turns.

A slow webhook of one namespace may keep hundreds of creates of one key waiting. If the
slots were given away in the order of the requests, the requests of all other keys of
the controller would come after these. Upstream's five workers wait just as long.
"""

import asyncio
from collections import deque
from typing import Final

from msgspec import Struct

from controller_manager.api.meta import group_of_key

from .sync_key import PLACES

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
    """Change a count, and forget it at 0."""
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]
