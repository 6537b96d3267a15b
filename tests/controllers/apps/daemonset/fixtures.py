"""A cluster with nodes for daemon sets, and short ways to use it."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest import mock

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
    DaemonSetStatus,
)
from controller_manager.api.core.v1 import NODES, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Transport
from controller_manager.controllers.apps.daemonset.controller import (
    DaemonSetReconciler,
)
from controller_manager.controllers.apps.daemonset.nodes import target_of
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.pods import bind
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.builders import daemon_set_json
from tests.controllers.user import User, settle

CONTROLLERS = ("daemonset-controller", "garbage-collector-controller")


class Operator(User):
    """A user of daemon sets and nodes."""

    async def add_node(self, name: str, **labels: str) -> None:
        self.cluster.add("Node", name, metadata={"name": name, "labels": labels})
        await self.taint(name)

    async def label(self, node: str, **labels: str | None) -> None:
        await self._patch_node(node, {"metadata": {"labels": labels}})

    async def taint(self, node: str, *keys: str, effect: str = "NoSchedule") -> None:
        taints = [{"key": key, "effect": effect} for key in keys]
        await self._patch_node(node, {"spec": {"taints": taints or None}})

    async def beat(self, node: str, at: str) -> None:
        """Report the state of a node, as its kubelet does."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at}
        await self._patch_node(node, {"status": {"conditions": [ready]}}, "status")

    async def _patch_node(self, name: str, patch: JSON, subresource: str = "") -> None:
        await self.client.patch(NODES, "", name, patch, PatchType.MERGE, subresource)

    async def daemon_set(self, name: str = "agent") -> DaemonSet:
        return await self.client.get(DAEMON_SETS, "default", name)

    async def numbers(self, name: str = "agent") -> tuple[int, ...]:
        """Return the numbers desired, current, updated, ready and misscheduled."""
        status: DaemonSetStatus = (await self.daemon_set(name)).status
        return (
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.updated_number_scheduled,
            status.number_ready,
            status.number_misscheduled,
        )

    async def revisions(self) -> list[ControllerRevision]:
        return (await self.client.list_page(CONTROLLER_REVISIONS)).items

    async def placed(self) -> dict[str, list[str]]:
        """Return the names of pods by the node that they belong to."""
        found: dict[str, list[str]] = {}
        for pod in await self.pods():
            found.setdefault(target_of(pod), []).append(pod.metadata.name)
        return found

    async def bind(self, pod: Pod) -> None:
        """Bind a pod to the node that it requires, and let it run."""
        name = pod.metadata.name
        bind(self.cluster.server.objects, POD, "default", name, target_of(pod))
        await self.make_ready(name)

    async def run_all(self) -> None:
        """Bind all pods that have no node, and let the controller see this."""
        await settle(1)
        for pod in await self.pods():
            if not pod.spec.node_name:
                await self.bind(pod)
        await settle(1)


def config(**generic: Any) -> Config:
    return make_config(controllers=CONTROLLERS, **generic)


@asynccontextmanager
async def running(
    cluster: Cluster, *names: str, transport: Transport | None = None, **spec: Any
) -> AsyncGenerator[tuple[Operator, RecordingTransport], None]:
    """Run a manager beside these nodes and the daemon set `agent` with this spec."""
    operator = Operator(cluster)
    for name in names:
        await operator.add_node(name)
    async with cluster.manager(config(), transport) as recording:
        await operator.create(DAEMON_SETS, daemon_set_json(**spec))
        await settle(1)
        yield operator, recording


@contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """Yield a list that gets the name of each daemon set that is reconciled."""
    names: list[str] = []
    reconcile = DaemonSetReconciler.reconcile

    async def counting(self: DaemonSetReconciler, obj: DaemonSet) -> Any:
        names.append(obj.metadata.name)
        return await reconcile(self, obj)

    with mock.patch.object(DaemonSetReconciler, "reconcile", counting):
        yield names
