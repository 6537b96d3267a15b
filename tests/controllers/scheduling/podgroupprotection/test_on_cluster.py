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
from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    BY_GROUP,
    group_of,
    used_by,
)
from controller_manager.informers.store import Store
from controller_manager.options.gates import FeatureGates
from tests.clusters import Write, make_config
from tests.controllers.hands import Before, Hands

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("podgroup-protection-controller", "ttl"),
    use_service_account_credentials=True,
)
GROUPS_OF_PODS: Final = FeatureGates({"GenericWorkload": True})
ENABLED: Final = replace(CONFIG, features=GROUPS_OF_PODS)
PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"


class Groups(Hands):
    """A cluster with groups of pods, whose gate is on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(features=GROUPS_OF_PODS, **options)

    def group(self, name: str = "g", **metadata: Any) -> None:
        spec: JSON = {"schedulingPolicy": {"basic": {}}}
        self.put(POD_GROUPS, name, metadata=metadata, spec=spec)

    def pod(self, name: str, group: str = "g") -> None:
        containers = [{"name": "c", "image": "i"}]
        belongs = {"podGroupName": group}
        self.put(
            PODS, name, spec={"containers": containers, "schedulingGroup": belongs}
        )

    def end(self, name: str, phase: str) -> None:
        self.edit(PODS, name, status={"phase": phase})

    async def left(self, seconds: float = 1) -> list[str] | None:
        """Return the finalizers of the group "g" after a time, `None` if it is gone."""
        await asyncio.sleep(seconds)
        return self.finalizers(POD_GROUPS).get("g")


@pytest.fixture
async def cluster() -> Groups:
    return Groups()


def releases(writes: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (each.method, each.path.rpartition("/")[2], each.status)
        for each in writes
        if "podgroups" in each.path
    ]


async def test_a_group_that_no_pod_uses_goes_at_once() -> None:
    cluster = Groups(rbac=True)
    cluster.group()
    cluster.group("kept")
    async with cluster.confined_manager(ENABLED) as recording:
        await asyncio.sleep(1)
        cluster.remove(POD_GROUPS, "g")
        await asyncio.sleep(1)
    assert cluster.finalizers(POD_GROUPS) == {"kept": [PROTECTION]}
    assert releases(recording.writes) == [("PUT", "g", 200)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "gone"])
async def test_a_group_goes_when_its_last_pod_has_ended(
    cluster: Groups, phase: str
) -> None:
    cluster.group()
    for name in ("a", "b"):
        cluster.pod(name)
    cluster.pod("other", "other")

    def end(name: str) -> None:
        if phase == "gone":
            cluster.remove(PODS, name)
        else:
            cluster.end(name, phase)

    async with cluster.manager(ENABLED):
        cluster.remove(POD_GROUPS, "g")
        assert await cluster.left() == [PROTECTION]
        end("a")
        assert await cluster.left() == [PROTECTION]
        end("b")
        assert await cluster.left() is None


async def test_other_finalizers_stay(cluster: Groups) -> None:
    cluster.group(finalizers=["example.com/hold"])
    async with cluster.manager(ENABLED) as recording:
        cluster.remove(POD_GROUPS, "g")
        assert await cluster.left() == ["example.com/hold"]
    assert releases(recording.writes) == [("PUT", "g", 200)]


async def test_a_pod_that_no_cache_shows_yet_holds_its_group(cluster: Groups) -> None:
    """Upstream lets the group go."""
    cluster.group()
    late = Before(
        cluster, "GET", "/namespaces/default/pods", lambda: cluster.pod("late")
    )
    async with cluster.manager(ENABLED, late) as recording:
        cluster.remove(POD_GROUPS, "g")
        assert await cluster.left(30) == [PROTECTION]
        assert late.seen
        assert releases(recording.writes) == []
        cluster.end("late", "Succeeded")
        assert await cluster.left() is None


async def test_a_group_that_has_changed_is_synced_again(cluster: Groups) -> None:
    cluster.group()
    labels = {"labels": {"l": "1"}}
    change = Before(
        cluster, "PUT", "/g", lambda: cluster.edit(POD_GROUPS, "g", metadata=labels)
    )
    async with cluster.manager(ENABLED, change) as recording:
        cluster.remove(POD_GROUPS, "g")
        assert await cluster.left(5) is None
    assert releases(recording.writes) == [("PUT", "g", 409), ("PUT", "g", 200)]


async def test_without_its_gate_it_does_not_run(cluster: Groups) -> None:
    """The gate is off by default."""
    cluster.group()
    async with cluster.manager(CONFIG):
        cluster.remove(POD_GROUPS, "g")
        assert await cluster.left(60) == [PROTECTION]


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
