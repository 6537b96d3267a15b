"""Pods are scheduled, start and end; events go."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from controller_manager.api.core.v1 import EVENTS, NODES, PODS
from controller_manager.api.meta import labels_of
from controller_manager.api.quantity import parse_quantity
from controller_manager.client.rest.errors import NotFound
from controller_manager.devcluster.kubelet.node_status import node_status
from controller_manager.version import KUBERNETES_VERSION
from tests.clusters import Cluster
from tests.devcluster.requests import call, create_pod


@pytest.mark.looptime
async def test_pods_start_after_their_delay_and_end_after_their_grace(
    cluster: Cluster,
) -> None:
    """On nodes in turn; broken images never start."""
    async with cluster.nodes(count=2, start_delay=3, grace_scale=0.5):
        for name, image in (("a", "app"), ("b", "example.com/x/broken:v1"), ("c", "x")):
            await create_pod(cluster, name, image)
        await asyncio.sleep(2.9)
        page = await cluster.client.list_page(PODS)
        assert [each.spec.node_name for each in page.items] == [
            "node-0",
            "node-1",
            "node-0",
        ]
        assert {each.status.phase for each in page.items} == {"Pending"}
        await asyncio.sleep(0.2)
        page = await cluster.client.list_page(PODS)
        assert [each.status.phase for each in page.items] == [
            "Running",
            "Pending",
            "Running",
        ]
        await cluster.client.delete(PODS, "default", "a")
        # A deletionTimestamp is cut to whole seconds, so up to one is lost.
        await asyncio.sleep(13.9)
        assert await cluster.client.get(PODS, "default", "a")
        await asyncio.sleep(1.2)
        with pytest.raises(NotFound):
            await cluster.client.get(PODS, "default", "a")


@pytest.mark.looptime
async def test_without_nodes_pods_stay_pending(cluster: Cluster) -> None:
    """As on a cluster whose nodes are all gone."""
    async with cluster.nodes(count=0):
        await create_pod(cluster, "a")
        await asyncio.sleep(100)
        pod = await cluster.client.get(PODS, "default", "a")
        assert (pod.spec.node_name, pod.status.phase) == ("", "Pending")


@pytest.mark.looptime
async def test_events_go_after_an_hour(cluster: Cluster) -> None:
    body = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    async with cluster.nodes():
        await cluster.client.create_json(EVENTS, "default", msgspec.json.encode(body))
        await asyncio.sleep(timedelta(minutes=59).total_seconds())
        assert len((await cluster.client.list_page(EVENTS)).items) == 1
        await asyncio.sleep(timedelta(minutes=3).total_seconds())
        assert (await cluster.client.list_page(EVENTS)).items == []


@pytest.mark.looptime
async def test_the_first_node_has_the_role_of_a_control_plane(cluster: Cluster) -> None:
    role = "node-role.kubernetes.io/control-plane"
    async with cluster.nodes(count=2):
        page = await cluster.client.list_page(NODES)
        labels = [
            {key: value for key, value in labels_of(each).items() if "role" in key}
            for each in page.items
        ]
        assert labels == [{role: ""}, {}]
        await asyncio.sleep(1)
        for name in ("a", "b", "c"):
            await create_pod(cluster, name)
        await asyncio.sleep(1)
        pods = (await cluster.client.list_page(PODS)).items
        assert [each.spec.node_name for each in pods] == ["node-0", "node-1", "node-0"]


@pytest.mark.looptime
async def test_a_node_tells_of_its_machine(cluster: Cluster) -> None:
    """Generated clients refuse to show a node of which one field is missing."""
    async with cluster.nodes(count=1):
        answer = await call(cluster, "GET", "/api/v1/nodes/node-0")
    status = json.loads(answer.body)["status"]
    assert status["nodeInfo"] == {
        "machineID": "508074a4f657521db0c289b42e98f817",
        "systemUUID": "508074a4-f657-521d-b0c2-89b42e98f817",
        "bootID": "c70e3304-58b1-51bd-91d7-aa7690bea1c2",
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": KUBERNETES_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


@pytest.mark.looptime
async def test_a_pod_that_has_ended_is_not_started(cluster: Cluster) -> None:
    async with cluster.nodes(count=1, start_delay=3):
        cluster.add("Pod", "a", spec={"containers": [{"name": "c", "image": "i"}]})
        await asyncio.sleep(1)
        failed = {"status": {"phase": "Failed"}}
        await cluster.client.patch(PODS, "default", "a", failed, subresource="status")
        await asyncio.sleep(60)
        pod = await cluster.client.get(PODS, "default", "a")
        assert pod.status.phase == "Failed"


def test_a_kubelet_reports_quantities_in_canonical_form() -> None:
    """A server stores them so, and the next write of somebody else changes nothing."""
    status = node_status({"metadata": {"name": "node-0"}}, 0, datetime.now(UTC))
    for name in ("allocatable", "capacity"):
        shown = {key: str(parse_quantity(each)) for key, each in status[name].items()}
        assert status[name] == shown
