"""The promises of every reconciler hold while watches are silent."""

import asyncio
from typing import ClassVar

import msgspec
import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import NAMESPACES, NODES, PODS, Namespace, Node
from controller_manager.api.meta import is_deleting
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For
from tests.clusters import Cluster, make_config
from tests.controllers.builders import replica_set_json
from tests.controllers.user import User, settle
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

OUT_OF_SERVICE = {
    "key": "node.kubernetes.io/out-of-service",
    "effect": "NoExecute",
    "value": "x",
}
KEPT = {
    "metadata": {"name": "kept", "finalizers": ["example.com/kept"]},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def test_a_key_waits_for_the_caches_after_a_write(cluster: Cluster) -> None:
    """A replica set that changes meanwhile gets no pods twice."""
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(transport=watches):
        user = User(cluster)
        watches.silence("pods")
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 3}})
        await asyncio.sleep(60)
        assert len(await user.pods()) == 2


async def test_a_new_object_waits_for_no_namesakes_writes(cluster: Cluster) -> None:
    """The former one is forgotten at once, though a cache is stale."""
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(transport=watches):
        user = User(cluster)
        watches.silence("pods")
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
        before = {each.metadata.name for each in await user.pods()}
        await cluster.client.delete(REPLICASETS, "default", "rs")
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await settle()
        after = {each.metadata.name for each in await user.pods()}
        assert (len(before), len(after - before)) == (2, 3)


async def test_a_namespace_is_emptied_with_an_unseen_status(cluster: Cluster) -> None:
    watches = SilentWatches(cluster.transport)
    config = make_config(controllers=("namespace",))
    async with cluster.manager(config, transport=watches):
        cluster.add_namespace("shop")
        await cluster.client.create_json(PODS, "shop", msgspec.json.encode(KEPT))
        await settle()
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(1)
        watches.silence("namespaces")
        await asyncio.sleep(30)
        shop: Namespace = await cluster.client.get(NAMESPACES, "", "shop")
        assert is_deleting(shop)
        freed = {"metadata": {"finalizers": None}}
        await cluster.client.patch(PODS, "shop", "kept", freed, PatchType.MERGE)
        await asyncio.sleep(60)
        page = await cluster.client.list_page(NAMESPACES)
        assert "shop" not in {each.metadata.name for each in page.items}


async def test_one_unseen_pod_holds_up_no_other(cluster: Cluster) -> None:
    watches = SilentWatches(cluster.transport)
    taints = [OUT_OF_SERVICE]
    for node, spec in (("lost", {"taints": taints}), ("ailing", {})):
        cluster.add("Node", node, spec=spec, status=NOT_READY)
    for pod, node in (("a", "lost"), ("b", "ailing")):
        cluster.add("Pod", pod, spec=running_on(node), status={"phase": "Running"})
    config = make_config(controllers=("podgc",))
    async with cluster.manager(config, transport=watches):
        for pod in ("a", "b"):
            options = DeleteOptions(grace_period_seconds=3600)
            await cluster.client.delete(PODS, "default", pod, options)
        await asyncio.sleep(1)
        watches.silence("pods")
        await asyncio.sleep(23)
        patch = {"spec": {"taints": taints}}
        await cluster.client.patch(NODES, "", "ailing", patch, PatchType.MERGE)
        await asyncio.sleep(60)
        assert await User(cluster).pods() == []


NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


def running_on(node: str) -> dict[str, object]:
    return {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}


class Judging(Reconciler[Node]):
    """Reconciles nodes whose names its predicate can read as numbers above one."""

    seen: ClassVar[list[str]] = []
    watches = (For(NODES, when=lambda node: int(node.metadata.name) > 1),)

    async def reconcile(self, obj: Node) -> Outcome:
        self.seen.append(obj.metadata.name)
        return DONE


async def test_a_failing_predicate_delays_no_other_object(cluster: Cluster) -> None:
    """At the start, the predicate is called for all objects, one after the other."""
    Judging.seen.clear()
    for name in ("1", "2", "odd", "3"):
        cluster.add("Node", name)
    manager = manager_of_nodes(cluster, "judging", "Judging")
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await asyncio.sleep(100)
    assert (Judging.seen, running.done()) == (["2", "3"], False)
    stop.set()
    await running


def manager_of_nodes(cluster: Cluster, name: str, reconciler: str) -> ControllerManager:
    controller = Descriptor(
        name=name, requires=(NODES,), load=f"{__name__}:{reconciler}", permissions=()
    )
    return ControllerManager(
        make_config(controllers=(name,)),
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        build=Registry((controller,)),
    )


class Yearly(Reconciler[Node]):
    """Looks at each node again in a year."""

    delayed: ClassVar[list[int]] = []
    """The number of keys with a deadline at the end of each sync."""

    watches = (For(NODES),)

    async def reconcile(self, obj: Node) -> Outcome:
        del obj
        self.delayed.append(self.queue.delayed)
        return Done(365 * 24 * 3600.0)

    async def reconcile_absent(self, key: str) -> Outcome:
        del key
        self.delayed.append(self.queue.delayed)
        return DONE


async def test_the_deadline_of_an_object_goes_with_it(cluster: Cluster) -> None:
    """Its key would stay in the queue for a year, and its namesake be synced then."""
    Yearly.delayed.clear()
    manager = manager_of_nodes(cluster, "yearly", "Yearly")
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    cluster.add("Node", "old")
    await settle()
    cluster.add("Node", "older")
    await settle()
    await cluster.client.delete(NODES, "", "old")
    await settle()
    await cluster.client.delete(NODES, "", "older")
    await settle()
    stop.set()
    await running
    assert Yearly.delayed == [0, 1, 1, 0]
