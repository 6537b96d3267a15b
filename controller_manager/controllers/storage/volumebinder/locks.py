"""Locks of volumes, and the claims that are getting them.

Upstream has one worker for claims and one for volumes. Here several claims are bound at
a time, so that one slow request does not delay all others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class VolumeLocks:
    """Locks of volumes by name.

    A sync locks a volume before it changes the volume, and then decides again. While
    the sync of a claim has the lock of a volume, or waits for it, no other claim
    chooses the volume.
    """

    def __init__(self) -> None:
        """Start without locks."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._claims: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of locked volumes."""
        return len(self._locks)

    def is_taken(self, volume: str, claim: str) -> bool:
        """Tell whether a claim other than `claim` is getting a volume."""
        return self._claims.get(volume, claim) != claim

    @asynccontextmanager
    async def lock(self, volume: str, claim: str = "") -> AsyncIterator[None]:
        """Lock a volume, for a claim if its key is given."""
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
