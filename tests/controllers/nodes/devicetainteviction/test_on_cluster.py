"""Pods with tainted devices are evicted on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH, Cluster
from tests.controllers.nodes.devicetainteviction.fixtures import (
    CANCELLING,
    DRIVER,
    MARKING,
    TAINT,
    add_claim,
    add_rule,
    add_slice,
    add_user,
    condition,
    config,
    device,
    event,
    events,
    evicted,
    publish,
    tolerating,
)
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


CONDITION: JSON = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint",
}


@pytest_asyncio.fixture(name="gpus")
async def cluster_with_devices() -> Cluster:
    """Return a cluster with two devices, and roles that know of rules."""
    features = FeatureGates({"DRADeviceTaintRules": True})
    cluster = Cluster(rbac=True, features=features)
    cluster.add("Node", "a")
    add_slice(cluster, "slice", device("gpu-0"), device("gpu-1"))
    return cluster


async def test_a_pod_goes_when_its_driver_taints_its_device(gpus: Cluster) -> None:
    await add_user(gpus, "p", "gpu-0")
    await add_user(gpus, "other", "gpu-1")
    async with gpus.confined_manager(config()) as recording:
        await asyncio.sleep(1)
        await publish(gpus, "slice", device("gpu-0", TAINT), device("gpu-1"))
        await asyncio.sleep(1)
        assert await evicted(gpus) == ["p"]
    writes = recording.writes
    assert [(each.method, each.path.rpartition("/pods/")[2]) for each in writes] == [
        ("PATCH", "p/status"),
        ("DELETE", "p"),
    ]
    bodies: list[JSON] = [msgspec.json.decode(each.body) for each in writes]
    uid = bodies[0]["metadata"]["uid"]
    (patched,) = bodies[0]["status"]["conditions"]
    assert patched.pop("lastTransitionTime")
    assert patched == CONDITION
    assert bodies[1]["preconditions"] == {"uid": uid}
    assert await events(gpus) == [event("p", MARKING)]


async def test_the_time_counts_from_the_taint_also_over_a_restart(
    gpus: Cluster,
) -> None:
    await add_user(gpus, "p", "gpu-0", tolerations=(tolerating(60),))
    await publish(gpus, "slice", device("gpu-0", TAINT))
    await asyncio.sleep(20)
    async with gpus.confined_manager(config()):
        await asyncio.sleep(20)
        assert await evicted(gpus) == []
    async with gpus.confined_manager(config()):
        await asyncio.sleep(19)
        assert await evicted(gpus) == []
        await asyncio.sleep(3)
        assert await evicted(gpus) == ["p"]


async def test_tolerations_of_claims_keep_pods(gpus: Cluster) -> None:
    """For ever or for some time; one of all effects does not count, as upstream."""
    for_all = {"key": "broken", "operator": "Exists"}
    await add_user(gpus, "ever", "gpu-0", tolerations=(tolerating(), tolerating(5)))
    await add_user(gpus, "both", "gpu-0", tolerations=(tolerating(90), tolerating(30)))
    await add_user(gpus, "other", "gpu-0", tolerations=(tolerating(key="x"),))
    await add_user(gpus, "effect", "gpu-0", tolerations=(for_all,))
    async with gpus.confined_manager(config()):
        await publish(gpus, "slice", device("gpu-0", TAINT))
        await asyncio.sleep(28)
        assert await evicted(gpus) == ["effect", "other"]
        await asyncio.sleep(5)
        assert await evicted(gpus) == ["both", "effect", "other"]
        await asyncio.sleep(500)
        assert await evicted(gpus) == ["both", "effect", "other"]


async def test_an_eviction_is_cancelled_when_the_taint_goes(gpus: Cluster) -> None:
    await add_user(gpus, "p", "gpu-0", tolerations=(tolerating(60),))
    await add_user(gpus, "gone", "gpu-0", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()) as recording:
        await publish(gpus, "slice", device("gpu-0", TAINT))
        await asyncio.sleep(10)
        await gpus.client.delete(PODS, "default", "gone")
        await asyncio.sleep(10)
        await publish(gpus, "slice", device("gpu-0"))
        await asyncio.sleep(300)
        assert recording.writes == []
    assert await events(gpus) == [event("p", CANCELLING)]


@pytest.mark.parametrize("how", ["released", "deleted"])
async def test_an_eviction_is_cancelled_when_the_claim_goes(
    gpus: Cluster, how: str
) -> None:
    await add_user(gpus, "p", "gpu-0", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()) as recording:
        await publish(gpus, "slice", device("gpu-0", TAINT))
        await asyncio.sleep(10)
        if how == "deleted":
            await gpus.client.delete(RESOURCE_CLAIMS, "default", "p")
        else:
            patch = {"status": {"reservedFor": None}}
            await gpus.client.patch(
                RESOURCE_CLAIMS, "default", "p", patch, PatchType.MERGE, "status"
            )
        await asyncio.sleep(300)
        assert recording.writes == []
    assert await events(gpus) == [event("p", CANCELLING)]


async def test_only_claims_of_the_pod_count(gpus: Cluster) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    containers = [{"name": "c", "image": "app:v1"}]
    for name, node in (("bound", "a"), ("unbound", ""), ("strange", "a")):
        spec: JSON = {"containers": containers, "resourceClaims": claims}
        if node:
            spec["nodeName"] = node
        statuses = [{"name": "gpu", "resourceClaimName": name}]
        gpus.add("Pod", name, spec=spec, status={"resourceClaimStatuses": statuses})
        uid = (await gpus.client.get(PODS, "default", name)).metadata.uid
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": name,
            "uid": "x" if name == "strange" else uid,
            "controller": True,
        }
        add_claim(gpus, name, uid, ("gpu-0",), ownerReferences=[owner])
    await add_user(gpus, "unreserved")
    add_claim(gpus, "mine", "x", ("gpu-0",))
    async with gpus.confined_manager(config()):
        await publish(gpus, "slice", device("gpu-0", TAINT))
        await asyncio.sleep(5)
        assert await evicted(gpus) == ["bound"]


async def test_only_the_last_generation_of_a_pool_counts(gpus: Cluster) -> None:
    await add_user(gpus, "p", "gpu-0", tolerations=(tolerating(60),))
    await add_user(gpus, "q", "gpu-1")
    await publish(gpus, "slice", device("gpu-0", TAINT), device("gpu-1"))
    async with gpus.confined_manager(config()):
        await asyncio.sleep(10)
        add_slice(gpus, "new", device("gpu-0"), device("gpu-1"), generation=2)
        await asyncio.sleep(5)
        assert await events(gpus) == [event("p", CANCELLING)]
        await asyncio.sleep(100)
        assert await evicted(gpus) == []
        await gpus.client.delete(RESOURCE_SLICES, "", "new")
        await asyncio.sleep(5)
        assert await evicted(gpus) == ["p"]
        add_slice(gpus, "newer", device("gpu-1", TAINT), generation=3)
        await asyncio.sleep(5)
        assert await evicted(gpus) == ["p", "q"]


async def test_a_rule_evicts_and_shows_its_progress(gpus: Cluster) -> None:
    """At once, and then every ten seconds; the text of the status is upstream's."""
    await add_user(gpus, "p", "gpu-0")
    await add_user(gpus, "later", "gpu-1", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()):
        await asyncio.sleep(1)
        add_rule(gpus, "rule", driver=DRIVER)
        await asyncio.sleep(1)
        assert await condition(gpus, "rule") == (
            "True",
            "PodsPendingEviction",
            "2 pods need to be evicted in 1 namespace.",
        )
        assert await evicted(gpus) == ["p"]
        await asyncio.sleep(15)
        assert await condition(gpus, "rule") == (
            "True",
            "PodsPendingEviction",
            (
                "1 pod needs to be evicted in 1 namespace. "
                "1 pod evicted since starting the controller."
            ),
        )
        await asyncio.sleep(70)
        assert await evicted(gpus) == ["later", "p"]
        assert await condition(gpus, "rule") == (
            "False",
            "Completed",
            "2 pods evicted since starting the controller.",
        )


