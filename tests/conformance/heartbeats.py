"""Renews the leases of nodes, as their kubelets would."""

import asyncio
from datetime import datetime

from controller_manager.api.json_objects import JSON
from controller_manager.clock import Clock
from tests.conformance.access import MERGE, NOT_FOUND, Access
from tests.conformance.objects import path_of


def with_heartbeats(steps: list[JSON]) -> list[JSON]:
    """Return steps in which the nodes that users create renew their leases.

    Nodes without a lease are lost after a minute. A recording that took less time may
    leave the leases out, but it may take longer here, as when faults are played.
    """
    nodes: list[str] = []
    result = []
    for step in steps:
        result.append(step)
        if step.get("create", {}).get("kind") == "Node":
            nodes.append(step["create"]["metadata"]["name"])
            result.append({"heartbeat": list(nodes)})
    return result


class Heartbeats:
    """Renews leases every `interval` seconds, from one `keep` to the next."""

    def __init__(self, access: Access, clock: Clock, interval: float) -> None:
        self._access = access
        self._clock = clock
        self._interval = interval
        self._beating: asyncio.Task[None] | None = None

    async def keep(self, nodes: list[str]) -> None:
        """Renew the leases of these nodes from now on, and no others."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        self._beating = asyncio.create_task(self._beat(nodes)) if nodes else None

    async def _beat(self, nodes: list[str]) -> None:
        namespace = {"metadata": {"name": "kube-node-lease"}}
        found = await self._access.call(
            "GET", path_of("Namespace", "kube-node-lease"), expected=NOT_FOUND
        )
        if found["kind"] != "Namespace":
            await self._access.call("POST", "/api/v1/namespaces", namespace)
        while True:
            for node in nodes:
                await self._renew(lease_of(node, self._clock.now()))
            await asyncio.sleep(self._interval)

    async def _renew(self, lease: JSON) -> None:
        leases = path_of("Lease", lease["metadata"]["namespace"])
        path = f"{leases}/{lease['metadata']['name']}"
        spec = {"spec": lease["spec"]}
        found = await self._access.call("PATCH", path, spec, MERGE, expected=NOT_FOUND)
        if found["kind"] != "Lease":
            await self._access.call("POST", leases, lease)


def lease_of(node: str, now: datetime) -> JSON:
    """Return the lease of a node whose kubelet has just renewed it."""
    return {
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": 40,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
