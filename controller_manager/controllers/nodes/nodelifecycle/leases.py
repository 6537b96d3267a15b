"""Reads the leases of silent nodes from the API server."""

from controller_manager.api.coordination.v1 import LEASE_RENEWALS
from controller_manager.runtime.context import ControllerContext

from .handlers import NODE_LEASES
from .node_health import GracePeriods, is_silent
from .tracker import NodeRecord, NodeTracker


class LeaseReader:
    """Checks the leases of nodes before a node counts as dead or is tainted.

    A watch may be silent although the nodes send heartbeats. Upstream trusts its cache.
    """

    def __init__(
        self, context: ControllerContext, tracker: NodeTracker, grace: GracePeriods
    ) -> None:
        self._clock = context.clock
        self._informers = context.informers
        self._logger = context.logger
        self._tracker = tracker
        self._grace = grace

    async def is_alive(self, record: NodeRecord) -> bool:
        """Tell whether a node has sent a heartbeat within its grace period."""
        if record.dies_at(self._grace) < self._clock.monotonic():
            await self._read(record)
        return record.dies_at(self._grace) >= self._clock.monotonic()

    async def renews_lease(self, name: str) -> bool:
        """Tell whether a node renews its lease, although its status is still Unknown.

        Then its kubelet runs again, and will post the status soon. Upstream does not
        check that.
        """
        record = self._tracker.get(name)
        if record is None or not is_silent(record.node):
            return False
        if not self._is_renewed(record):
            await self._read(record)
        return self._is_renewed(record)

    def _is_renewed(self, record: NodeRecord) -> bool:
        """Tell whether this process saw a renewed lease within the grace period."""
        seen_at = record.heard_at
        now = self._clock.monotonic()
        return seen_at is not None and now - seen_at <= self._grace.monitor

    async def _read(self, record: NodeRecord) -> None:
        """Read the lease of a node, and store a renewal.

        The watch may deliver the same renewal during the request, so callers check
        afterwards whether the node is alive.
        """
        name = record.node.metadata.name
        lease = await self._informers.read(LEASE_RENEWALS, NODE_LEASES, name)
        if lease is None or lease.spec.renew_time in (None, record.renewed):
            return
        self._logger.warning(
            "The API server has a renewed lease that the cache does not show", node=name
        )
        now = self._clock.monotonic()
        self._tracker.renewed(name, lease.spec.renew_time, now)
