"""The signs of life of the nodes: each kubelet renews the lease of its node."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from controller_manager.api.times import format_micro_time
from controller_manager.clock import Clock
from controller_manager.devcluster.kinds.coordination.lease import KIND as LEASE
from controller_manager.devcluster.kinds.core.namespace import KIND as NAMESPACE
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]

NODE_LEASES: Final = "kube-node-lease"

_PERIOD: Final = 10.0
_DURATION: Final = 40
"""Seconds for which a lease holds, as a kubelet writes them."""


class Heartbeats:
    """Renews the leases of nodes every ten seconds, as long as the nodes exist."""

    def __init__(
        self, objects: Objects, storage: Storage, clock: Clock, names: Sequence[str]
    ) -> None:
        """Take the objects of the API server, and the names of the nodes."""
        self._objects = objects
        self._storage = storage
        self._clock = clock
        self._names = names

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            for name in self._names:
                if self._stored(NODE.resource, "", name) is not None:
                    self._renew(name)
            await asyncio.sleep(_PERIOD)

    def _renew(self, name: str) -> None:
        if self._stored(NAMESPACE.resource, "", NODE_LEASES) is None:
            return  # an API server creates it soon
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _DURATION,
            "renewTime": format_micro_time(self._clock.now()),
        }
        stored = self._stored(LEASE.resource, NODE_LEASES, name)
        if stored is None:
            lease = {"metadata": {"name": name}, "spec": spec}
            self._objects.create(LEASE, NODE_LEASES, lease)
        else:
            renewed = {**stored, "spec": spec}
            self._objects.update(LEASE, NODE_LEASES, name, renewed)

    def _stored(self, resource: str, namespace: str, name: str) -> JSON | None:
        stored = self._storage.collection(resource).get((namespace, name))
        return stored.obj if stored is not None else None
