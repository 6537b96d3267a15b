"""Pods with tainted devices are evicted on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.options.gates import FeatureGates
from tests.clusters import EPOCH
from tests.meddler import Meddler

from .fixtures import (
    CANCELLING,
    DRIVER,
    MARKING,
    TAINT,
    Devices,
    config,
    device,
    event,
    tolerating,
)

pytestmark = pytest.mark.looptime


CONDITION: JSON = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint",
}


@pytest.fixture
async def cluster() -> Devices:
    return Devices()


@pytest_asyncio.fixture(name="gpus")
async def cluster_with_devices() -> Devices:
    """Return a cluster with two devices, and roles that know of rules."""
    features = FeatureGates({"DRADeviceTaintRules": True})
    cluster = Devices(rbac=True, features=features)
    cluster.put(NODES, "a")
    cluster.add_slice("slice", device("gpu-0"), device("gpu-1"))
    return cluster


async def test_a_pod_goes_when_its_driver_taints_its_device(gpus: Devices) -> None:
    gpus.add_user("p", "gpu-0")
    gpus.add_user("other", "gpu-1")
    async with gpus.confined_manager(config()) as recording:
        await asyncio.sleep(1)
        gpus.publish("slice", device("gpu-0", TAINT), device("gpu-1"))
        await asyncio.sleep(1)
        assert gpus.evicted() == ["p"]
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
    assert gpus.told() == [event("p", MARKING)]


async def test_the_time_counts_from_the_taint_also_over_a_restart(
    gpus: Devices,
) -> None:
    gpus.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    gpus.publish("slice", device("gpu-0", TAINT))
    await asyncio.sleep(20)
    async with gpus.confined_manager(config()):
        await asyncio.sleep(20)
        assert gpus.evicted() == []
    async with gpus.confined_manager(config()):
        await asyncio.sleep(19)
        assert gpus.evicted() == []
        await asyncio.sleep(3)
        assert gpus.evicted() == ["p"]


async def test_tolerations_of_claims_keep_pods(gpus: Devices) -> None:
    """For ever or for some time; one of all effects does not count, as upstream."""
    for_all = {"key": "broken", "operator": "Exists"}
    gpus.add_user("ever", "gpu-0", tolerations=(tolerating(), tolerating(5)))
    gpus.add_user("both", "gpu-0", tolerations=(tolerating(90), tolerating(30)))
    gpus.add_user("other", "gpu-0", tolerations=(tolerating(key="x"),))
    gpus.add_user("effect", "gpu-0", tolerations=(for_all,))
    async with gpus.confined_manager(config()):
        gpus.publish("slice", device("gpu-0", TAINT))
        await asyncio.sleep(28)
        assert gpus.evicted() == ["effect", "other"]
        await asyncio.sleep(5)
        assert gpus.evicted() == ["both", "effect", "other"]
        await asyncio.sleep(500)
        assert gpus.evicted() == ["both", "effect", "other"]


async def test_an_eviction_is_cancelled_when_the_taint_goes(gpus: Devices) -> None:
    gpus.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    gpus.add_user("gone", "gpu-0", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()) as recording:
        gpus.publish("slice", device("gpu-0", TAINT))
        await asyncio.sleep(10)
        gpus.remove(PODS, "gone", grace=30)
        await asyncio.sleep(10)
        gpus.publish("slice", device("gpu-0"))
        await asyncio.sleep(300)
        assert recording.writes == []
    assert gpus.told() == [event("p", CANCELLING)]


@pytest.mark.parametrize("how", ["released", "deleted"])
async def test_an_eviction_is_cancelled_when_the_claim_goes(
    gpus: Devices, how: str
) -> None:
    gpus.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()) as recording:
        gpus.publish("slice", device("gpu-0", TAINT))
        await asyncio.sleep(10)
        if how == "deleted":
            gpus.remove(RESOURCE_CLAIMS, "p")
        else:
            gpus.edit(RESOURCE_CLAIMS, "p", status={"reservedFor": None})
        await asyncio.sleep(300)
        assert recording.writes == []
    assert gpus.told() == [event("p", CANCELLING)]


async def test_only_claims_of_the_pod_count(gpus: Devices) -> None:
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
        gpus.add_claim(name, uid, ("gpu-0",), ownerReferences=[owner])
    gpus.add_user("unreserved")
    gpus.add_claim("mine", "x", ("gpu-0",))
    async with gpus.confined_manager(config()):
        gpus.publish("slice", device("gpu-0", TAINT))
        await asyncio.sleep(5)
        assert gpus.evicted() == ["bound"]


async def test_only_the_last_generation_of_a_pool_counts(gpus: Devices) -> None:
    gpus.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    gpus.add_user("q", "gpu-1")
    gpus.publish("slice", device("gpu-0", TAINT), device("gpu-1"))
    async with gpus.confined_manager(config()):
        await asyncio.sleep(10)
        gpus.add_slice("new", device("gpu-0"), device("gpu-1"), generation=2)
        await asyncio.sleep(5)
        assert gpus.told() == [event("p", CANCELLING)]
        await asyncio.sleep(100)
        assert gpus.evicted() == []
        gpus.remove(RESOURCE_SLICES, "new")
        await asyncio.sleep(5)
        assert gpus.evicted() == ["p"]
        gpus.add_slice("newer", device("gpu-1", TAINT), generation=3)
        await asyncio.sleep(5)
        assert gpus.evicted() == ["p", "q"]


async def test_a_rule_evicts_and_shows_its_progress(gpus: Devices) -> None:
    """At once, and then every ten seconds; the text of the status is upstream's."""
    gpus.add_user("p", "gpu-0")
    gpus.add_user("later", "gpu-1", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()):
        await asyncio.sleep(1)
        gpus.add_rule("rule", driver=DRIVER)
        await asyncio.sleep(1)
        assert gpus.condition("rule") == (
            "True",
            "PodsPendingEviction",
            "2 pods need to be evicted in 1 namespace.",
        )
        assert gpus.evicted() == ["p"]
        await asyncio.sleep(15)
        assert gpus.condition("rule") == (
            "True",
            "PodsPendingEviction",
            (
                "1 pod needs to be evicted in 1 namespace. "
                "1 pod evicted since starting the controller."
            ),
        )
        await asyncio.sleep(70)
        assert gpus.evicted() == ["later", "p"]
        assert gpus.condition("rule") == (
            "False",
            "Completed",
            "2 pods evicted since starting the controller.",
        )


