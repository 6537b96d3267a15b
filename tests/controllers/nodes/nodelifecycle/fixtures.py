"""Nodes, their kubelets and their pods, for tests on a cluster in memory."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import EVENTS, NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.controllers.nodes.nodelifecycle import NodeLifecycleOptions
from controller_manager.controllers.nodes.nodelifecycle.controller import NODE_LEASES
from controller_manager.options.config import Config
from tests.clusters import RecordingTransport, make_config
from tests.controllers.hands import Hands

POSTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet posts."""


def lifecycle_config(
    period: float = 1.0, controllers: Iterable[str] = ("nodelifecycle",), **flags: Any
) -> Config:
    """Return a config with a check every second, and a grace period of six seconds."""
    chosen: JSON = {
        "node_monitor_grace_period": 6.0,
        "node_startup_grace_period": 5.0,
        "node_eviction_rate": 20.0,
        **flags,
    }
    options = NodeLifecycleOptions(**chosen)
    config = make_config(controllers=tuple(controllers), node_monitor_period=period)
    return replace(config, controllers={NodeLifecycleOptions: options})


class Kubelets(Hands):
    """A cluster in which a test does the work of kubelets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._alive: set[str] = set()
        self._beating: asyncio.Task[None] | None = None

    def conditions(self, **statuses: str) -> list[JSON]:
        """Return the conditions of a healthy kubelet, changed by `statuses`."""
        now = format_time(self.clock.now())
        healthy = dict.fromkeys(POSTED, "False") | {"Ready": "True"} | statuses
        said = {"reason": "KubeletSays", "message": "kubelet says so"}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        return [
            {"type": each, "status": status, **said, **times}
            for each, status in healthy.items()
        ]

    def nodes_of(self, *names: str, **metadata: Any) -> None:
        for name in names:
            status = {"conditions": self.conditions()}
            self.put(NODES, name, metadata=metadata, status=status)

    def pod(self, name: str, node: str, tolerates: str = "", **spec: Any) -> None:
        """Add a pod, which tolerates a taint of the node for five minutes."""
        containers = [{"name": "c", "image": "app:v1"}]
        if tolerates:
            toleration = {
                "key": f"node.kubernetes.io/{tolerates}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            spec |= {"tolerations": [toleration], "terminationGracePeriodSeconds": 0}
        ready = {"type": "Ready", "status": "True"}
        whole = {"nodeName": node, "containers": containers, **spec}
        status = {"phase": "Running", "conditions": [ready]}
        self.put(PODS, name, spec=whole, status=status)

    def post(self, name: str, **statuses: str) -> None:
        self.edit(NODES, name, status={"conditions": self.conditions(**statuses)})

    def renew(self, name: str) -> None:
        """Renew the lease of a node, as its kubelet does; make it if there is none."""
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": format_micro_time(self.clock.now()),
        }
        if name in self.names(LEASES):
            self.edit(LEASES, name, NODE_LEASES, spec=spec)
        else:
            self.put(LEASES, name, NODE_LEASES, spec=spec)

    def lives(self, *names: str) -> None:
        """Renew the leases of these nodes from now on, every two seconds."""
        if self._beating is None:
            self.add_namespace(NODE_LEASES)
            self._beating = asyncio.create_task(self._renew_all())
        self._alive.clear()
        self._alive.update(names)

    async def _renew_all(self, period: float = 2.0) -> None:
        while True:
            for name in sorted(self._alive):
                self.renew(name)
            await asyncio.sleep(period)

    def renew_back(self, number: int | str) -> None:
        """Write an older time into the lease of the node "a", the older the later."""
        time = f"2025-01-01T00:00:{20 - int(number):02}.000000Z"
        self.edit(LEASES, "a", NODE_LEASES, spec={"renewTime": time})

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    @asynccontextmanager
    async def running(
        self,
        *alive: str,
        config: Config | None = None,
        transport: Any = None,
        clock: Any = None,
        **flags: Any,
    ) -> AsyncGenerator[tuple[set[str], RecordingTransport], None]:
        """Run a manager while entered; yields the nodes that live, and its writes."""
        config = config or lifecycle_config(**flags)
        self.lives(*alive)
        try:
            async with self.manager(config, transport, clock=clock) as recording:
                yield self._alive, recording
        finally:
            await self.close()

    def taints(self, name: str) -> list[str]:
        """Return the taints of a node, without the prefix of their keys."""
        found = self.stored(NODES, name)["spec"].get("taints") or ()
        return [f"{each['key'].rpartition('/')[2]}:{each['effect']}" for each in found]

    def taint_set(self, name: str) -> list[str]:
        return sorted(self.taints(name))

    def sorted_taints(self) -> list[list[str]]:
        return sorted(self.all_taints().values())

    def all_taints(self) -> dict[str, list[str]]:
        return {name: self.taints(name) for name in self.names(NODES)}

    def statuses(self, name: str) -> dict[str, str]:
        found = self.stored(NODES, name)["status"].get("conditions") or ()
        return {each["type"]: each["status"] for each in found}

    def ready_pods(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: each["status"]
            for pod in self.all(PODS)
            for each in pod["status"].get("conditions") or ()
            if each["type"] == "Ready"
        }

    def reasons_of(self, name: str) -> list[str]:
        """Return the reasons of the events about an object."""
        return sorted(
            each["reason"]
            for each in self.all(EVENTS)
            if each["involvedObject"]["name"] == name
        )
