"""The scheduler gives devices to the claims of pods, and reserves the claims."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.nodes.objects import (
    DEFAULT,
    PODS,
    condition,
    create_pod,
    send,
    status_of,
)

pytestmark = pytest.mark.looptime

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
ONE = {"deviceClassName": "gpu"}
TAINTED = {"name": "b", "taints": [{"key": "broken", "effect": "NoSchedule"}]}
TOLERANT = {**ONE, "tolerations": [{"key": "broken", "operator": "Exists"}]}
ON_NODE_1 = {
    "nodeSelectorTerms": [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
            ]
        }
    ]
}


async def add_devices(
    cluster: Cluster, *devices: JSON, name: str = "gpus", **place: Any
) -> None:
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": name, "resourceSliceCount": 1},
        "devices": list(devices),
        **(place or {"nodeName": "node-1"}),
    }
    body = {"metadata": {"name": name}, "spec": spec}
    await send(cluster, "POST", f"{GROUP}/resourceslices", body)


async def add_class(cluster: Cluster, **spec: Any) -> None:
    body = {"metadata": {"name": "gpu"}, "spec": spec}
    await send(cluster, "POST", f"{GROUP}/deviceclasses", body)


async def claim(cluster: Cluster, name: str = "c", **request: Any) -> JSON:
    request = request or {"exactly": ONE}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    body = {"metadata": {"name": name}, "spec": spec}
    return await send(cluster, "POST", CLAIMS, body)


async def run_pod(cluster: Cluster, name: str, *claims: str) -> str:
    """Create a pod that uses claims; return its node, or why it has none."""
    names = claims or ("c",)
    uses = [{"name": each, "resourceClaimName": each} for each in names]
    await create_pod(cluster, name, resourceClaims=uses)
    await asyncio.sleep(0.1)
    return await place_of(cluster, name)


async def place_of(cluster: Cluster, name: str) -> str:
    spec = (await send(cluster, "GET", f"{PODS}/{name}"))["spec"]
    if node := spec.get("nodeName"):
        return str(node)
    status = await status_of(cluster, name)
    if not status.get("conditions"):
        return ""
    message = condition(status, "PodScheduled")[2]
    return message.partition(": ")[2].partition(". no new")[0]


async def results(cluster: Cluster, name: str = "c") -> list[str]:
    """Return the devices allocated to a claim, as ``REQUEST POOL/DEVICE``."""
    status = (await send(cluster, "GET", f"{CLAIMS}/{name}"))["status"]
    found = status.get("allocation", {"devices": {"results": []}})
    return [
        f"{each['request']} {each['pool']}/{each['device']}"
        for each in found["devices"]["results"]
    ]


async def test_a_claim_is_allocated_and_reserved(cluster: Cluster) -> None:
    """On the node that has the device; a second pod shares it there."""
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"})
        await claim(cluster)
        assert await run_pod(cluster, "p") == "node-1"
        assert await run_pod(cluster, "q") == "node-1"
        found = await send(cluster, "GET", f"{CLAIMS}/c")
        pods = [await send(cluster, "GET", f"{PODS}/{each}") for each in "pq"]
    protection = "resource.kubernetes.io/delete-protection"
    assert found["metadata"]["finalizers"] == [protection]
    result = {
        "request": "r",
        "driver": "gpu.example.com",
        "pool": "gpus",
        "device": "a",
    }
    assert found["status"] == {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": ON_NODE_1},
        "reservedFor": [
            {
                "resource": "pods",
                "name": each["metadata"]["name"],
                "uid": each["metadata"]["uid"],
            }
            for each in pods
        ],
    }


async def test_a_device_goes_to_one_claim(cluster: Cluster) -> None:
    """Another pod waits, also if both claims are its own."""
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"}, allNodes=True)
        await claim(cluster)
        await claim(cluster, "d")
        none = "2 cannot allocate all claims"
        assert await run_pod(cluster, "both", "c", "d") == none
        assert await run_pod(cluster, "p") in ("node-0", "node-1")
        assert await run_pod(cluster, "q", "d") == none
        status = (await send(cluster, "GET", f"{CLAIMS}/c"))["status"]
        assert "nodeSelector" not in status["allocation"]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"exactly": {**ONE, "count": 2}}, ["r gpus/a", "r gpus/c"]),
        ({"exactly": {**TOLERANT, "count": 2}}, ["r gpus/a", "r gpus/b"]),
        (
            {"exactly": {**TOLERANT, "allocationMode": "All"}},
            ["r gpus/a", "r gpus/b", "r gpus/c"],
        ),
        (
            {
                "firstAvailable": [
                    {"name": "many", **ONE, "count": 9},
                    {"name": "few", **ONE, "count": 1},
                ]
            },
            ["r/few gpus/a"],
        ),
        ({"exactly": {**ONE, "count": 3}}, []),
        ({"exactly": {**ONE, "selectors": [{"cel": {"expression": "true"}}]}}, []),
    ],
)
async def test_a_claim_gets_the_devices_that_it_requests(
    cluster: Cluster, request_: JSON, expected: list[str]
) -> None:
    """Devices without taints that it does not tolerate; nothing evaluates CEL."""
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"}, TAINTED, {"name": "c"})
        await claim(cluster, **request_)
        place = await run_pod(cluster, "p")
        assert place == ("node-1" if expected else "2 cannot allocate all claims")
        assert await results(cluster) == expected


async def test_a_pod_waits_for_claims_and_classes(cluster: Cluster) -> None:
    """In silence for a claim; an event tells of a class."""
    async with cluster.nodes(count=2):
        await add_devices(cluster, {"name": "a"})
        assert await run_pod(cluster, "p") == ""
        await claim(cluster)
        await asyncio.sleep(0.1)
        assert await place_of(cluster, "p") == (
            "request r: device class gpu does not exist"
        )
        await add_class(cluster)
        await asyncio.sleep(61)
        assert await place_of(cluster, "p") == "node-1"


async def test_a_pod_waits_for_the_claim_that_is_made_for_it(cluster: Cluster) -> None:
    """The status of the pod names it."""
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"})
        uses = [{"name": "g", "resourceClaimTemplateName": "t"}]
        await create_pod(cluster, "p", resourceClaims=uses)
        await claim(cluster, "p-g-1")
        assert await place_of(cluster, "p") == ""
        made = [{"name": "g", "resourceClaimName": "p-g-1"}]
        status = {"status": {"resourceClaimStatuses": made}}
        await send(cluster, "PATCH", f"{DEFAULT}/pods/p/status", status)
        await asyncio.sleep(0.1)
        assert await place_of(cluster, "p") == "node-1"


async def test_an_allocated_claim_decides_the_node(cluster: Cluster) -> None:
    """A pod that must be elsewhere waits."""
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"})
        await claim(cluster)
        assert await run_pod(cluster, "p") == "node-1"
        await create_pod(
            cluster,
            "q",
            resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
            nodeSelector={"kubernetes.io/hostname": "node-0"},
        )
        await asyncio.sleep(0.1)
        assert await place_of(cluster, "q") == (
            "1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not "
            "available on the node"
        )


async def test_a_claim_with_constraints_gets_no_device(cluster: Cluster) -> None:
    """Nothing compares the attributes of devices."""
    devices = {
        "requests": [{"name": "r", "exactly": ONE}],
        "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
    }
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await add_devices(cluster, {"name": "a"})
        body = {"metadata": {"name": "c"}, "spec": {"devices": devices}}
        await send(cluster, "POST", CLAIMS, body)
        assert await run_pod(cluster, "p") == "2 cannot allocate all claims"