async def test_a_rule_without_effect_shows_the_effect_it_would_have(
    gpus: Devices,
) -> None:
    gpus.add_user("p", "gpu-0")
    async with gpus.confined_manager(config()):
        gpus.add_rule("rule", "None", device="gpu-0")
        await asyncio.sleep(30)
        assert gpus.evicted() == []
        assert gpus.condition("rule") == (
            "False",
            "NoEffect",
            (
                "1 published device selected. 1 allocated device selected. "
                "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
                "This information will not be updated again. "
                "Recreate the DeviceTaintRule to trigger an update."
            ),
        )
        gpus.edit(DEVICE_TAINT_RULES, "rule", spec={"taint": {"effect": "NoExecute"}})
        await asyncio.sleep(5)
        assert gpus.evicted() == ["p"]


async def test_a_rule_that_goes_cancels_its_evictions(gpus: Devices) -> None:
    gpus.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    gpus.add_user("q", "gpu-1", tolerations=(tolerating(60),))
    async with gpus.confined_manager(config()):
        gpus.add_rule("gone", device="gpu-0")
        gpus.add_rule("changed", device="gpu-1")
        await asyncio.sleep(20)
        gpus.remove(DEVICE_TAINT_RULES, "gone")
        patch = {"spec": {"taint": {"effect": "NoSchedule"}}}
        where = (DEVICE_TAINT_RULES, "", "changed")
        await gpus.client.patch(*where, patch, PatchType.MERGE)
        await asyncio.sleep(300)
        assert gpus.evicted() == []
        assert gpus.condition("changed") == (
            "False",
            "OtherEffect",
            "Eviction only happens for the NoExecute effect.",
        )
    assert gpus.told() == [event("p", CANCELLING), event("q", CANCELLING)]


