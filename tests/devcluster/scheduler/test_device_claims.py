"""Pods with claims to devices, as in a cluster without a driver of devices."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
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
NONE = "2 cannot allocate all claims"


def only(node: str) -> JSON:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


async def add_class(cluster: Cluster, name: str = "gpu") -> None:
    body = {"metadata": {"name": name}, "spec": {}}
    await send(cluster, "POST", f"{GROUP}/deviceclasses", body)


async def claim(cluster: Cluster, name: str = "c", **request: Any) -> None:
    request = request or {"exactly": ONE}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    await send(cluster, "POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


async def allocate(cluster: Cluster, name: str = "c", **place: Any) -> None:
    """Write an allocation to the status of a claim, as a driver's test does."""
    result = {"request": "r", "driver": "d", "pool": "p", "device": name}
    status = {"allocation": {"devices": {"results": [result]}, **place}}
    await send(cluster, "PATCH", f"{CLAIMS}/{name}/status", {"status": status})
    await asyncio.sleep(0.1)


async def run_pod(cluster: Cluster, name: str, *claims: str, **spec: Any) -> str:
    """Create a pod that uses claims; return its node, or why it has none."""
    uses = [{"name": each, "resourceClaimName": each} for each in claims or ("c",)]
    await create_pod(cluster, name, resourceClaims=uses, **spec)
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


async def test_a_claim_that_is_allocated_is_reserved(cluster: Cluster) -> None:
    async with cluster.nodes(count=2):
        await add_class(cluster)
        await claim(cluster)
        assert await run_pod(cluster, "p") == NONE
        await allocate(cluster, **only("node-1"))
        assert await place_of(cluster, "p") == "node-1"
        assert await run_pod(cluster, "q") == "node-1"
        place = {"kubernetes.io/hostname": "node-0"}
        assert await run_pod(cluster, "elsewhere", nodeSelector=place) == (
            "1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not "
            "available on the node"
        )
        found = await send(cluster, "GET", f"{CLAIMS}/c")
        pods = [await send(cluster, "GET", f"{PODS}/{each}") for each in "pq"]
    assert found["status"]["reservedFor"] == [
        {"resource": "pods", "name": name, "uid": each["metadata"]["uid"]}
        for name, each in zip("pq", pods, strict=True)
    ]


async def test_slices_of_devices_have_no_effect(cluster: Cluster) -> None:
    """Nothing allocates devices, so each claim of a pod needs an allocation."""
    spec = {
        "driver": "d",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [{"name": "a"}, {"name": "b"}],
        "allNodes": True,
    }
    async with cluster.nodes(count=2):
        await add_class(cluster)
        body = {"metadata": {"name": "s"}, "spec": spec}
        await send(cluster, "POST", f"{GROUP}/resourceslices", body)
        await claim(cluster)
        await claim(cluster, "d")
        await allocate(cluster)
        assert await run_pod(cluster, "both", "c", "d") == NONE
        await allocate(cluster, "d")
        assert await place_of(cluster, "both") in ("node-0", "node-1")


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        ({"exactly": {"deviceClassName": "x"}}, "r: device class x"),
        (
            {"firstAvailable": [{"name": "a", **ONE}, {"name": "b", **ONE}]},
            "r/a: device class gpu",
        ),
    ],
)
async def test_a_pod_waits_for_claims_and_classes(
    cluster: Cluster, request_: JSON, missing: str
) -> None:
    """In silence for a claim; an event tells of a class."""
    async with cluster.nodes(count=2):
        assert await run_pod(cluster, "p") == ""
        await claim(cluster, **request_)
        await asyncio.sleep(0.1)
        assert await place_of(cluster, "p") == f"request {missing} does not exist"
        await add_class(cluster, missing.rpartition(" ")[2])
        await asyncio.sleep(61)
        assert await place_of(cluster, "p") == NONE


async def test_a_pod_waits_for_the_claim_that_is_made_for_it(cluster: Cluster) -> None:
    async with cluster.nodes(count=2):
        await add_class(cluster)
        uses = [{"name": "g", "resourceClaimTemplateName": "t"}]
        await create_pod(cluster, "p", resourceClaims=uses)
        await claim(cluster, "p-g-1")
        await allocate(cluster, "p-g-1", **only("node-1"))
        assert await place_of(cluster, "p") == ""
        made = [{"name": "g", "resourceClaimName": "p-g-1"}]
        status = {"status": {"resourceClaimStatuses": made}}
        await send(cluster, "PATCH", f"{DEFAULT}/pods/p/status", status)
        await asyncio.sleep(0.1)
        assert await place_of(cluster, "p") == "node-1"
