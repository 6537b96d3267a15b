"""Annotations, images and missing objects decide what a pod does."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet import events
from controller_manager.devcluster.kubelet.kubelet import Kubelet
from controller_manager.devcluster.storage import Key
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    DEFAULT,
    condition,
    create_pod,
    status_of,
    times,
)
from tests.devcluster.requests import send

pytestmark = pytest.mark.looptime


async def told(cluster: Cluster, name: str = "p") -> list[str]:
    """Return the events of a pod as kubectl describe shows them."""
    items = (await send(cluster, "GET", f"{DEFAULT}/events"))["items"]
    return [
        f"{each['type']} {each['reason']} "
        f"{each['source'].get('component') or each['reportingComponent']} "
        f"{each['involvedObject'].get('fieldPath', '-')} {each['message']}"
        + times(each.get("count", 1))
        for each in items
        if each["involvedObject"]["name"] == name
    ]


async def container_of(cluster: Cluster, name: str = "p") -> JSON:
    (status,) = (await status_of(cluster, name))["containerStatuses"]
    return dict(status)


async def waiting(cluster: Cluster, name: str = "p") -> tuple[str, str]:
    """Return reason and message of the waiting container of a pod."""
    state = (await container_of(cluster, name))["state"]["waiting"]
    return state["reason"], state.get("message", "")


async def ready(cluster: Cluster, name: str = "p") -> tuple[bool, bool, str, int]:
    """Return ready, started, the condition Ready, and the restarts of a pod."""
    status = await status_of(cluster, name)
    (each,) = status["containerStatuses"]
    is_ready = condition(status, "Ready")[0]
    return each["ready"], each["started"], is_ready, each["restartCount"]


async def test_a_sandbox_is_created_again_and_again(cluster: Cluster) -> None:
    """Until that succeeds; the containers are being created meanwhile."""
    async with cluster.nodes(count=1, details=True):
        annotations = {"devcluster/failing-sandbox": "-20"}
        await create_pod(cluster, "p", annotations=annotations)
        await asyncio.sleep(20)
        assert await waiting(cluster) == ("ContainerCreating", "")
        (line,) = [each for each in await told(cluster) if "Warning" in each]
        assert line.startswith(
            "Warning FailedCreatePodSandBox kubelet - Failed to create pod sandbox: "
            "rpc error: code = Unknown desc = failed to setup network for sandbox "
        )
        assert line.endswith(": an annotation says so (x2)")
        await asyncio.sleep(6)
        assert "running" in (await container_of(cluster))["state"]


async def test_a_restarted_program_takes_over_running_pods(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["x"]}}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "crash", annotations={"devcluster/exit-code": "1"})
        await create_pod(
            cluster,
            "job",
            restartPolicy="Never",
            annotations={"devcluster/run-seconds": "60"},
        )
        await create_pod(
            cluster,
            "late",
            containers=[{"name": "c", "image": "i", "readinessProbe": probe}],
            annotations={"devcluster/failing-readiness": "-50"},
        )
        await asyncio.sleep(5)
    await send(cluster, "DELETE", "/apis/storage.k8s.io/v1/storageclasses")
    await send(cluster, "DELETE", "/apis/storage.k8s.io/v1/csidrivers")
    await send(cluster, "DELETE", "/apis/storage.k8s.io/v1/csinodes")
    await send(cluster, "DELETE", "/api/v1/nodes")
    async with cluster.nodes(count=1, start_delay=0):
        await asyncio.sleep(60)
        assert (await container_of(cluster, "crash"))["restartCount"] == 3
        assert (await status_of(cluster, "job"))["phase"] == "Succeeded"
        assert await ready(cluster, "late") == (True, True, "True", 0)


async def test_a_pod_that_a_client_has_ended_keeps_its_phase(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = Kubelet._advance

    def advance_late(kubelet: Kubelet, key: Key, uid: str) -> None:
        stored = kubelet._pods.get(key)
        assert stored is not None
        if stored.obj["status"]["phase"] == "Running":
            status = {**stored.obj["status"], "phase": "Failed"}
            kubelet._pods.put(key, {**stored.obj, "status": status})
        advance(kubelet, key, uid)

    monkeypatch.setattr(Kubelet, "_advance", advance_late)
    async with cluster.nodes(count=1):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            annotations={"devcluster/run-seconds": "5"},
        )
        await asyncio.sleep(20)
        assert (await status_of(cluster, "p"))["phase"] == "Failed"


async def test_old_events_make_room_for_new_ones(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_MOST_EVENTS", 10)
    monkeypatch.setattr(events, "_DROPPED", 4)
    async with cluster.nodes(count=1, start_delay=0, details=True):
        for number in range(5):
            await create_pod(cluster, f"p{number}")
            await asyncio.sleep(1)
        items = (await send(cluster, "GET", f"{DEFAULT}/events"))["items"]
        assert 7 <= len(items) <= 10
        assert {each["involvedObject"]["name"] for each in items} >= {"p3", "p4"}
