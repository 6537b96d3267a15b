"""Pods are collected on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.core.v1 import (
    PODS,
)
from controller_manager.client.inmemory import StreamingResponse
from controller_manager.client.transport import Request, Response
from controller_manager.controllers.nodes.podgc.options import PodGCOptions
from tests.clusters import Cluster, make_config
from tests.controllers.builders import JSON

pytestmark = pytest.mark.looptime

CONTAINERS = {"containers": [{"name": "c", "image": "app:v1"}]}


async def names(cluster: Cluster) -> list[str]:
    return [each.metadata.name for each in (await cluster.client.list_page(PODS)).items]


async def test_pods_stay_when_the_path_of_nodes_is_not_found(
    cluster: Cluster,
) -> None:
    """A 404 of a proxy, or of a starting API server, says nothing about a node."""
    spec = {**CONTAINERS, "nodeName": "unknown"}
    cluster.add("Pod", "kept", spec=spec, status={"phase": "Running"})
    handle = cluster.server.handle

    async def lost(request: Request) -> Response | StreamingResponse:
        if request.path == "/api/v1/nodes/unknown":
            return Response(404, {}, b"404 page not found")
        return await handle(request)

    cluster.server.handle = lost  # type: ignore[method-assign]
    async with cluster.manager(make_config(controllers=("podgc",))):
        await asyncio.sleep(300)
        assert await names(cluster) == ["kept"]


async def test_pods_of_a_node_that_is_gone_fail_and_are_deleted(
    cluster: Cluster,
) -> None:
    """After forty seconds, in which the node may come back; with a condition."""
    spec = {**CONTAINERS, "nodeName": "gone"}
    cluster.add("Pod", "orphan", spec=spec, status={"phase": "Running"})
    async with cluster.manager(make_config(controllers=("podgc",))) as recording:
        await asyncio.sleep(39)
        assert await names(cluster) == ["orphan"]
        await asyncio.sleep(25)
        assert await names(cluster) == []
    statuses: list[JSON] = [
        msgspec.json.decode(write.body)["status"]
        for write in recording.writes
        if write.method == "PATCH"
    ]
    assert statuses == [
        {
            "phase": "Failed",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastProbeTime": None,
                    "lastTransitionTime": statuses[0]["conditions"][0][
                        "lastTransitionTime"
                    ],
                    "observedGeneration": 1,
                }
            ],
        }
    ]


async def test_pods_of_a_node_that_comes_in_time_stay(cluster: Cluster) -> None:
    """Even if the cache does not show it yet."""
    cluster.add("Pod", "early", spec={**CONTAINERS, "nodeName": "late"})
    async with cluster.manager(make_config(controllers=("podgc",))) as recording:
        await asyncio.sleep(30)
        cluster.add("Node", "late")
        await asyncio.sleep(100)
        assert (await names(cluster), recording.writes) == (["early"], [])


async def test_ended_pods_above_the_threshold_are_deleted(cluster: Cluster) -> None:
    """Those below it stay."""
    for name in ("a", "b", "c"):
        cluster.add("Pod", name, spec=CONTAINERS, status={"phase": "Succeeded"})
    settings = replace(
        make_config(controllers=("podgc",)),
        controllers={PodGCOptions: PodGCOptions(terminated_pod_threshold=2)},
    )
    async with cluster.manager(settings):
        await asyncio.sleep(25)
        assert await names(cluster) == ["b", "c"]
