"""Leader election in which the API server chooses the holder of the lease.

Upstream: the coordinated mode of client-go's tools/leaderelection (1.36), behind the
feature gate CoordinatedLeaderElection. `lease_candidate` makes this process a
candidate.
"""

from msgspec.structs import replace

from controller_manager.api.coordination.v1 import Lease, LeaseSpec

from .leader_election import LeaderElector, LeadershipYielded


class CoordinatedElector(LeaderElector):
    """A candidate that leads only while the API server names it in the lease.

    It neither creates the lease nor takes one that has expired. If the API server
    prefers another holder, this process stops leading, and gives up the lease. If the
    lease is deleted, it stops as well: the API server may elect another candidate at
    once.
    """

    @property
    def _preferred(self) -> str:
        """The process that the API server prefers to this one, empty for none."""
        spec = self._observed.spec if self._observed else LeaseSpec()
        preferred = spec.preferred_holder or ""
        return preferred if preferred != self.identity else ""

    @property
    def _is_elected(self) -> bool:
        is_holder = self.holder == self.identity
        return is_holder and self.knows_leader and not self._preferred

    async def _take_absent(self) -> bool:
        """Leave the creation of the lease to the API server."""
        if self._observed is not None:
            self._observe(replace(self._observed, spec=LeaseSpec()))
        return False

    async def _take(self, lease: Lease) -> bool:
        return await self._write(lease) if self._is_elected else False

    def _observe(self, lease: Lease) -> None:
        before = self.holder
        super()._observe(lease)
        if self.holder == self.identity:
            self._may_hold = True
            if before != self.identity:
                self.previous_holder = before
        if self._leading and self._preferred:
            self._changed.set()

    def _check_still_leading(self) -> None:
        if self._leading and self.seconds_left() > 0 and self._preferred:
            preferred = self._preferred
            self._stop_leading()
            self._may_hold = True  # until `release`
            msg = f"the API server prefers {preferred} for the lease {self._key}"
            raise LeadershipYielded(msg)
        super()._check_still_leading()
