"""A kubelet tells of which generation of a pod it knows."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import PODS, create_pod, send, status_of

pytestmark = pytest.mark.looptime

TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}


def observed(status: JSON) -> list[tuple[str, int]]:
    """Return the observedGeneration of a status, and of each of its conditions."""
    return [
        ("status", status["observedGeneration"]),
        *((each["type"], each["observedGeneration"]) for each in status["conditions"]),
    ]


@pytest.mark.parametrize("image", ["i", "broken"])
async def test_a_new_generation_is_observed_at_once(
    cluster: Cluster, image: str
) -> None:
    """In all conditions, also while the image cannot be pulled."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[{"name": "c", "image": image}])
        await asyncio.sleep(5)
        before = await status_of(cluster, "p")
        assert {number for _, number in observed(before)} == {1}
        pod = await send(cluster, "GET", f"{PODS}/p")
        tolerations = [*pod["spec"].get("tolerations", ()), TOLERATION]
        patch = {"spec": {"tolerations": tolerations}}
        await send(cluster, "PATCH", f"{PODS}/p", patch)
        await asyncio.sleep(0.1)
        after = await status_of(cluster, "p")
    expected = {
        **before,
        "observedGeneration": 2,
        "conditions": [
            {**each, "observedGeneration": 2} for each in before["conditions"]
        ],
    }
    assert after == expected


@pytest.mark.parametrize(
    "image",
    [
        "localhost/some-image-that-doesnt-exist",
        "invalid.registry.k8s.io/invalid/alpine:3.1",
        "registry.example.invalid/app:v1",
    ],
)
async def test_the_new_image_of_a_pod_is_observed_in_all_conditions(
    cluster: Cluster, image: str
) -> None:
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[{"name": "c", "image": image}])
        await asyncio.sleep(5)
        before = await status_of(cluster, "p")
        (waiting,) = before["containerStatuses"]
        assert waiting["state"]["waiting"]["reason"] == "ImagePullBackOff"
        pod = await send(cluster, "GET", f"{PODS}/p")
        pod["spec"]["containers"][0]["image"] = "i"
        await send(cluster, "PUT", f"{PODS}/p", pod)
        await asyncio.sleep(1)
        after = await status_of(cluster, "p")
    assert {number for _, number in observed(before)} == {1}
    assert {number for _, number in observed(after)} == {2}
    assert after["phase"] == "Running"


async def test_an_image_that_was_loaded_need_not_be_pulled(cluster: Cluster) -> None:
    container = {"name": "c", "image": "localhost/app:v1"}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", containers=[container])
        await asyncio.sleep(1)
        assert (await status_of(cluster, "p"))["phase"] == "Running"


async def test_a_pod_with_scheduling_gates_says_its_generation(
    cluster: Cluster,
) -> None:
    await create_pod(cluster, "p", schedulingGates=[{"name": "example.com/gate"}])
    (gated,) = (await status_of(cluster, "p"))["conditions"]
    assert gated["observedGeneration"] == 1
