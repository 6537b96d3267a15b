"""Short ways to make daemon sets, nodes and pods."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final
from unittest import mock

import msgspec

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
    DaemonSetStatus,
)
from controller_manager.api.core.v1 import NODES, Node, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Transport
from controller_manager.controllers.apps.daemonset.controller import DaemonSetReconciler
from controller_manager.controllers.apps.daemonset.nodes import Fit, target_of
from controller_manager.controllers.apps.daemonset.pods import DaemonPods, Plan
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.pods import bind
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers import builders
from tests.controllers.builders import daemon_set_json
from tests.controllers.user import User, settle

NOW: Final = datetime(2026, 1, 1, 1, tzinfo=UTC)
NEW: Final = "new"
"""The hash of the current revision; pods with another one are old."""


def daemon_set(
    name: str = "agent",
    surge: Any = 0,
    unavailable: Any = 1,
    *,
    kind: str = "RollingUpdate",
    **spec: Any,
) -> DaemonSet:
    """Return a daemon set as it is cached."""
    strategy: JSON = {"type": kind}
    if kind == "RollingUpdate":
        bounds = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy["rollingUpdate"] = bounds
    obj = daemon_set_json(name, **{"updateStrategy": strategy, **spec})
    obj["metadata"] |= {"uid": name, "generation": 1}
    return msgspec.json.decode(msgspec.json.encode(obj), type=DaemonSet)


def with_generation(annotation: str | None) -> DaemonSet:
    """Return a daemon set with the deprecated generation of its template."""
    obj = daemon_set()
    annotations = {"deprecated.daemonset.template.generation": annotation}
    given = {} if annotation is None else annotations
    metadata = msgspec.structs.replace(obj.metadata, annotations=given)
    return msgspec.structs.replace(obj, metadata=metadata)


def node(name: str, *taints: str, **labels: str) -> Node:
    """Return a node; a taint reads ``key:effect`` or ``key=value:effect``."""
    spec = {"taints": [_taint(each) for each in taints]}
    obj = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return msgspec.convert(obj, Node)


def _taint(text: str) -> JSON:
    identity, _, effect = text.partition(":")
    key, _, value = identity.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(name: str, on: str = "", **fields: Any) -> Pod:
    """Return a ready pod of the current revision, on a node; `fields` change that.

    `bound` false means that the pod only asks for the node. The name tells the age
    unless `created` does, in seconds.
    """
    labels = {"app": "agent", "controller-revision-hash": fields.pop("hash", NEW)}
    if (generation := fields.pop("generation", None)) is not None:
        labels["pod-template-generation"] = generation
    if not fields.pop("bound", True):
        fields["spec"] = {"affinity": for_node(on)}
    return builders.pod(
        name,
        labels=labels,
        node="" if "spec" in fields else on,
        created=f"2026-01-01T00:00:{fields.pop('created', 0):02}Z",
        since=f"2026-01-01T00:59:{fields.pop('since', 0):02}Z",
        deleted="2026-01-01T00:01:00Z" if fields.pop("leaving", False) else None,
        **fields,
    )


def for_node(*names: str, **rest: Any) -> JSON:
    """Return the affinity of a pod that requires a node."""
    field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {**rest, "nodeAffinity": {**rest.get("nodeAffinity", {}), key: required}}


def placed(*pods: Pod, of: DaemonSet | None = None, **fits: Fit) -> DaemonPods:
    """Return the pods of three nodes that must have one; `fits` change or add nodes."""
    return placed_of(pods, fits, of or daemon_set())


def placed_of(
    pods: Iterable[Pod], fits: Mapping[str, Fit], of: DaemonSet | None = None
) -> DaemonPods:
    nodes = {**dict.fromkeys(("n1", "n2", "n3"), Fit.RUN), **fits}
    return DaemonPods.of(of or daemon_set(), NEW, nodes, pods, lambda _: None)


def summary(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the nodes and the names of the pods to delete, sorted."""
    return sorted(plan.nodes), sorted(each.pod.metadata.name for each in plan.deletions)


CONTROLLERS = ("daemonset-controller", "garbage-collector-controller")


class Operator(User):
    """A user of daemon sets and nodes."""

    async def add_node(self, name: str, taint: str = "") -> None:
        """Add a node without the taints of one that is not ready."""
        self.cluster.add("Node", name)
        spec = {"taints": [_taint(taint)] if taint else None}
        await self._patch_node(name, {"spec": spec})

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
