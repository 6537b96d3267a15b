"""Containers on the development cluster end as their commands say."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import PODS, create_pod, send, status_of
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

HELD = {"metadata": {"finalizers": ["example.com/hold"]}}


def hook(seconds: int) -> JSON:
    return {"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}}


def running(script: str, name: str = "c", image: str = "busybox:1") -> JSON:
    return {"name": name, "image": image, "command": ["sh", "-c", script]}


def ended(container: JSON) -> tuple[int, str, bool]:
    """Return exit code and reason of a container, and whether it ended as it began."""
    state = container["state"]["terminated"]
    return state["exitCode"], state["reason"], state["startedAt"] == state["finishedAt"]


@rows("fields", "phase", "end")
async def test_a_pod_ends_as_its_command(
    cluster: Cluster, fields: JSON, phase: str, end: list[Any]
) -> None:
    container = {"name": "c", "image": "busybox:1", **fields}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", restartPolicy="Never", containers=[container])
        if not end[2]:
            await asyncio.sleep(6.9)
            assert (await status_of(cluster, "p"))["phase"] == "Running"
        await asyncio.sleep(1)
        status = await status_of(cluster, "p")
    (seen,) = status["containerStatuses"]
    found = [*ended(seen)]
    assert (status["phase"], seen["restartCount"], found) == (phase, 0, end)


@pytest.mark.parametrize(
    ("policy", "script", "restarts"),
    [("Always", "exit 0", 3), ("OnFailure", "exit 1", 3), ("OnFailure", "exit 0", 0)],
)
async def test_a_command_that_ends_is_run_again_as_the_policy_says(
    cluster: Cluster, policy: str, script: str, restarts: int
) -> None:
    """At once, then after 10 s and 20 s, and it waits 40 s for the fourth time."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster, "p", restartPolicy=policy, containers=[running(script)]
        )
        await asyncio.sleep(32)
        status = await status_of(cluster, "p")
    (seen,) = status["containerStatuses"]
    reason = seen["state"].get("waiting", {}).get("reason")
    assert (status["phase"], seen["restartCount"], reason) == (
        ("Running", restarts, "CrashLoopBackOff")
        if restarts
        else ("Succeeded", 0, None)
    )


async def test_a_pod_is_over_when_all_its_containers_have_ended(
    cluster: Cluster,
) -> None:
    """Its init containers go first; one code that is not 0 makes it Failed."""
    async with cluster.nodes(count=1, start_delay=0):
        for name, last in (("good", "sleep 5"), ("bad", "sleep 5; exit 4")):
            await create_pod(
                cluster,
                name,
                restartPolicy="Never",
                initContainers=[running("sleep 3", "init")],
                containers=[running("sleep 2", "a"), running(last, "b")],
            )
        phases = []
        for until in (2.9, 7.9, 8.1):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            seen = [
                (await status_of(cluster, each))["phase"] for each in ("good", "bad")
            ]
            phases.append(seen)
    assert phases == [
        ["Pending", "Pending"],
        ["Running", "Running"],
        ["Succeeded", "Failed"],
    ]


async def test_a_failed_init_container_fails_its_pod(cluster: Cluster) -> None:
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            initContainers=[running("exit 5", "init")],
            containers=[running("sleep 2")],
        )
        await asyncio.sleep(1)
        status = await status_of(cluster, "p")
    (init,), (main,) = status["initContainerStatuses"], status["containerStatuses"]
    assert (status["phase"], ended(init), main["state"]) == (
        "Failed",
        (5, "Error", True),
        {"waiting": {"reason": "PodInitializing"}},
    )


@pytest.mark.parametrize(
    ("container", "seconds", "code"),
    [
        (running("sleep infinity"), 20, 137),
        (running("sleep 9; exit 3"), 8, 3),
        (running("trap exit TERM; while true; do sleep 1; done"), 1, 0),
        (running("trap 'sleep 2; exit 7' TERM; while true; do sleep 1; done"), 3, 7),
        ({"name": "c", "image": "pause", **hook(4)}, 4, 0),
        ({"name": "c", "image": "agnhost", **hook(4)}, 4, 2),
        ({"name": "c", "image": "pause", **hook(60)}, 20, 137),
    ],
)
async def test_a_deleted_pod_goes_when_its_command_ends(
    cluster: Cluster, container: JSON, seconds: int, code: int
) -> None:
    """A command without a trap ignores SIGTERM, as the first process of a container.

    A pause ends, but only after its hook.
    """
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster, "p", terminationGracePeriodSeconds=20, containers=[container]
        )
        await send(cluster, "PATCH", f"{PODS}/p", HELD)
        await asyncio.sleep(1)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(seconds - 0.1)
        (seen,) = (await status_of(cluster, "p"))["containerStatuses"]
        assert "running" in seen["state"]
        await asyncio.sleep(0.2)
        (seen,) = (await status_of(cluster, "p"))["containerStatuses"]
        assert seen["state"]["terminated"]["exitCode"] == code


async def test_an_annotation_goes_before_the_trap_of_a_script(cluster: Cluster) -> None:
    """The script would end one second after SIGTERM."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            annotations={"devcluster/termination-seconds": "5"},
            containers=[running("trap exit TERM; while true; do sleep 1; done")],
        )
        await asyncio.sleep(1)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(4.9)
        await status_of(cluster, "p")
        await asyncio.sleep(0.2)
        pods = (await send(cluster, "GET", PODS))["items"]
    assert pods == []


@pytest.mark.parametrize(
    ("container", "phase"),
    [
        ({"image": "registry.k8s.io/pause:3.10"}, "Running"),
        (running("trap exit TERM; while true; do sleep 1; done"), "Running"),
        (running("sleep 1000000"), "Running"),
        (running("set -e; false; sleep 1"), "Failed"),
        ({"image": "example.com/tool"}, "Succeeded"),
    ],
)
async def test_the_pod_of_a_job_runs_as_long_as_its_command(
    cluster: Cluster, container: JSON, phase: str
) -> None:
    """A job whose command is unknown succeeds after a second, as before."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
    pod = {
        "metadata": {"name": "p", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", **container}]},
    }
    async with cluster.nodes(count=1, start_delay=0):
        await send(cluster, "POST", PODS, pod)
        await asyncio.sleep(600)
        assert (await status_of(cluster, "p"))["phase"] == phase
