"""Deleted claims stay while pods use them, in memory and on virtual time."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.transport import Response
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_names
from controller_manager.controllers.storage.claimprotection import UNUSED_SINCE
from controller_manager.controllers.storage.claimprotection.controller import FINALIZER
from controller_manager.controllers.storage.claimprotection.pods import uses
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.storage.objects import (
    OF_CONTAINERS,
    RUNNING,
    Storage,
    ephemeral,
    owned_by,
)

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("pvc-protection",))
FEATURES = FeatureGates({UNUSED_SINCE.name: True})
TRACKING = replace(CONFIG, features=FEATURES)
HOLD = "example.com/hold"
PLACE = "/api/v1/namespaces/default/persistentvolumeclaims/data"
OF_PODS = ("GET", "/namespaces/default/pods")
OF_CLAIM = ("GET", "/persistentvolumeclaims/data")
PROTECTED = {"data": [FINALIZER]}


async def claims(cluster: Storage) -> dict[str, list[str]]:
    await asyncio.sleep(1)
    return cluster.finalizers(CLAIMS)


def strip(cluster: Storage, name: str = "data") -> None:
    cluster.edit(CLAIMS, name, metadata={"finalizers": None})


async def test_a_deleted_claim_goes_with_its_last_pod() -> None:
    """The role of upstream suffices; the rest of the claim stays as it is."""
    cluster = Storage(rbac=True)
    cluster.claim(metadata={"finalizers": [HOLD], "annotations": {"a": "b"}})
    cluster.pod("one", "data", nodeName="n")
    cluster.pod("two", "data", nodeName="n")
    async with cluster.confined_manager(CONFIG) as recording:
        cluster.remove(CLAIMS, "data")
        cluster.remove(PODS, "one")
        assert await claims(cluster) == {"data": [HOLD, FINALIZER]}
        cluster.remove(PODS, "two")
        assert await claims(cluster) == {"data": [HOLD]}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]
    assert cluster.stored(CLAIMS, "data")["metadata"]["annotations"] == {"a": "b"}


async def test_a_claim_that_only_pods_without_a_node_name_goes_at_once(
    cluster: Storage,
) -> None:
    """No kubelet would start such a pod."""
    cluster.claim()
    cluster.pod("web", "data")
    async with cluster.manager(CONFIG):
        cluster.remove(CLAIMS, "data")
        assert await claims(cluster) == {}


async def test_the_claim_of_an_ephemeral_volume_goes_when_its_pod_is_done(
    cluster: Storage,
) -> None:
    hold = {"finalizers": [HOLD]}
    uid = cluster.pod("web", metadata=hold, nodeName="n", volumes=[ephemeral("data")])
    cluster.claim("web-data", metadata=owned_by("web", uid))
    async with cluster.manager(CONFIG):
        cluster.remove(PODS, "web", grace=30)
        cluster.remove(CLAIMS, "web-data")
        assert await claims(cluster) == {"web-data": [FINALIZER]}
        cluster.remove(PODS, "web")
        assert await claims(cluster) == {}


async def test_a_claim_without_the_finalizer_gets_it(cluster: Storage) -> None:
    """It is older than the controller, or a user has removed the finalizer."""
    cluster.claim()
    strip(cluster)
    cluster.claim("other")
    async with cluster.manager(CONFIG) as recording:
        assert await claims(cluster) == {"data": [FINALIZER], "other": [FINALIZER]}
        strip(cluster, "other")
        assert await claims(cluster) == {"data": [FINALIZER], "other": [FINALIZER]}
    assert [each.method for each in recording.writes] == ["PUT", "PUT"]


async def test_a_claim_of_the_same_name_is_another_claim(cluster: Storage) -> None:
    cluster.claim()

    def replaces() -> None:
        strip(cluster)
        cluster.claim()

    transport = Before(cluster, "PUT", "/persistentvolumeclaims/data", replaces)
    async with cluster.manager(CONFIG, transport):
        cluster.remove(CLAIMS, "data")
        assert await claims(cluster) == PROTECTED
    assert transport.seen


async def test_a_claim_that_is_deleted_right_before_it_is_read_keeps_its_finalizer(
    cluster: Storage,
) -> None:
    """The cached claim lacks the finalizer, so its users were not searched."""
    cluster.claim()
    strip(cluster)
    cluster.pod("web", "data", nodeName="n")

    def deletes() -> None:
        cluster.edit(CLAIMS, "data", metadata={"finalizers": [FINALIZER]})
        cluster.remove(CLAIMS, "data")

    transport = Before(cluster, *OF_CLAIM, deletes)
    async with cluster.manager(CONFIG, transport):
        assert await claims(cluster) == PROTECTED
        cluster.remove(PODS, "web")
        await asyncio.sleep(1)
        assert await claims(cluster) == {}
    assert transport.seen


async def test_claims_that_are_deleted_together_share_a_list(cluster: Storage) -> None:
    """The pods of a namespace may be many."""
    cluster.pod("web", "data", nodeName="n")
    for name in (*(f"data-{number}" for number in range(50)), "data"):
        cluster.claim(name)
        cluster.remove(CLAIMS, name)
    lists = Before(cluster, *OF_PODS, lambda: None)
    async with cluster.manager(CONFIG, lists) as recording:
        assert await claims(cluster) == PROTECTED
        assert (lists.seen, len(recording.writes)) == (1, 50)
        cluster.claim("later")
        cluster.remove(CLAIMS, "later")
        assert await claims(cluster) == PROTECTED
    assert lists.seen == 2


@pytest.mark.parametrize("ahead", ["persistentvolumeclaims", "pods"])
async def test_a_claim_is_released_if_resource_versions_of_pods_are_far_ahead(
    cluster: Storage, ahead: str
) -> None:
    """Claims and pods may each be in an etcd of their own."""
    cluster.server.storage.collection(ahead).separate(1_000_000)
    cluster.claim()
    cluster.pod("web", "data", nodeName="n")
    async with cluster.manager(CONFIG):
        cluster.remove(CLAIMS, "data")
        assert await claims(cluster) == PROTECTED
        cluster.remove(PODS, "web")
        assert await claims(cluster) == {}


def starts_unseen(cluster: Storage) -> Before:
    """Bind a pod right before pods of the namespace are listed."""
    return Before(cluster, *OF_PODS, lambda: cluster.pod("web", "data", nodeName="n"))


async def test_a_pod_that_the_cache_does_not_show_keeps_its_claim(
    cluster: Storage,
) -> None:
    cluster.claim()
    async with cluster.manager(CONFIG, starts_unseen(cluster)):
        cluster.remove(CLAIMS, "data")
        assert await claims(cluster) == PROTECTED
        cluster.remove(PODS, "web")
        assert await claims(cluster) == {}


async def test_a_list_that_is_older_than_the_cache_decides_nothing(
    cluster: Storage,
) -> None:
    """An API server behind a cache may answer so; the sync is retried."""
    cluster.claim()
    cluster.remove(CLAIMS, "data")
    old = Response(200, {}, b'{"metadata": {"resourceVersion": "1"}, "items": []}')
    transport = Before(cluster, *OF_PODS, lambda: old, times=2)
    async with cluster.manager(CONFIG, transport):
        assert await claims(cluster) == {}
    assert transport.seen == 3


# Since when no pod uses a claim, if the gate is enabled.


def condition(status: str, reason: str, message: str) -> JSON:
    return {"type": "Unused", "status": status, "reason": reason, "message": message}


IDLE = condition("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
USED = condition("False", "PodUsingPVC", "A pod is currently referencing this PVC")


async def unused(cluster: Storage, ago: float = 0, name: str = "data") -> JSON:
    """Return the condition after a second; its time is checked if `ago` is given."""
    await asyncio.sleep(1)
    status = cluster.stored(CLAIMS, name)["status"]
    (found,) = (each for each in status["conditions"] if each["type"] == "Unused")
    since = found.pop("lastTransitionTime", None)
    if ago:
        now = cluster.clock.now() - timedelta(seconds=ago)
        assert since == format_time(now)
    return {key: value for key, value in found.items() if value is not None}


async def test_a_claim_is_unused_when_its_last_pod_has_ended() -> None:
    cluster = Storage(rbac=True, features=FEATURES)
    resizing = {"type": "Resizing", "status": "True"}
    cluster.claim(status={"phase": "Bound", "conditions": [resizing]})
    async with cluster.confined_manager(TRACKING) as recording:
        assert await unused(cluster, 1) == IDLE
        cluster.pod("one", "data")
        cluster.pod("two", "data", nodeName="n")
        assert await unused(cluster, 1) == USED
        cluster.set_status("two", phase="Succeeded")
        assert await unused(cluster, 2) == USED
        cluster.remove(PODS, "one")
        assert await unused(cluster, 1) == IDLE
        cluster.remove(PODS, "two")
        assert await unused(cluster, 2) == IDLE
    first, _ = cluster.stored(CLAIMS, "data")["status"]["conditions"]
    assert first == {**resizing, "lastProbeTime": None, "lastTransitionTime": None}
    writes = [(each.method, each.path, each.status) for each in recording.writes]
    assert writes == [("PUT", f"{PLACE}/status", 200)] * 3


@pytest.mark.parametrize("phase", ["Pending", "Bound", "Lost"])
async def test_a_claim_has_the_condition_in_every_phase(
    cluster: Storage, phase: str
) -> None:
    cluster.claim(status={"phase": phase})
    async with cluster.manager(TRACKING):
        assert await unused(cluster, 1) == IDLE
        cluster.pod("web", "data")
        assert await unused(cluster, 1) == USED


@pytest.mark.parametrize(("statuses", "runs"), OF_CONTAINERS)
async def test_a_deleted_pod_uses_a_claim_while_a_container_runs(
    cluster: Storage, statuses: JSON, *, runs: bool
) -> None:
    cluster.claim()
    cluster.pod("web", "data", metadata={"finalizers": [HOLD]}, nodeName="n")
    async with cluster.manager(TRACKING):
        cluster.set_status("web", containerStatuses=[RUNNING])
        assert await unused(cluster) == USED
        cluster.remove(PODS, "web", grace=30)
        assert await unused(cluster) == USED
        cluster.set_status("web", containerStatuses=[])
        cluster.set_status("web", **statuses)
        assert await unused(cluster) == (USED if runs else IDLE)


@pytest.mark.parametrize(("owned", "expected"), [(True, USED), (False, IDLE)])
async def test_a_pod_uses_a_claim_of_an_ephemeral_volume_that_it_owns(
    cluster: Storage, expected: JSON, *, owned: bool
) -> None:
    """A claim of the same name may have been there before."""
    uid = cluster.pod("web", volumes=[ephemeral("scratch")])
    owner = owned_by("web", uid if owned else "another")
    cluster.claim("web-scratch", metadata=owner)
    async with cluster.manager(TRACKING):
        assert await unused(cluster, name="web-scratch") == expected


async def test_a_pod_that_the_cache_does_not_show_uses_its_claim(
    cluster: Storage,
) -> None:
    cluster.claim()
    async with cluster.manager(TRACKING, starts_unseen(cluster)) as recording:
        assert await unused(cluster, 1) == USED
        cluster.remove(PODS, "web")
        assert await unused(cluster, 1) == IDLE
    assert len(recording.writes) == 2


async def test_claims_that_are_unused_together_share_a_list(cluster: Storage) -> None:
    names = (*(f"data-{number}" for number in range(50)), "data")
    for name in names:
        cluster.claim(name)
    cluster.pod("web", "data")
    lists = Before(cluster, *OF_PODS, lambda: None)
    async with cluster.manager(TRACKING, lists) as recording:
        assert await unused(cluster) == USED
        assert (lists.seen, len(recording.writes)) == (1, 51)
        for name in names:
            cluster.edit(CLAIMS, name, metadata={"labels": {"a": "b"}})
        await asyncio.sleep(1)
        assert (lists.seen, len(recording.writes)) == (1, 51)
        cluster.remove(PODS, "web")
        assert await unused(cluster) == IDLE
    assert (lists.seen, len(recording.writes)) == (2, 52)


async def test_a_used_claim_keeps_a_condition_that_is_not_true(
    cluster: Storage,
) -> None:
    """Upstream writes only a condition that says that the claim is unused."""
    cluster.claim(status={"conditions": [{"type": "Unused", "status": "Unknown"}]})
    cluster.pod("web", "data")
    async with cluster.manager(TRACKING) as recording:
        assert (await unused(cluster))["status"] == "Unknown"
        assert recording.writes == []
        cluster.remove(PODS, "web")
        assert await unused(cluster, 1) == IDLE


async def test_a_claim_gets_its_condition_before_its_finalizer(
    cluster: Storage,
) -> None:
    """In upstream's order."""
    cluster.claim()
    strip(cluster)
    async with cluster.manager(TRACKING) as recording:
        assert await unused(cluster) == IDLE
    writes = [(each.path, each.status) for each in recording.writes]
    assert writes == [(f"{PLACE}/status", 200), (PLACE, 200)]
    assert cluster.finalizers(CLAIMS) == PROTECTED