async def test_a_rule_without_effect_shows_the_effect_it_would_have(
    gpus: Cluster,
) -> None:
    await add_user(gpus, "p", "gpu-0")
    async with gpus.confined_manager(config()):
        add_rule(gpus, "rule", "None", device="gpu-0")
        await asyncio.sleep(30)
        assert await evicted(gpus) == []
        assert await condition(gpus, "rule") == (
            "False",
            "NoEffect",
            (
                "1 published device selected. 1 allocated device selected. "
                "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
                "This information will not be updated again. "
                "Recreate the DeviceTaintRule to trigger an update."
            ),
        )
        patch = {"spec": {"taint": {"effect": "NoExecute"}}}
        await gpus.client.patch(DEVICE_TAINT_RULES, "", "rule", patch, PatchType.MERGE)
        await asyncio.sleep(5)
        assert await evicted(gpus) == ["p"]


async def test_a_rule_that_goes_cancels_its_evictions(gpus: Cluster) -> None:
    await add_user(gpus, "p", "gpu-0", tolerations=(tolerating(60),))
    await add_user(gpus, "q", "gpu-1", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()):
        add_rule(gpus, "gone", device="gpu-0")
        add_rule(gpus, "changed", device="gpu-1")
        await asyncio.sleep(20)
        await gpus.client.delete(DEVICE_TAINT_RULES, "", "gone")
        patch = {"spec": {"taint": {"effect": "NoSchedule"}}}
        where = (DEVICE_TAINT_RULES, "", "changed")
        await gpus.client.patch(*where, patch, PatchType.MERGE)
        await asyncio.sleep(300)
        assert await evicted(gpus) == []
        assert await condition(gpus, "changed") == (
            "False",
            "OtherEffect",
            "Eviction only happens for the NoExecute effect.",
        )
    assert await events(gpus) == [event("p", CANCELLING), event("q", CANCELLING)]


