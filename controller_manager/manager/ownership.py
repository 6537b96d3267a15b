"""The right to write: taken before the controllers start, given back at the end."""

import asyncio

from controller_manager.client.leader_election import LeaderElector
from controller_manager.client.ownership import (
    LeaseOwnership,
    Ownership,
    PermanentOwnership,
)
from controller_manager.manager.runnable import Checks, Lifetime, Runnable


class OwnershipGroup(Runnable):
    """Takes and holds the lease, or owns all keys if managers elect no leader."""

    def __init__(self, elector: LeaderElector | None) -> None:
        """Take the candidate for the lease, `None` without an election."""
        self._elector = elector
        self._watching: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None
        self.ownership: Ownership = PermanentOwnership()
        """Says for which keys this process may write."""
        if elector is not None:
            self.ownership = LeaseOwnership(elector)

    @property
    def elector(self) -> LeaderElector | None:
        """The candidate for the lease, if there is one."""
        return self._elector

    @property
    def previous_holder(self) -> str:
        """Who held the lease before us, empty for nobody."""
        return self._elector.previous_holder if self._elector is not None else ""

    async def run(self, life: Lifetime) -> None:
        """Follow the lease; this does not take it."""
        if self._elector is not None:
            self._watching = life.tasks.create_task(
                self._elector.watch(), name="lease-watch"
            )

    async def wait(self) -> None:
        """Wait until this process owns keys; it may then write for them."""
        if self._elector is not None:
            await self._elector.acquire()

    def hold(self, life: Lifetime) -> None:
        """Keep what `wait` has taken; its loss fails the task with LeadershipLost."""
        if self._elector is not None:
            self._holding = life.tasks.create_task(self._elector.renew(), name="lease")

    async def stop(self) -> None:
        """Give the lease back, even one that was taken at this very moment."""
        if self._holding is not None:
            # A renewal that is under way would come after the release.
            self._holding.cancel()
            await asyncio.gather(self._holding, return_exceptions=True)
        if self._elector is not None:
            await self._elector.release()
        if self._watching is not None:
            self._watching.cancel()

    def health(self) -> Checks:
        """Return a check: a leader must renew or give up."""
        if self._elector is None:
            return {}
        return {"leaderElection": self._elector.health_problem}