async def test_a_claim_that_is_deleted_keeps_its_condition(cluster: Storage) -> None:
    cluster.claim(metadata={"finalizers": [HOLD]})
    cluster.pod("web", "data", nodeName="n")
    async with cluster.manager(TRACKING):
        assert await unused(cluster) == USED
        cluster.remove(CLAIMS, "data")
        cluster.remove(PODS, "web")
        assert await unused(cluster) == USED
    assert cluster.finalizers(CLAIMS) == {"data": [HOLD]}


async def test_without_its_gate_a_condition_stays_as_it_is(cluster: Storage) -> None:
    """It may be wrong by now, as upstream's."""
    cluster.claim()
    async with cluster.manager(TRACKING):
        assert await unused(cluster) == IDLE
    async with cluster.manager(CONFIG):
        cluster.pod("web", "data")
        assert await unused(cluster, 1.5) == IDLE


DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}
SCRATCH = {"name": "scratch", "ephemeral": {}}
OTHER = {"name": "config"}


def pod(*volumes: JSON, node: str = "n", phase: str = "", **deleted: Any) -> Pod:
    metadata = {"name": "web", "namespace": "ns", "uid": "pod", **deleted}
    spec = {"nodeName": node, "volumes": volumes or None}
    obj = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(obj, Pod)