async def test_rules_do_nothing_while_their_gate_is_off(gpus: Cluster) -> None:
    """As by default in 1.36; taints of drivers count."""
    await add_user(gpus, "p", "gpu-0")
    await add_user(gpus, "q", "gpu-1")
    async with gpus.confined_manager(config(rules=False)):
        add_rule(gpus, "rule", driver=DRIVER)
        await publish(gpus, "slice", device("gpu-0"), device("gpu-1", TAINT))
        await asyncio.sleep(60)
        assert await evicted(gpus) == ["q"]
        assert await condition(gpus, "rule") is None


async def test_an_eviction_that_fails_is_tried_again(cluster: Cluster) -> None:
    cluster.add("Node", "a")
    add_slice(cluster, "slice", device("gpu-0"))
    await add_user(cluster, "p", "gpu-0")
    is_broken = True

    async def refuse(request: Request) -> Response | None:
        if is_broken and request.method in ("DELETE", "PATCH"):
            body = b'{"kind":"Status","code":500,"reason":"InternalError"}'
            return Response(500, {}, body)
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, refuse)):
        await asyncio.sleep(1)
        add_rule(cluster, "rule", driver=DRIVER)
        await asyncio.sleep(100)
        is_broken = False
        await asyncio.sleep(200)
        assert await evicted(cluster) == ["p"]
        assert await condition(cluster, "rule") == (
            "False",
            "Completed",
            "1 pod evicted since starting the controller.",
        )
    assert await events(cluster) == [event("p", MARKING)]


async def test_a_pod_stays_if_the_taint_is_gone_at_the_api_server(
    cluster: Cluster,
) -> None:
    """The watch is late; upstream evicts the pod."""
    cluster.add("Node", "a")
    add_slice(cluster, "slice", device("gpu-0", TAINT), device("gpu-1"))
    await add_user(cluster, "p", "gpu-0")
    await add_user(cluster, "q", "gpu-1")
    add_rule(cluster, "rule", device="gpu-1")

    async def untaint(request: Request) -> None:
        if request.method == "GET" and request.path.endswith("/resourceslices/slice"):
            await publish(cluster, "slice", device("gpu-0"), device("gpu-1"))
        if request.method == "GET" and request.path.endswith("/devicetaintrules/rule"):
            await cluster.client.delete(DEVICE_TAINT_RULES, "", "rule")

    async with cluster.manager(config(), Meddler(cluster.transport, untaint)):
        await asyncio.sleep(300)
    assert await evicted(cluster) == []


async def test_nothing_is_evicted_while_the_gate_of_taints_is_off(
    cluster: Cluster,
) -> None:
    add_slice(cluster, "slice", device("gpu-0", TAINT))
    await add_user(cluster, "p", "gpu-0")
    made = config(rules=False, taints=False)
    async with cluster.manager(made) as recording:
        await asyncio.sleep(60)
        assert (await evicted(cluster), recording.writes) == ([], [])


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wrong_clock_of_the_manager_changes_no_time(
    cluster: Cluster, hours: int
) -> None:
    cluster.add("Node", "a")
    add_slice(cluster, "slice", device("gpu-0", TAINT))
    await add_user(cluster, "p", "gpu-0", tolerations=(tolerating(60),))
    wrong = LoopClock(EPOCH + timedelta(hours=hours))
    async with cluster.manager(config(), clock=wrong):
        await asyncio.sleep(59)
        assert await evicted(cluster) == []
        await asyncio.sleep(3)
        assert await evicted(cluster) == ["p"]


async def _terminating(cluster: Cluster) -> set[str]:
    pods = await cluster.client.list_page(PODS)
    return {each.metadata.name for each in pods.items if is_deleting(each)}


async def test_a_new_generation_of_a_pool_concerns_all_its_devices() -> None:
    """Devices of older slices stop counting, until the new generation is gone."""
    cluster = Cluster()
    for number in range(3):
        add_slice(cluster, f"s{number}", device(f"d{number}", TAINT))
        waits = (tolerating(100),)
        await add_user(cluster, f"p{number}", f"d{number}", tolerations=waits)
    async with cluster.manager(config()):
        await asyncio.sleep(10)
        add_slice(cluster, "new", device("d0"), generation=2)
        await asyncio.sleep(200)
        assert await _terminating(cluster) == set()
        await cluster.client.delete(RESOURCE_SLICES, "", "new")
        await asyncio.sleep(200)
        assert await _terminating(cluster) == {"p0", "p1", "p2"}
