"""What a kubelet remembers, and what it reports."""

import asyncio
from datetime import UTC, datetime

import pytest

from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.kubelet.kubelet import Kubelet
from controller_manager.devcluster.kubelet.node_status import node_status
from controller_manager.devcluster.kubelet.nodes import Nodes
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import create_pod


@pytest.mark.looptime
async def test_nothing_is_remembered_of_pods_in_which_nothing_is_due(
    cluster: Cluster,
) -> None:
    """A pod that runs until it is deleted costs no memory and no timer."""
    nodes = Nodes(cluster.server, cluster.clock, count=1, start_delay=1)
    nodes.register()
    task = asyncio.create_task(nodes.run())
    kubelet: Kubelet = nodes._kubelet
    await create_pod(cluster, "forever")
    await create_pod(
        cluster,
        "brief",
        restartPolicy="Never",
        annotations={"devcluster/run-seconds": "5"},
    )
    await asyncio.sleep(0.5)
    assert {name for _, name in kubelet._held} == {"forever", "brief"}
    await asyncio.sleep(2)
    assert {name for _, name in kubelet._held} == {"brief"}
    await asyncio.sleep(5)
    assert not kubelet._held
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_kubelet_reports_quantities_in_canonical_form() -> None:
    """A server stores them so, and the next write of somebody else changes nothing."""
    status = node_status(
        {"metadata": {"name": "node-0"}}, 0, datetime(2026, 1, 1, tzinfo=UTC)
    )
    for name in ("allocatable", "capacity"):
        shown = {key: str(parse_quantity(each)) for key, each in status[name].items()}
        assert status[name] == shown
