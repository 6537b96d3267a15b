"""Ephemeral containers, and resources that change in place."""

import asyncio
import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    PODS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

MERGE = "application/strategic-merge-patch+json"
DEBUGGER = {
    "name": "debugger",
    "image": "busybox",
    "stdin": True,
    "targetContainerName": "c",
}


def resources(cpu: str, memory: str = "10Mi") -> JSON:
    return {"requests": {"cpu": cpu, "memory": memory}}


async def patch(cluster: Cluster, part: str, spec: JSON) -> JSON:
    """Patch a subresource of the pod p; return the pod, or the Status."""
    body = json.dumps({"spec": spec}).encode()
    answer = await call(cluster, "PATCH", f"{PODS}/p/{part}", body, content_type=MERGE)
    found: JSON = json.loads(answer.body)
    return found


async def test_an_ephemeral_container_runs_in_its_pod(cluster: Cluster) -> None:
    async with cluster.nodes(count=1, start_delay=1, details=True):
        await create_pod(cluster, "p")
        await asyncio.sleep(3)
        ends = {"name": "ends", "image": "busybox", "command": ["sleep", "3"]}
        for container in (DEBUGGER, ends):
            spec = {"ephemeralContainers": [container]}
            await patch(cluster, "ephemeralcontainers", spec)
        await asyncio.sleep(2)
        running = await status_of(cluster, "p")
        await asyncio.sleep(10)
        ended = await status_of(cluster, "p")
        shown = await events(cluster)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(40)
        left = (await send(cluster, "GET", PODS))["items"]
    assert [
        (each["name"], list(each["state"]), each["ready"], each["restartCount"])
        for status in (running, ended)
        for each in sorted(
            status["ephemeralContainerStatuses"], key=lambda each: each["name"]
        )
    ] == [
        ("debugger", ["running"], False, 0),
        ("ends", ["running"], False, 0),
        ("debugger", ["running"], False, 0),
        ("ends", ["terminated"], False, 0),
    ]
    assert (ended["phase"], condition(ended, "Ready")[0]) == ("Running", "True")
    assert ended["observedGeneration"] == 3
    assert any("Pulling image" in each and "busybox" in each for each in shown)
    assert left == []


async def test_an_ephemeral_container_stays_as_it_is(cluster: Cluster) -> None:
    """And has no part in the work of the pod; the messages are a real API server's."""
    await create_pod(cluster, "p")
    await patch(cluster, "ephemeralcontainers", {"ephemeralContainers": [DEBUGGER]})
    field = "spec.ephemeralContainers"
    for container, why in (
        ({"name": "c", "image": "b"}, f'{field}[0].name: Duplicate value: "c"'),
        (
            {"name": "e", "image": "b", "targetContainerName": "nope"},
            f'{field}[0].targetContainerName: Not found: "nope"',
        ),
        (
            {"name": "e", "image": "b", "ports": [{"containerPort": 80}]},
            f"{field}[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
        ({"name": "e"}, f"{field}[0].image: Required value"),
        (
            {**DEBUGGER, "image": "other"},
            f'{field}: Forbidden: existing ephemeral containers "debugger" may not',
        ),
    ):
        spec = {"ephemeralContainers": [container]}
        found = await patch(cluster, "ephemeralcontainers", spec)
        assert found["message"].startswith(f'Pod "p" is invalid: {why}')
    pod = await send(cluster, "GET", f"{PODS}/p")
    assert [each["name"] for each in pod["spec"]["ephemeralContainers"]] == ["debugger"]
    assert pod["metadata"]["generation"] == 2


async def test_resources_change_in_place(cluster: Cluster) -> None:
    """The status shows them; the container runs on unless its policy restarts it."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = {
        "name": "c",
        "image": "i",
        "resources": resources("100m"),
        "resizePolicy": policy,
    }
    seen = []
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(cluster, "p", containers=[container])
        await asyncio.sleep(1)
        for wanted in (resources("200m"), resources("200m", "20Mi")):
            spec = {"containers": [{"name": "c", "resources": wanted}]}
            await patch(cluster, "resize", spec)
            await asyncio.sleep(1)
            status = await status_of(cluster, "p")
            (shown,) = status["containerStatuses"]
            assert shown["resources"] == wanted
            assert shown["allocatedResources"] == wanted["requests"]
            seen.append((status["observedGeneration"], shown["restartCount"]))
        assert (
            "p Normal Killing: Container c resize requires restart"
        ) in await events(cluster)
    assert seen == [(2, 0), (3, 1)]


@rows("change", "why")
async def test_only_amounts_of_cpu_and_memory_change(
    cluster: Cluster, change: JSON, why: str
) -> None:
    container = {"name": "c", "image": "i", "resources": resources("100m")}
    await create_pod(cluster, "p", containers=[container])
    spec = {"containers": [{"name": "c", **change}]}
    found = await patch(cluster, "resize", spec)
    assert found["message"].startswith(f'Pod "p" is invalid: {why}')
