"""Which sync may change a volume, and to which claim a volume is just being given.

Upstream has one worker for claims and one for volumes. Here several claims are bound at
a time, so that a slow API server does not make all others wait.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Holds:
    """Locks of volumes by name.

    A sync that is about to change a volume holds it, and decides again once it does.
    While a claim holds a volume, or waits for it, no other claim chooses it.
    """

    def __init__(self) -> None:
        """Start without holds."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._claims: dict[str, str] = {}

    def __len__(self) -> int:
        """Return how many volumes are held."""
        return len(self._locks)

    def is_taken(self, volume: str, claim: str) -> bool:
        """Tell whether a volume is just being given to a claim other than `claim`."""
        return self._claims.get(volume, claim) != claim

    @asynccontextmanager
    async def hold(self, volume: str, claim: str = "") -> AsyncIterator[None]:
        """Hold a volume, for a claim if its key is given."""
        lock = self._locks.setdefault(volume, asyncio.Lock())
        self._waiting[volume] = self._waiting.get(volume, 0) + 1
        takes = bool(claim) and volume not in self._claims
        if takes:
            self._claims[volume] = claim
        try:
            async with lock:
                yield
        finally:
            if takes:
                del self._claims[volume]
            self._waiting[volume] -= 1
            if not self._waiting[volume]:
                del self._waiting[volume], self._locks[volume]
