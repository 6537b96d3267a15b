"""Pods are collected on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.core.v1 import (
    PODS,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.nodes.podgc import PodGCOptions
from controller_manager.controllers.nodes.podgc.controller import PodGarbageCollector
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import DONE
from tests.clusters import Cluster, make_config, run_manager
from tests.steps import Steps

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
            "observedGeneration": 1,
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


async def test_a_pod_that_was_disrupted_before_keeps_the_time_of_its_condition(
    cluster: Cluster,
) -> None:
    """The taints of its node have evicted it, and then the node was removed."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "Running", "conditions": [condition]}
    spec = {**CONTAINERS, "nodeName": "gone"}
    # A finalizer keeps the pod after its deletion.
    metadata = {"name": "orphan", "finalizers": ["example.com/keep"]}
    cluster.add("Pod", "orphan", metadata=metadata, spec=spec, status=status)
    async with cluster.manager(make_config(controllers=("podgc",))):
        await asyncio.sleep(65)
    stored = await cluster.client.get_json(PODS, "default", "orphan")
    assert stored["status"]["conditions"] == [
        {
            **condition,
            "lastProbeTime": None,
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "observedGeneration": 1,
        }
    ]


async def steps_for_a_missing_node(others: int) -> int:
    """Return the steps in which the pods of a missing node are found."""
    cluster = Cluster()
    cluster.add("Node", "here")
    for number in range(others):
        spec = {**CONTAINERS, "nodeName": "here"}
        cluster.add("Pod", f"other-{number}", spec=spec)
    settings = make_config(controllers=("podgc",))
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, settings) as it:
        group = it.controllers["pod-garbage-collector-controller"].controller
        assert isinstance(group, WorkerGroup)
        collector: PodGarbageCollector = group._pools[0].reconcile.__self__  # type: ignore[attr-defined]
        with Steps() as steps:
            assert await collector.sync_node("gone") is DONE
        assert len(await names(cluster)) == others
    return steps.number


async def test_the_pods_of_other_nodes_cost_nothing_when_a_node_is_missing() -> None:
    """Five hundred nodes may go at once, among 100,000 pods.

    The API server in memory takes a few steps more or less.
    """
    many, none = await steps_for_a_missing_node(200), await steps_for_a_missing_node(0)
    assert abs(many - none) < 20


async def test_pods_of_a_node_that_comes_in_time_stay(cluster: Cluster) -> None:
    """Even if the cache does not show it yet."""
    cluster.add("Pod", "early", spec={**CONTAINERS, "nodeName": "late"})
    async with cluster.manager(make_config(controllers=("podgc",))) as recording:
        await asyncio.sleep(30)
        cluster.add("Node", "late")
        await asyncio.sleep(100)
        assert (await names(cluster), recording.writes) == (["early"], [])


async def test_ended_pods_above_the_threshold_are_deleted(cluster: Cluster) -> None:
    """The pods below the threshold stay."""
    for name in ("a", "b", "c"):
        cluster.add("Pod", name, spec=CONTAINERS, status={"phase": "Succeeded"})
    settings = replace(
        make_config(controllers=("podgc",)),
        controllers={PodGCOptions: PodGCOptions(terminated_pod_threshold=2)},
    )
    async with cluster.manager(settings):
        await asyncio.sleep(25)
        assert await names(cluster) == ["b", "c"]


async def test_a_pod_that_is_bound_while_the_api_server_is_asked_stays(
    cluster: Cluster,
) -> None:
    """The response that the node is gone may come after its new creation."""
    spec = {**CONTAINERS, "nodeName": "again"}
    cluster.add("Pod", "orphan", spec=spec, status={"phase": "Running"})
    handle = cluster.server.handle

    async def slow(request: Request) -> Response | StreamingResponse:
        answer = await handle(request)
        if request.path == "/api/v1/nodes/again" and request.method == "GET":
            cluster.server.handle = handle  # type: ignore[method-assign]
            cluster.add("Node", "again")
            cluster.add("Pod", "new", spec=spec, status={"phase": "Running"})
            await asyncio.sleep(5)
        return answer

    cluster.server.handle = slow  # type: ignore[method-assign]
    async with cluster.manager(make_config(controllers=("podgc",))):
        await asyncio.sleep(100)
        assert await names(cluster) == ["new"]