async def test_rules_do_nothing_while_their_gate_is_off(gpus: Devices) -> None:
    """As by default in 1.36; taints of drivers count."""
    gpus.add_user("p", "gpu-0")
    gpus.add_user("q", "gpu-1")
    async with gpus.confined_manager(config(rules=False)):
        gpus.add_rule("rule", driver=DRIVER)
        gpus.publish("slice", device("gpu-0"), device("gpu-1", TAINT))
        await asyncio.sleep(60)
        assert gpus.evicted() == ["q"]
        assert gpus.condition("rule") is None


async def test_an_eviction_that_fails_is_tried_again(cluster: Devices) -> None:
    cluster.put(NODES, "a")
    cluster.add_slice("slice", device("gpu-0"))
    cluster.add_user("p", "gpu-0")
    is_broken = True

    async def refuse(request: Request) -> Response | None:
        if is_broken and request.method in ("DELETE", "PATCH"):
            body = b'{"kind":"Status","code":500,"reason":"InternalError"}'
            return Response(500, {}, body)
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, refuse)):
        await asyncio.sleep(1)
        cluster.add_rule("rule", driver=DRIVER)
        await asyncio.sleep(100)
        is_broken = False
        await asyncio.sleep(200)
        assert cluster.evicted() == ["p"]
        assert cluster.condition("rule") == (
            "False",
            "Completed",
            "1 pod evicted since starting the controller.",
        )
    assert cluster.told() == [event("p", MARKING)]


async def test_a_pod_stays_if_the_taint_is_gone_at_the_api_server(
    cluster: Devices,
) -> None:
    """The watch is late; upstream evicts the pod."""
    cluster.put(NODES, "a")
    cluster.add_slice("slice", device("gpu-0", TAINT), device("gpu-1"))
    cluster.add_user("p", "gpu-0")
    cluster.add_user("q", "gpu-1")
    cluster.add_rule("rule", device="gpu-1")

    async def untaint(request: Request) -> None:
        if request.method == "GET" and request.path.endswith("/resourceslices/slice"):
            cluster.publish("slice", device("gpu-0"), device("gpu-1"))
        if request.method == "GET" and request.path.endswith("/devicetaintrules/rule"):
            cluster.remove(DEVICE_TAINT_RULES, "rule")

    async with cluster.manager(config(), Meddler(cluster.transport, untaint)):
        await asyncio.sleep(300)
    assert cluster.evicted() == []


async def test_nothing_is_evicted_while_the_gate_of_taints_is_off(
    cluster: Devices,
) -> None:
    cluster.add_slice("slice", device("gpu-0", TAINT))
    cluster.add_user("p", "gpu-0")
    made = config(rules=False, taints=False)
    async with cluster.manager(made) as recording:
        await asyncio.sleep(60)
        assert (cluster.evicted(), recording.writes) == ([], [])


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wrong_clock_of_the_manager_changes_no_time(
    cluster: Devices, hours: int
) -> None:
    cluster.put(NODES, "a")
    cluster.add_slice("slice", device("gpu-0", TAINT))
    cluster.add_user("p", "gpu-0", tolerations=(tolerating(60),))
    wrong = LoopClock(EPOCH + timedelta(hours=hours))
    async with cluster.manager(config(), clock=wrong):
        await asyncio.sleep(59)
        assert cluster.evicted() == []
        await asyncio.sleep(3)
        assert cluster.evicted() == ["p"]


async def test_a_new_generation_of_a_pool_concerns_all_its_devices() -> None:
    """Devices of older slices stop counting, until the new generation is gone."""
    cluster = Devices()
    for number in range(3):
        cluster.add_slice(f"s{number}", device(f"d{number}", TAINT))
        waits = (tolerating(100),)
        cluster.add_user(f"p{number}", f"d{number}", tolerations=waits)
    async with cluster.manager(config()):
        await asyncio.sleep(10)
        cluster.add_slice("new", device("d0"), generation=2)
        await asyncio.sleep(200)
        assert cluster.evicted() == []
        cluster.remove(RESOURCE_SLICES, "new")
        await asyncio.sleep(200)
        assert cluster.evicted() == ["p0", "p1", "p2"]
