"""The factory's caches hold what controllers read, each resource as one type."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api import meta
from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import (
    NODES,
    PODS,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from controller_manager.client.rest.errors import InvalidName
from controller_manager.informers.factory import ClashError, InformerFactory
from controller_manager.informers.reads import Reads
from tests.clusters import Cluster, factory_of

pytestmark = pytest.mark.looptime


class Phase(meta.Projection, frozen=True):
    """Another projection of a pod."""


PHASES: meta.Resource[Phase] = meta.Resource("", "v1", "pods", "Pod", Phase)
METADATA: meta.Resource[meta.PartialObject] = meta.Resource(
    "", "v1", "pods", "Pod", meta.PartialObject, metadata_only=True
)
POD_FORM = "controller_manager.api.core.v1.Pod"


async def create_pod(cluster: Cluster) -> Pod:
    body = {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.client.create_json(PODS, "default", msgspec.json.encode(body))
    conditions = [
        {"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")
    ]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    return await cluster.client.patch(
        PODS, "default", "a", status, subresource="status"
    )


async def cached_pods(subject: InformerFactory, *readers: list[Reads]) -> list[Pod]:
    for reads in readers:
        pods = subject.informer(PODS, reads)
    running = asyncio.create_task(subject.run())
    await subject.wait_for_sync()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return list(pods.store)


async def test_a_cache_keeps_the_declared_fields(cluster: Cluster) -> None:
    stored = await create_pod(cluster)
    phase, ready = (
        [Reads(NODES), Reads(PODS, path)]
        for path in ("status.phase", "status.conditions[Ready]")
    )
    (cached,) = await cached_pods(factory_of(cluster), phase, ready)
    assert (stored.spec.node_name, stored.metadata.generation) == ("node-1", 1)
    assert cached == Pod(
        metadata=msgspec.structs.replace(stored.metadata, generation=0),
        status=PodStatus(
            phase="Running", conditions=(PodCondition(type="Ready", status="True"),)
        ),
    )


async def test_a_cache_keeps_all_of_what_somebody_reads_whole(cluster: Cluster) -> None:
    """A caller that declares nothing of a resource reads whole objects, too."""
    stored = await create_pod(cluster)
    phase = [Reads(PODS, "status.phase")]
    assert await cached_pods(factory_of(cluster), [Reads(PODS)], phase) == [stored]
    assert await cached_pods(factory_of(cluster), phase, [Reads(NODES)]) == [stored]
    assert await cached_pods(factory_of(cluster), []) == [stored]


async def test_two_types_of_one_resource_are_a_clash(cluster: Cluster) -> None:
    """They would share a store in which each finds the other's objects."""
    subject = factory_of(cluster)
    subject.informer(PODS)
    with pytest.raises(ClashError) as caught:
        subject.informer(PHASES)
    assert str(caught.value) == (
        f"v1/pods is to be cached as {POD_FORM} and as {__name__}.Phase: "
        "controllers share one cache, so let them use one Resource"
    )
    with pytest.raises(ClashError, match=r"PartialObject \(metadata only\)"):
        subject.informer(METADATA)


async def test_a_declaration_of_another_type_is_a_clash(cluster: Cluster) -> None:
    """A declaration and the requested resource must have the same type."""
    with pytest.raises(ClashError, match=r"Phase and as .*core\.v1\.Pod"):
        factory_of(cluster).informer(PODS, [Reads(PHASES)])


async def test_resources_that_share_no_store_do_not_clash(cluster: Cluster) -> None:
    """Another field selector means another store; monitors use an existing informer."""
    subject = factory_of(cluster)
    pods = subject.informer(PODS, [Reads(PODS), Reads(DEPLOYMENTS)])
    on_node = replace(PHASES, field_selector="spec.nodeName=node-1")
    assert subject.informer(on_node).resource == on_node
    assert subject.informer(replace(PODS)) is pods
    assert subject.monitor(METADATA) is pods


async def test_two_monitors_of_different_types_are_a_clash(cluster: Cluster) -> None:
    """Neither would find the objects that it expects."""
    subject = factory_of(cluster)
    monitor = subject.monitor(METADATA)
    assert subject.monitor(METADATA) is monitor
    with pytest.raises(ClashError, match="metadata only"):
        subject.monitor(PODS)


async def test_a_monitor_runs_until_its_last_user_stops_it(cluster: Cluster) -> None:
    subject = factory_of(cluster)
    monitor = subject.monitor(METADATA)
    assert subject.monitor(METADATA) is monitor
    subject.stop_monitor(METADATA)
    assert subject.all() == [monitor]
    subject.stop_monitor(METADATA)
    assert subject.all() == []
    subject.stop_monitor(METADATA)  # no controller uses it
    assert subject.monitor(METADATA) is not monitor


