"""Deleted groups stay while pods use them, on a cluster in memory."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.core.v1 import (
    PODS,
    Pod,
    PodMeta,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
)
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    BY_GROUP,
    group_of,
    used_by,
)
from controller_manager.informers.store import Store
from controller_manager.options.gates import FeatureGates
from tests.clusters import Write, make_config
from tests.controllers.hands import Hands
from tests.meddler import Meddler

CONFIG: Final = make_config(
    controllers=("podgroup-protection-controller", "ttl"),
    use_service_account_credentials=True,
)
GROUPS_OF_PODS: Final = FeatureGates({"GenericWorkload": True})
ENABLED: Final = replace(CONFIG, features=GROUPS_OF_PODS)
API: Final = "scheduling.k8s.io/v1alpha2"
PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"


def add_group(cluster: Hands, name: str = "g", **metadata: Any) -> None:
    kind = cluster.server.catalogue.of(API, "PodGroup")
    assert kind is not None
    body = {
        "metadata": {"name": name, **metadata},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    cluster.server.objects.create(kind, "default", body)


def add_pod(cluster: Hands, name: str, group: str = "g") -> None:
    cluster.add(
        "Pod",
        name,
        spec={
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGroup": {"podGroupName": group},
        },
    )


async def end(cluster: Hands, name: str, phase: str) -> None:
    status = {"status": {"phase": phase}}
    await cluster.client.patch(PODS, "default", name, status, PatchType.MERGE, "status")


async def delete(cluster: Hands, name: str = "g") -> None:
    cluster.remove(POD_GROUPS, name)
    await asyncio.sleep(1)


async def finalizers(cluster: Hands, name: str = "g") -> tuple[str, ...] | None:
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


@pytest.mark.looptime
async def test_a_group_that_no_pod_uses_goes_at_once() -> None:
    cluster = Hands(rbac=True, features=GROUPS_OF_PODS)
    add_group(cluster)
    add_group(cluster, "kept")
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        await delete(cluster)
        assert await finalizers(cluster) is None
    assert await finalizers(cluster, "kept") == (PROTECTION,)
    assert releases(recording.writes) == [("PUT", "g", 200)]


@pytest.mark.looptime
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_group_goes_when_its_last_pod_has_ended(phase: str) -> None:
    cluster = Hands(features=GROUPS_OF_PODS)
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


@pytest.mark.looptime
async def test_a_group_goes_when_its_last_pod_is_gone() -> None:
    cluster = Hands(features=GROUPS_OF_PODS)
    add_group(cluster)
    add_pod(cluster, "a")
    async with cluster.manager(ENABLED):
        await delete(cluster)
        assert await finalizers(cluster) == (PROTECTION,)
        cluster.remove(PODS, "a", grace=30)
        await asyncio.sleep(60)
        assert await finalizers(cluster) is None


@pytest.mark.looptime
async def test_other_finalizers_stay() -> None:
    cluster = Hands(features=GROUPS_OF_PODS)
    add_group(cluster, finalizers=["example.com/hold"])
    async with cluster.manager(ENABLED) as recording:
        await delete(cluster)
        assert await finalizers(cluster) == ("example.com/hold",)
    assert releases(recording.writes) == [("PUT", "g", 200)]


@pytest.mark.looptime
async def test_a_pod_that_no_cache_shows_yet_holds_its_group() -> None:
    """Upstream lets the group go."""
    cluster = Hands(features=GROUPS_OF_PODS)
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


@pytest.mark.looptime
async def test_a_group_that_has_changed_is_synced_again() -> None:
    cluster = Hands(features=GROUPS_OF_PODS)
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


@pytest.mark.looptime
async def test_without_its_gate_it_does_not_run() -> None:
    """The gate is off by default."""
    cluster = Hands(features=GROUPS_OF_PODS)
    add_group(cluster)
    async with cluster.manager(CONFIG):
        await delete(cluster)
        await asyncio.sleep(60)
    assert await finalizers(cluster) == (PROTECTION,)


def pod(group: str | None, phase: str = "Running", uid: str = "1") -> Pod:
    named = None if group is None else PodSchedulingGroup(pod_group_name=group)
    return Pod(
        metadata=PodMeta(name="p", namespace="n", uid=uid),
        spec=PodSpec(scheduling_group=named),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("found", "group", "used"),
    [
        (pod(None), "", []),
        (pod(""), "", []),
        (pod("g"), "n/g", ["n/g"]),
        (pod("g", ""), "n/g", ["n/g"]),
        (pod("g", "Pending"), "n/g", ["n/g"]),
        (pod("g", "Unknown"), "n/g", ["n/g"]),
        (pod("g", "Succeeded"), "n/g", []),
        (pod("g", "Failed"), "n/g", []),
    ],
)
def test_a_pod_uses_its_group_until_it_has_ended(
    found: Pod, group: str, used: list[str]
) -> None:
    assert group_of(found) == group
    assert list(used_by(found)) == used


def test_the_index_sees_that_a_pod_has_ended() -> None:
    store: Store[Pod] = Store()
    store.add_index(BY_GROUP)
    found = []
    for each in (pod("g"), pod("g", "Pending"), pod("g", "Failed"), pod("h", uid="2")):
        store.put(each)
        found.append([store.count(BY_GROUP, f"n/{name}") for name in "gh"])
    assert found == [[1, 0], [1, 0], [0, 0], [0, 1]]