def claim(name: str = "claim", owner: str = "") -> PartialObject:
    """Return a claim, controlled by the owner of that uid if there is one."""
    owners = owned_by("web", owner) if owner else {}
    metadata = {"name": name, "namespace": "ns", **owners}
    return msgspec.convert({"metadata": metadata}, PartialObject)


DELETED: JSON = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
DONE: JSON = {**DELETED, "deletionGracePeriodSeconds": 0}
ENDING: JSON = {**DELETED, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("user", "used", "is_used"),
    [
        (pod(), claim(), False),
        (pod(OTHER, DATA), claim(), True),
        (pod(OTHER, DATA), claim("other"), False),
        (pod(DATA, node=""), claim(), False),
        (pod(DATA, phase="Succeeded"), claim(), True),
        (pod(DATA, **DELETED), claim(), True),
        (pod(DATA, **DONE), claim(), True),
        (pod(DATA, **DONE), claim(owner="pod"), False),
        (pod(DATA, **DELETED), claim(owner="pod"), True),
        (pod(SCRATCH), claim("web-scratch", "pod"), True),
        (pod(SCRATCH), claim("web-scratch", "other"), False),
        (pod(SCRATCH), claim("web-scratch"), False),
        (pod(SCRATCH, node=""), claim("web-scratch", "pod"), False),
        (pod(SCRATCH, **ENDING), claim("web-scratch", "pod"), True),
        (pod(SCRATCH, **DONE), claim("web-scratch", "pod"), False),
    ],
)
def test_a_pod_uses_a_claim(user: Pod, used: PartialObject, *, is_used: bool) -> None:
    """It must have a node, and own the claim of an ephemeral volume."""
    assert uses(user, used) is is_used


def test_a_pod_names_its_claims_also_if_it_does_not_use_them() -> None:
    user = pod(DATA, OTHER, SCRATCH, node="")
    assert list(claim_names(user)) == ["claim", "web-scratch"]
    assert list(PODS_BY_CLAIM.function(user)) == ["ns/claim", "ns/web-scratch"]
