"""The scheduler binds pods to nodes that fit, and reports why none fits."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheduler import node_infos, scheduler
from controller_manager.devcluster.scheduler.node_infos import why_not
from tests.clusters import Cluster
from tests.devcluster.csi.objects import MOUNTED, bind, create_claim, create_volume
from tests.devcluster.kubelet.objects import (
    CORE,
    PODS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)

NODES = f"{CORE}/nodes"
TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}


async def node_of(cluster: Cluster, name: str) -> str:
    pod = await send(cluster, "GET", f"{PODS}/{name}")
    return str(pod["spec"].get("nodeName", ""))


async def patch_node(cluster: Cluster, name: str, patch: JSON) -> None:
    await send(cluster, "PATCH", f"{NODES}/{name}", patch)


def unschedulable(total: int, reasons: str) -> str:
    return (
        f"0/{total} nodes are available: {reasons}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful "
        "for scheduling."
    )


def pinned(node: str) -> JSON:
    term = {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]
    }
    required = {"nodeSelectorTerms": [term]}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }


@pytest.mark.looptime
async def test_pods_wait_for_a_node_that_takes_them(cluster: Cluster) -> None:
    """The condition and an event say why; the event comes once."""
    tolerations = [{"key": "other", "operator": "Exists"}, {"key": "a", "value": "b"}]
    async with cluster.nodes(count=3):
        await patch_node(cluster, "node-0", {"spec": {"unschedulable": True}})
        await patch_node(cluster, "node-1", {"spec": {"taints": [TAINT]}})
        await asyncio.sleep(0.1)
        await create_pod(cluster, "waiting", nodeSelector={"disk": "ssd"})
        await create_pod(cluster, "tolerant", tolerations=tolerations)
        await asyncio.sleep(100)
        assert await node_of(cluster, "waiting") == ""
        assert await node_of(cluster, "tolerant") == "node-1"
        message = unschedulable(
            3,
            "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had "
            "untolerated taint(s), 1 node(s) were unschedulable",
        )
        status = await status_of(cluster, "waiting")
        assert condition(status, "PodScheduled") == ("False", "Unschedulable", message)
        assert await events(cluster) == [f"waiting Warning FailedScheduling: {message}"]
        labelled = {"metadata": {"labels": {"disk": "ssd"}}}
        await patch_node(cluster, "node-2", labelled)
        await asyncio.sleep(0.1)
        assert await node_of(cluster, "waiting") == "node-2"
        scheduled = condition(await status_of(cluster, "waiting"), "PodScheduled")
        assert scheduled == ("True", "", "")


@pytest.mark.looptime
async def test_a_daemon_pod_goes_to_the_node_that_its_affinity_names(
    cluster: Cluster,
) -> None:
    """Or waits until that node exists."""
    async with cluster.nodes(count=3):
        await create_pod(cluster, "a", affinity=pinned("node-2"))
        await create_pod(cluster, "b", affinity=pinned("new"))
        await asyncio.sleep(0.1)
        assert await node_of(cluster, "a") == "node-2"
        assert await node_of(cluster, "b") == ""
        message = unschedulable(3, "3 node(s) didn't satisfy plugin(s) [NodeAffinity]")
        assert await events(cluster) == [f"b Warning FailedScheduling: {message}"]
        await send(cluster, "POST", NODES, {"metadata": {"name": "new"}})
        await patch_node(cluster, "new", {"spec": {"taints": None}})
        await asyncio.sleep(0.1)
        assert await node_of(cluster, "b") == "new"


@pytest.mark.looptime
async def test_a_node_that_is_gone_gets_no_pods(cluster: Cluster) -> None:
    """Without any node the event says so."""
    async with cluster.nodes(count=2):
        await send(cluster, "DELETE", f"{NODES}/node-0")
        await asyncio.sleep(0.1)
        for name in ("a", "b"):
            await create_pod(cluster, name)
        await asyncio.sleep(0.1)
        assert await node_of(cluster, "a") == await node_of(cluster, "b") == "node-1"
        await send(cluster, "DELETE", f"{NODES}/node-1")
        await asyncio.sleep(0.1)
        await create_pod(cluster, "c")
        await asyncio.sleep(0.1)
        message = "no nodes available to schedule pods"
        assert await events(cluster) == [f"c Warning FailedScheduling: {message}"]


@pytest.mark.looptime
async def test_the_condition_of_a_waiting_pod_stays_true(cluster: Cluster) -> None:
    """Within a minute, also when no node changes so that it fits."""
    async with cluster.nodes(count=1):
        await create_pod(cluster, "a", nodeSelector={"disk": "ssd"})
        await asyncio.sleep(0.1)
        await patch_node(cluster, "node-0", {"spec": {"unschedulable": True}})
        await asyncio.sleep(61)
        scheduled = condition(await status_of(cluster, "a"), "PodScheduled")
        message = unschedulable(1, "1 node(s) were unschedulable")
        assert scheduled == ("False", "Unschedulable", message)


@pytest.mark.looptime
async def test_a_pod_waits_for_its_claims(cluster: Cluster) -> None:
    """Until they exist, and until those that need no consumer are bound."""
    async with cluster.nodes(count=1):
        await create_pod(cluster, "a", volumes=MOUNTED)
        await asyncio.sleep(0.1)
        messages = [condition(await status_of(cluster, "a"), "PodScheduled")[2]]
        await create_claim(cluster, storageClassName="slow")
        messages.append(condition(await status_of(cluster, "a"), "PodScheduled")[2])
        await create_volume(cluster)
        await bind(cluster)
        assert await node_of(cluster, "a") == "node-0"
    assert messages == [
        unschedulable(1, 'persistentvolumeclaim "data" not found'),
        unschedulable(1, "pod has unbound immediate PersistentVolumeClaims"),
    ]


@pytest.mark.looptime
async def test_only_pods_of_the_default_scheduler_are_bound(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await create_pod(cluster, "other", schedulerName="mine")
        await create_pod(cluster, "gated", schedulingGates=[{"name": "g"}])
        await asyncio.sleep(1)
        assert await node_of(cluster, "other") == await node_of(cluster, "gated") == ""
        assert await events(cluster) == []


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of nodes that the scheduler checks, as it checks them."""
    names: list[str] = []

    def counted(pod: JSON, node: Any) -> str:
        names.append(node.name)
        return why_not(pod, node)

    monkeypatch.setattr(node_infos, "why_not", counted)
    monkeypatch.setattr(scheduler, "why_not", counted)
    return names


@pytest.mark.looptime
async def test_heartbeats_of_nodes_cause_no_scheduling(
    cluster: Cluster, looked: list[str]
) -> None:
    async with cluster.nodes(count=20):
        for number in range(10):
            await create_pod(cluster, f"w{number}", nodeSelector={"disk": "ssd"})
        await asyncio.sleep(1)
        looked.clear()
        for number in range(20):
            path = f"{NODES}/node-{number}/status"
            node = await send(cluster, "GET", f"{NODES}/node-{number}")
            node["status"]["conditions"][0]["lastHeartbeatTime"] = (
                "2026-01-01T01:00:00Z"
            )
            await send(cluster, "PUT", path, node)
        await asyncio.sleep(1)
        assert looked == []
        await patch_node(cluster, "node-7", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        assert looked == ["node-7"] * 10


@pytest.mark.looptime
async def test_a_node_is_found_without_a_search_through_all(
    cluster: Cluster, looked: list[str]
) -> None:
    async with cluster.nodes(count=50):
        for number in range(3):
            await create_pod(cluster, f"p{number}")
        await create_pod(cluster, "daemon", affinity=pinned("node-40"))
        await asyncio.sleep(1)
    assert looked == ["node-0", "node-1", "node-2", "node-40"]
