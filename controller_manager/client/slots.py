"""The slots for requests in flight, which the keys of a client share by turns.

A slow webhook of one namespace may keep hundreds of creates of one key waiting. If the
slots were given away in the order of the requests, the requests of all other keys of
the controller would come after these. Upstream's five workers wait just as long.
"""

import asyncio
from collections import deque
from typing import Final

SHARE: Final = 8
"""The most slots of a key while another key waits.

With 32 slots, three busy keys leave eight slots free for a fourth one.
"""

_Waiters = deque[asyncio.Future[None]]


class Slots:
    """Slots for the requests of several keys.

    A key may have all slots as long as no other key waits. Otherwise the waiting keys
    get one slot each, by turns, and no key gets more than `SHARE` of them. Slots that
    such keys could use then stay free for the next key.
    """

    def __init__(self, count: int) -> None:
        """Take the number of slots, greater than 0."""
        self._free = count
        self._used: dict[str, int] = {}
        self._waiting: dict[str, _Waiters] = {}
        """The waiting requests by their keys, in the order of the keys' turns."""

    async def acquire(self, key: str) -> None:
        """Wait for a slot for a request of `key`; `release` must follow."""
        if self._free and self._may_have_more(key):
            self._take(key)
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._give_up(key, granted)
            else:  # it was granted and cancelled in the same turn of the loop
                self.release(key)
            raise

    def _may_have_more(self, key: str) -> bool:
        if self._used.get(key, 0) < SHARE:
            return True
        return not self._waiting or (len(self._waiting) == 1 and key in self._waiting)

    def _take(self, key: str) -> None:
        self._free -= 1
        self._used[key] = self._used.get(key, 0) + 1

    def release(self, key: str) -> None:
        """Give back a slot of a key."""
        self._free += 1
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]
        self._grant()

    def _give_up(self, key: str, granted: asyncio.Future[None]) -> None:
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

        At most four keys of 32 slots have their share, so few keys are passed over.
        """
        while self._free and (key := self._next()) is not None:
            waiters = self._waiting.pop(key)
            granted = waiters.popleft()
            if waiters:
                self._waiting[key] = waiters  # its next turn comes after the others
            if not granted.done():
                self._take(key)
                granted.set_result(None)

    def _next(self) -> str | None:
        return next(filter(self._may_have_more, self._waiting), None)