async def test_a_monitor_keeps_what_controllers_read(cluster: Cluster) -> None:
    subject = factory_of(cluster)
    subject.read_monitored(PODS)
    monitor = subject.monitor(METADATA)
    assert monitor.resource == PODS
    assert subject.monitor(PODS) is monitor
    with pytest.raises(RuntimeError, match="keeps only metadata already"):
        subject.read_monitored(PODS)


@pytest.mark.parametrize("declared", [[], [Reads(PODS, "spec.nodeName")]])
async def test_a_shared_cache_keeps_the_fields_that_a_user_of_monitors_reads(
    cluster: Cluster, declared: list[Reads]
) -> None:
    """All fields if the user declares none; otherwise it would find them empty."""
    stored = await create_pod(cluster)
    subject = factory_of(cluster)
    subject.read_monitored(PODS, declared)
    (cached,) = await cached_pods(subject, [Reads(PODS, "status.phase")])
    whole = (
        stored
        if not declared
        else Pod(
            metadata=msgspec.structs.replace(stored.metadata, generation=0),
            spec=PodSpec(node_name="node-1"),
            status=PodStatus(phase="Running"),
        )
    )
    assert cached == whole


async def test_a_monitor_asks_before_the_caches_run(cluster: Cluster) -> None:
    subject = factory_of(cluster)
    running = asyncio.create_task(subject.run())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="keeps only metadata already"):
        subject.read_monitored(PODS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stopped_monitor_is_freed_in_turns(cluster: Cluster) -> None:
    """Memory of 100,000 objects would be freed in one turn of the loop otherwise."""
    subject = factory_of(cluster)
    monitor = subject.monitor(METADATA)
    for number in range(250):
        named = meta.PartialMetadata(name=f"pod-{number}", namespace="default")
        monitor.store.put(meta.PartialObject(metadata=named))
    running = asyncio.create_task(subject.run())
    await asyncio.sleep(0)
    subject.stop_monitor(METADATA)
    left = []
    for _ in range(6):
        left.append(len(monitor.store))
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert left == [250, 150, 50, 0, 0, 0]


async def test_a_held_informer_runs_once_somebody_needs_it(cluster: Cluster) -> None:
    subject = factory_of(cluster)
    nodes, pods = subject.hold(NODES), subject.hold(PODS)
    sets = subject.hold(DEPLOYMENTS)
    assert subject.shared() == []
    assert subject.informer(DEPLOYMENTS) is sets
    assert subject.hold(DEPLOYMENTS) is sets
    running = asyncio.create_task(subject.run())
    await asyncio.wait_for(subject.wait_for_sync(), 1)
    assert subject.all() == [sets]
    assert subject.monitor(METADATA) is pods
    subject.start(nodes)
    subject.start(nodes)
    await asyncio.wait_for(subject.wait_for_sync(), 1)
    assert subject.all() == [nodes, pods, sets]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_cache_keeps_what_a_held_controller_reads(cluster: Cluster) -> None:
    stored = await create_pod(cluster)
    subject = factory_of(cluster)
    pods = subject.informer(PODS, [Reads(PODS, "status.phase")])
    assert subject.hold(PODS) is pods
    running = asyncio.create_task(subject.run())
    await subject.wait_for_sync()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert list(pods.store) == [stored]


async def test_an_informer_asked_for_again_is_the_same(cluster: Cluster) -> None:
    """Some controllers ask for it in each sync."""
    subject = factory_of(cluster)
    for _ in range(3):
        subject.informer(PODS, [Reads(PODS, "spec")])
        subject.informer(NODES)
    assert subject._reads == {
        "v1/pods": [Reads(PODS, "spec")],
        "v1/nodes": [Reads(NODES)],
    }


async def test_an_informer_cannot_be_held_once_the_caches_run(cluster: Cluster) -> None:
    """It may be running already: then it would be started twice."""
    subject = factory_of(cluster)
    subject.informer(PODS)
    running = asyncio.create_task(subject.run())
    await subject.wait_for_sync()
    with pytest.raises(RuntimeError, match="v1/pods can be held before the start only"):
        subject.hold(PODS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_types_of_monitors_clash_in_any_order(cluster: Cluster) -> None:
    """The informer or the monitor may be asked for first."""
    subject = factory_of(cluster)
    subject.read_monitored(PHASES)
    with pytest.raises(ClashError):
        subject.informer(PODS)
    subject = factory_of(cluster)
    subject.informer(PODS)
    with pytest.raises(ClashError):
        subject.monitor(PHASES)


async def test_one_object_is_read_by_its_whole_name(cluster: Cluster) -> None:
    """Without a namespace, a pod of that name in any namespace would be found."""
    subject = factory_of(cluster)
    stored = await create_pod(cluster)
    name = stored.metadata.name
    assert await subject.read(PODS, "default", name) == stored
    assert await subject.read(PODS, "default", "another") is None
    for incomplete in (("", name), ("default", "")):
        with pytest.raises(InvalidName, match="of an object may not be empty"):
            await subject.read(PODS, *incomplete)
