"""The scheduler looks at no more nodes than it must."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheduler import node_infos
from controller_manager.devcluster.scheduler.node_infos import why_not
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE, create_pod
from tests.devcluster.requests import send

NODES = f"{CORE}/nodes"


async def patch_node(cluster: Cluster, name: str, patch: JSON) -> None:
    await send(cluster, "PATCH", f"{NODES}/{name}", patch)


def pinned(node: str) -> JSON:
    term = {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]
    }
    required = {"nodeSelectorTerms": [term]}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of nodes that the scheduler checks, as it checks them."""
    names: list[str] = []

    def counted(pod: JSON, node: Any) -> str:
        names.append(node.name)
        return why_not(pod, node)

    monkeypatch.setattr(node_infos, "why_not", counted)
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
