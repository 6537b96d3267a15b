"""Deleted groups stay while pods use them, on a cluster in memory."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("podgroup-protection-controller", "ttl"),
    use_service_account_credentials=True,
)
GROUPS_OF_PODS: Final = FeatureGates({"GenericWorkload": True})
ENABLED: Final = replace(CONFIG, features=GROUPS_OF_PODS)
API: Final = "scheduling.k8s.io/v1alpha2"
PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"


def add_group(cluster: Cluster, name: str = "g", **metadata: Any) -> None:
    kind = cluster.server.catalogue.of(API, "PodGroup")
    assert kind is not None
    body = {
        "metadata": {"name": name, **metadata},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    cluster.server.objects.create(kind, "default", body)


def add_pod(cluster: Cluster, name: str, group: str = "g") -> None:
    cluster.add(
        "Pod",
        name,
        spec={
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGroup": {"podGroupName": group},
        },
    )


async def end(cluster: Cluster, name: str, phase: str) -> None:
    status = {"status": {"phase": phase}}
    await cluster.client.patch(PODS, "default", name, status, PatchType.MERGE, "status")


async def delete(cluster: Cluster, name: str = "g") -> None:
    await cluster.client.delete(POD_GROUPS, "default", name)
    await asyncio.sleep(1)


async def finalizers(cluster: Cluster, name: str = "g") -> tuple[str, ...] | None:
    """Return the finalizers of a group, `None` if it is gone."""
    try:
        group = await cluster.client.get(POD_GROUPS, "default", name)
    except NotFound:
        return None
    return group.metadata.finalizers or ()


def releases(writes: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (each.method, each.path.rpartition("/")[2], each.status)
        for each in writes
        if "podgroups" in each.path
    ]


async def test_a_group_that_no_pod_uses_goes_at_once() -> None:
    """The controller has only its role; other groups are not changed."""
    cluster = Cluster(rbac=True, features=GROUPS_OF_PODS)
    add_group(cluster)
    add_group(cluster, "kept")
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        await delete(cluster)
        assert await finalizers(cluster) is None
    assert await finalizers(cluster, "kept") == (PROTECTION,)
    assert releases(recording.writes) == [("PUT", "g", 200)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_group_goes_when_its_last_pod_has_ended(phase: str) -> None:
    """Pods of other groups do not count."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    for name in ("a", "b"):
        add_pod(cluster, name)
    add_pod(cluster, "other", "other")
    async with cluster.manager(ENABLED):
        await delete(cluster)
        await end(cluster, "a", phase)
        await asyncio.sleep(1)
        assert await finalizers(cluster) == (PROTECTION,)
        await end(cluster, "b", phase)
        await asyncio.sleep(1)
        assert await finalizers(cluster) is None


async def test_a_group_goes_when_its_last_pod_is_gone() -> None:
    """The pod is deleted at once."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    add_pod(cluster, "a")
    async with cluster.manager(ENABLED):
        await delete(cluster)
        assert await finalizers(cluster) == (PROTECTION,)
        await cluster.client.delete(PODS, "default", "a")
        await asyncio.sleep(60)
        assert await finalizers(cluster) is None


async def test_other_finalizers_stay() -> None:
    """The group stays with them."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster, finalizers=["example.com/hold"])
    async with cluster.manager(ENABLED) as recording:
        await delete(cluster)
        assert await finalizers(cluster) == ("example.com/hold",)
    assert releases(recording.writes) == [("PUT", "g", 200)]


async def test_a_pod_that_no_cache_shows_yet_holds_its_group() -> None:
    """Upstream lets the group go."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    created = False

    async def create_late(request: Request) -> Response | None:
        nonlocal created
        is_live = request.path.endswith("/namespaces/default/pods")
        if request.method == "GET" and is_live and not created:
            created = True
            add_pod(cluster, "late")
        return None

    meddler = Meddler(cluster.transport, create_late)
    async with cluster.manager(ENABLED, meddler) as recording:
        await delete(cluster)
        await asyncio.sleep(30)
        assert created
        assert await finalizers(cluster) == (PROTECTION,)
        assert releases(recording.writes) == []
        await end(cluster, "late", "Succeeded")
        await asyncio.sleep(1)
        assert await finalizers(cluster) is None


async def test_an_old_list_of_pods_is_not_trusted() -> None:
    """A proxy may have sent it."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    is_old = True

    async def answer(request: Request) -> Response | None:
        if is_old and request.path.endswith("/namespaces/default/pods"):
            body = {"metadata": {"resourceVersion": "1"}, "items": []}
            return Response(HTTPStatus.OK, {}, msgspec.json.encode(body))
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, answer)):
        await delete(cluster)
        await asyncio.sleep(30)
        assert await finalizers(cluster) == (PROTECTION,)
        is_old = False
        await asyncio.sleep(120)
        assert await finalizers(cluster) is None


@pytest.mark.parametrize("ahead", ["podgroups.scheduling.k8s.io", "pods"])
async def test_a_group_is_released_if_resource_versions_of_pods_are_far_ahead(
    ahead: str,
) -> None:
    """Groups and pods may each be in an etcd of their own."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    cluster.server.storage.collection(ahead).separate(1_000_000)
    add_group(cluster)
    add_pod(cluster, "a")
    async with cluster.manager(ENABLED):
        await delete(cluster)
        assert await finalizers(cluster) == (PROTECTION,)
        await end(cluster, "a", "Succeeded")
        await asyncio.sleep(1)
        assert await finalizers(cluster) is None


async def test_many_groups_that_are_deleted_together_need_few_lists() -> None:
    """One list of the pods of their namespace serves them all."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    names = [f"g{number}" for number in range(50)]
    for name in names:
        add_group(cluster, name)
        await cluster.client.delete(POD_GROUPS, "default", name)
    add_pod(cluster, "a", names[0])
    lists = 0

    async def count(request: Request) -> Response | None:
        nonlocal lists
        lists += request.path.endswith("/namespaces/default/pods")
        return None

    async with cluster.manager(ENABLED, Meddler(cluster.transport, count)):
        await asyncio.sleep(5)
    left = [name for name in names if await finalizers(cluster, name) is not None]
    assert left == names[:1]
    assert lists <= 2


async def test_a_group_that_has_changed_is_synced_again() -> None:
    """The write conflicts."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    changed = False

    async def change(request: Request) -> Response | None:
        nonlocal changed
        if request.method == "PUT" and "podgroups" in request.path and not changed:
            changed = True
            labels = {"metadata": {"labels": {"l": "1"}}}
            await cluster.client.patch(
                POD_GROUPS, "default", "g", labels, PatchType.MERGE
            )
        return None

    meddler = Meddler(cluster.transport, change)
    async with cluster.manager(ENABLED, meddler) as recording:
        await delete(cluster)
        await asyncio.sleep(5)
        assert await finalizers(cluster) is None
    assert releases(recording.writes) == [("PUT", "g", 409), ("PUT", "g", 200)]


async def test_without_its_gate_it_does_not_run() -> None:
    """The gate is off by default."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    add_group(cluster)
    async with cluster.manager(CONFIG):
        await delete(cluster)
        await asyncio.sleep(60)
    assert await finalizers(cluster) == (PROTECTION,)
