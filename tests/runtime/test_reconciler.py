"""Reconcilers: keys wait for the caches to show their writes."""

import asyncio
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

import msgspec
import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, Deployment
from controller_manager.api.core import v1
from controller_manager.api.core.secrets import SECRETS, Secret
from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    ConfigMap,
    Namespace,
    Node,
    ObjectReference,
)
from controller_manager.api.meta import ObjectMeta, is_deleting
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.informers.factory import ControllerInformers
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import make_logger
from controller_manager.runtime.consistency import ConsistencyStore
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.finalizer import Finalizer
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    Reason,
    log_reasons,
    waiting,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.watches import For
from tests.clusters import Cluster, factory_of, make_config, manager_of
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
    return manager_of(
        cluster, make_config(controllers=(name,)), build=Registry((controller,))
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


def pod(version: str) -> v1.Pod:
    return v1.Pod(
        metadata=v1.PodMeta(name="p", namespace="n", resource_version=version)
    )


@pytest.fixture
def informers(cluster: Cluster) -> ControllerInformers:
    return ControllerInformers(factory_of(cluster, min_resync_period=0))


async def test_a_key_awaits_its_write(informers: ControllerInformers) -> None:
    """Until its informer shows it; other keys do not wait."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    informer.advanced("9")
    store.record("a", v1.PODS, pod("10"))
    store.record("a", v1.PODS, pod("7"))
    assert store.stale_cache("a") is informer
    assert store.stale_cache("b") is None
    informer.advanced("10")
    assert store.stale_cache("a") is None
    assert len(store) == 0
    store.record("a", v1.PODS, pod("11"))
    store.forget("a")
    assert store.stale_cache("a") is None


async def test_a_write_belongs_to_its_key(informers: ControllerInformers) -> None:
    """No key waits for a write outside of a sync, or when a gate disables this."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    store.records_writes = True
    store.record_write(v1.PODS, pod("5"))
    assert len(store) == 0
    token = SYNC_KEY.set("n/web")
    store.record_write(v1.PODS, pod("5"))
    store.records_writes = False
    store.record_write(v1.PODS, pod("6"))
    SYNC_KEY.reset(token)
    assert store.stale_cache("n/web") is informer
    informer.advanced("5")
    assert store.stale_cache("n/web") is None


async def test_no_key_awaits_an_unseen_write(informers: ControllerInformers) -> None:
    """Another resource, or a watch of one name that is not this object's."""
    informers.informer(v1.NODES)
    one = replace(v1.CONFIG_MAPS, field_selector="metadata.name=kube-root-ca.crt")
    watched = informers.informer(one)
    store = ConsistencyStore(informers)
    store.record("a", v1.PODS, pod("5"))
    other = v1.ConfigMap(metadata=ObjectMeta(name="x", resource_version="5"))
    store.record("a", v1.CONFIG_MAPS, other)
    assert len(store) == 0
    root = v1.ConfigMap(
        metadata=ObjectMeta(name="kube-root-ca.crt", resource_version="5")
    )
    store.record("a", v1.CONFIG_MAPS, root)
    assert store.stale_cache("a") is watched


@pytest.mark.parametrize(("selected", "waits"), [("one", True), ("other", False)])
async def test_a_key_waits_for_a_watch_of_its_objects_type(
    informers: ControllerInformers, selected: str, *, waits: bool
) -> None:
    """Of secrets, some controllers watch one type only."""
    watched = informers.informer(replace(SECRETS, field_selector=f"type={selected}"))
    store = ConsistencyStore(informers)
    metadata = ObjectMeta(name="x", resource_version="5")
    store.record("a", SECRETS, Secret(metadata=metadata, type="one"))
    assert store.stale_cache("a") is (watched if waits else None)


async def test_versions_are_dropped_in_time(informers: ControllerInformers) -> None:
    """Keys that no change brings a sync to would pile up."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    for number in range(1000):
        store.record(f"n/{number}", v1.PODS, pod(str(number + 1)))
        informer.advanced(str(number + 1))
    assert len(store) <= 64


CLEANUP = Finalizer("example.com/cleanup")
OTHER = "example.org/other"
WHERE = (CONFIG_MAPS, "default", "a")


async def create(cluster: Cluster) -> ConfigMap:
    metadata = ObjectMeta(name="a", namespace="default", finalizers=(OTHER,))
    return await cluster.client.create(CONFIG_MAPS, ConfigMap(metadata=metadata))


async def test_a_deleted_object_waits_for_the_clean_up() -> None:
    cluster = Cluster()
    held = await CLEANUP.add(cluster.client, CONFIG_MAPS, await create(cluster))
    assert held.metadata.finalizers == (OTHER, CLEANUP.name)
    assert not CLEANUP.must_clean_up(held)
    assert await CLEANUP.add(cluster.client, CONFIG_MAPS, held) is held
    await cluster.client.delete(*WHERE)
    deleted = await cluster.client.get(*WHERE)
    assert CLEANUP.must_clean_up(deleted)
    left = await CLEANUP.remove(cluster.client, CONFIG_MAPS, deleted)
    assert left.metadata.finalizers == (OTHER,)
    assert await CLEANUP.remove(cluster.client, CONFIG_MAPS, left) is left
    # It takes none any more.
    assert await CLEANUP.add(cluster.client, CONFIG_MAPS, left) is left
    await Finalizer(OTHER).remove(cluster.client, CONFIG_MAPS, left)
    with pytest.raises(NotFound):
        await cluster.client.get(*WHERE)


async def test_an_object_that_has_changed_is_a_conflict() -> None:
    """Otherwise a finalizer that somebody has just added would be lost."""
    cluster = Cluster()
    old = await create(cluster)
    await cluster.client.patch(*WHERE, {"data": {"x": "1"}})
    with pytest.raises(Conflict):
        await CLEANUP.add(cluster.client, CONFIG_MAPS, old)


WEB = Deployment(metadata=ObjectMeta(name="web", namespace="default", uid="d"))
ABOUT = ObjectReference(
    api_version="apps/v1", kind="Deployment", name="web", namespace="default", uid="d"
)


def test_a_reason_names_the_kind_that_a_cached_object_does_not_carry() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert waiting(DEPLOYMENTS, WEB, "a pod", "2026-01-01T12:00:00Z") == Reason(
        "a pod", noon, ABOUT
    )


@pytest.mark.parametrize(("verbosity", "count"), [(3, 0), (4, 2)])
def test_reasons_are_logged_at_level_four(verbosity: int, count: int) -> None:
    stream = io.StringIO()
    logger = make_logger(output="json", verbosity=verbosity, stream=stream)
    reasons = (
        waiting(DEPLOYMENTS, WEB, "two more"),
        waiting(DEPLOYMENTS, WEB, "the rest", "2026-01-01T12:00:00Z"),
    )
    log_reasons(Done(reasons=reasons), logger)
    keys = ("msg", "v", "waiting_for", "since", "kind", "object")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    about, noon = ["Deployment", "default/web"], "2026-01-01 12:00:00+00:00"
    assert [[line[key] for key in keys] for line in lines] == [
        ["Waiting", 4, "two more", None, *about],
        ["Waiting", 4, "the rest", noon, *about],
    ][:count]
