"""Kubelets run pods to their end."""

import asyncio

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.kubelet import Kubelet
from controller_manager.devcluster.kubelet.nodes import Nodes
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    PODS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)

BACK_OFF = "Back-off restarting failed container"
GATE = 'pod readiness gate "example.com/open"'


def time(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def terminated(code: int, began: int, ended: int) -> JSON:
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": time(began),
            "finishedAt": time(ended),
        }
    }


def states(status: JSON, of: str = "containerStatuses") -> list[tuple[int, JSON]]:
    """Return restart count and state of each container."""
    return [(each["restartCount"], without_id(each["state"])) for each in status[of]]


def without_id(state: JSON) -> JSON:
    """Return a container's state without the id of the container that ended."""
    if "terminated" not in state:
        return state
    ended = {k: v for k, v in state["terminated"].items() if k != "containerID"}
    return {"terminated": ended}


@pytest.mark.looptime
async def test_a_pod_that_is_never_restarted_succeeds_or_fails(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1, start_delay=1):
        for name, code in (("good", "0"), ("bad", "3")):
            await create_pod(
                cluster,
                name,
                restartPolicy="Never",
                annotations={
                    "devcluster/run-seconds": "5",
                    "devcluster/exit-code": code,
                },
            )
        await asyncio.sleep(5.9)
        running = await status_of(cluster, "good")
        assert (running["phase"], states(running)) == (
            "Running",
            [(0, {"running": {"startedAt": time(1)}})],
        )
        await asyncio.sleep(0.2)
        good, bad = [await status_of(cluster, name) for name in ("good", "bad")]
    (container,) = good["containerStatuses"]
    assert good == {
        "phase": "Succeeded",
        "observedGeneration": 1,
        "qosClass": "BestEffort",
        "conditions": [
            {
                "type": type_,
                "observedGeneration": 1,
                "status": status,
                "lastProbeTime": None,
                "lastTransitionTime": time(at),
                **reason,
            }
            for type_, status, at, reason in (
                ("PodReadyToStartContainers", "False", 6, {}),
                ("Initialized", "True", 0, {"reason": "PodCompleted"}),
                ("Ready", "False", 6, {"reason": "PodCompleted"}),
                ("ContainersReady", "False", 6, {"reason": "PodCompleted"}),
                ("PodScheduled", "True", 0, {}),
            )
        ],
        "containerStatuses": [
            {
                "name": "c",
                "image": "i",
                "imageID": f"docker.io/library/i@sha256:{container['imageID'][-64:]}",
                "containerID": container["state"]["terminated"]["containerID"],
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": container["state"],
                "lastState": {},
            }
        ],
        "startTime": time(0),
        "hostIP": "172.18.0.2",
        "hostIPs": [{"ip": "172.18.0.2"}],
        "podIP": good["podIP"],
        "podIPs": [{"ip": good["podIP"]}],
    }
    assert states(good) == [(0, terminated(0, 1, 6))]
    assert (bad["phase"], states(bad)) == ("Failed", [(0, terminated(3, 1, 6))])
    assert condition(bad, "Ready") == ("False", "PodFailed", "")


@pytest.mark.looptime
async def test_a_failing_container_is_restarted_after_a_growing_backoff(
    cluster: Cluster,
) -> None:
    """At once, then after 10 s, 20 s and so on; success ends a pod OnFailure."""
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(
            cluster,
            "p",
            restartPolicy="OnFailure",
            annotations={"devcluster/exit-code": "1,2,3,0"},
        )
        seen = []
        for until in (1.5, 2.5, 3.5, 13.5, 14.5, 34.5, 35.5):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            status = await status_of(cluster, "p")
            (each,) = status["containerStatuses"]
            (state,) = each["state"]
            last = each["lastState"].get("terminated", {}).get("exitCode")
            seen.append((status["phase"], state, each["restartCount"], last))
        assert seen == [
            ("Running", "running", 0, None),
            ("Running", "running", 1, 1),
            ("Running", "waiting", 1, 2),
            ("Running", "running", 2, 2),
            ("Running", "waiting", 2, 3),
            ("Running", "running", 3, 3),
            ("Succeeded", "terminated", 3, 3),
        ]
        uid = (await send(cluster, "GET", f"{PODS}/p"))["metadata"]["uid"]
        assert await events(cluster) == [
            f"p Warning BackOff: {BACK_OFF} c in pod p_default({uid}) (x2)"
        ]


@pytest.mark.looptime
async def test_backoff_is_bounded_and_forgotten_after_ten_good_minutes(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", annotations={"devcluster/run-seconds": "1"})
        # Restarts at 1, 12, 33, 74, 155, 316, 617, 918: the last two after 300 s.
        await asyncio.sleep(917.5)
        (waiting,) = (await status_of(cluster, "p"))["containerStatuses"]
        assert waiting["restartCount"] == 7
        assert waiting["state"]["waiting"]["message"].startswith(
            "back-off 5m0s restarting failed container=c pod=p_default("
        )
        await asyncio.sleep(1)
        assert (await status_of(cluster, "p"))["containerStatuses"][0][
            "restartCount"
        ] == 8
        await create_pod(
            cluster, "stable", annotations={"devcluster/run-seconds": "600"}
        )
        await asyncio.sleep(5 * 600 + 1)
        (running,) = (await status_of(cluster, "stable"))["containerStatuses"]
        assert (running["restartCount"], *running["state"]) == (5, "running")


@pytest.mark.looptime
async def test_init_containers_run_one_after_the_other(cluster: Cluster) -> None:
    """The pod's own containers wait for them."""
    inits = [
        {"name": name, "image": "i", "command": ["sleep", "2"]} for name in ("a", "b")
    ]
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(cluster, "p", initContainers=inits)
        await asyncio.sleep(4)
        status = await status_of(cluster, "p")
        assert states(status, "initContainerStatuses") == [
            (0, terminated(0, 1, 3)),
            (0, {"running": {"startedAt": time(3)}}),
        ]
        initializing = {"waiting": {"reason": "PodInitializing"}}
        assert (status["phase"], states(status)) == ("Pending", [(0, initializing)])
        assert condition(status, "Initialized") == (
            "False",
            "ContainersNotInitialized",
            "containers with incomplete status: [b]",
        )
        assert condition(status, "Ready") == (
            "False",
            "ContainersNotReady",
            "containers with unready status: [c]",
        )
        await asyncio.sleep(1.5)
        status = await status_of(cluster, "p")
        assert status["phase"] == "Running"
        assert states(status) == [(0, {"running": {"startedAt": time(5)}})]
        assert condition(status, "Initialized") == ("True", "", "")
        assert condition(status, "Ready") == ("True", "", "")


@pytest.mark.parametrize(
    ("policy", "phase", "restarts"), [("Never", "Failed", 0), ("Always", "Pending", 1)]
)
@pytest.mark.looptime
async def test_an_init_container_that_fails_keeps_the_pod_from_running(
    cluster: Cluster, policy: str, phase: str, restarts: int
) -> None:
    inits = [{"name": "a", "image": "i", "command": ["false"]}]
    async with cluster.nodes(count=1):
        await create_pod(cluster, "p", restartPolicy=policy, initContainers=inits)
        await asyncio.sleep(5)
        status = await status_of(cluster, "p")
    assert status["phase"] == phase
    assert status["initContainerStatuses"][0]["restartCount"] == restarts
    assert states(status) == [(0, {"waiting": {"reason": "PodInitializing"}})]


@pytest.mark.looptime
async def test_a_sidecar_runs_beside_the_containers_and_ends_with_them(
    cluster: Cluster,
) -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            initContainers=[sidecar],
            annotations={"devcluster/run-seconds": "2"},
        )
        await asyncio.sleep(2)
        status = await status_of(cluster, "p")
        running = [(0, {"running": {"startedAt": time(1)}})]
        assert states(status, "initContainerStatuses") == running
        assert (status["phase"], states(status)) == ("Running", running)
        assert condition(status, "Ready") == ("True", "", "")
        await asyncio.sleep(2)
        status = await status_of(cluster, "p")
    ended = [(0, terminated(0, 1, 3))]
    assert states(status, "initContainerStatuses") == ended
    assert (status["phase"], states(status)) == ("Succeeded", ended)


@pytest.mark.looptime
async def test_a_sidecar_that_ends_is_started_again(cluster: Cluster) -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            initContainers=[{**sidecar, "command": ["sleep", "3"]}],
        )
        await asyncio.sleep(4.5)
        status = await status_of(cluster, "p")
    assert states(status, "initContainerStatuses") == [
        (1, {"running": {"startedAt": time(4)}})
    ]
    assert (status["phase"], states(status)[0][0]) == ("Running", 0)


@pytest.mark.looptime
async def test_a_pod_fails_at_its_active_deadline(cluster: Cluster) -> None:
    """Its containers are killed; the deadline may be set while it runs."""
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(cluster, "p", activeDeadlineSeconds=10)
        await create_pod(cluster, "later")
        await asyncio.sleep(5)
        deadline = {"spec": {"activeDeadlineSeconds": 20}}
        await send(cluster, "PATCH", f"{PODS}/later", deadline)
        await asyncio.sleep(4.9)
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await asyncio.sleep(0.2)
        status = await status_of(cluster, "p")
        assert (status["phase"], status["reason"], status["message"]) == (
            "Failed",
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
        )
        assert states(status) == [(0, terminated(137, 1, 10))]
        await asyncio.sleep(9.8)
        assert (await status_of(cluster, "later"))["phase"] == "Running"
        await asyncio.sleep(2)
        assert (await status_of(cluster, "later"))["reason"] == "DeadlineExceeded"


@pytest.mark.looptime
async def test_a_deleted_pod_fails_before_it_goes(cluster: Cluster) -> None:
    """A finalizer shows it: its containers were killed at the end of the grace."""
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(cluster, "p")
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await send(cluster, "PATCH", f"{PODS}/p", held)
        await asyncio.sleep(2)
        await send(cluster, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 10})
        await asyncio.sleep(9.9)
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await asyncio.sleep(0.2)
        pod = await send(cluster, "GET", f"{PODS}/p")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
        assert (pod["status"]["phase"], states(pod["status"])) == (
            "Failed",
            [(0, terminated(137, 1, 12))],
        )
        await send(cluster, "PATCH", f"{PODS}/p", {"metadata": {"finalizers": None}})
        assert (await send(cluster, "GET", PODS))["items"] == []


@pytest.mark.looptime
async def test_a_deleted_pod_goes_as_soon_as_its_containers_have_ended(
    cluster: Cluster,
) -> None:
    """They are not started again; a pod that has not started goes at once."""
    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(cluster, "p", annotations={"devcluster/run-seconds": "5"})
        await create_pod(
            cluster, "broken", containers=[{"name": "c", "image": "web:404"}]
        )
        await asyncio.sleep(2)
        for name in ("p", "broken"):
            await send(cluster, "DELETE", f"{PODS}/{name}")
        await asyncio.sleep(0.1)
        items = (await send(cluster, "GET", PODS))["items"]
        assert [each["metadata"]["name"] for each in items] == ["p"]
        await asyncio.sleep(3.7)
        assert (await status_of(cluster, "p"))["phase"] == "Running"
        await asyncio.sleep(0.3)
        assert (await send(cluster, "GET", PODS))["items"] == []


@pytest.mark.looptime
async def test_readiness_gates_decide_whether_a_pod_is_ready(cluster: Cluster) -> None:
    gates = [{"conditionType": "example.com/open"}]

    async def set_gate(status: str) -> None:
        pod = await send(cluster, "GET", f"{PODS}/p")
        others = [
            each
            for each in pod["status"]["conditions"]
            if each["type"] != "example.com/open"
        ]
        gate = {"type": "example.com/open", "status": status}
        patch = {"status": {"conditions": [*others, gate]}}
        await send(cluster, "PATCH", f"{PODS}/p/status", patch)
        await asyncio.sleep(0.1)

    async with cluster.nodes(count=1, start_delay=1):
        await create_pod(cluster, "p", readinessGates=gates)
        await asyncio.sleep(2)
        status = await status_of(cluster, "p")
        assert condition(status, "ContainersReady") == ("True", "", "")
        assert condition(status, "Ready") == (
            "False",
            "ReadinessGatesNotReady",
            f"corresponding condition of {GATE} does not exist.",
        )
        await set_gate("True")
        ready = condition(await status_of(cluster, "p"), "Ready")
        assert ready == ("True", "", "")
        await set_gate("False")
        assert condition(await status_of(cluster, "p"), "Ready") == (
            "False",
            "ReadinessGatesNotReady",
            f'the status of {GATE} is not "True", but False',
        )


@pytest.mark.looptime
async def test_a_new_image_starts_its_container_again(cluster: Cluster) -> None:
    async with cluster.nodes(count=1, start_delay=3):
        for name, image in (("broken", "broken:1"), ("good", "i")):
            await create_pod(cluster, name, containers=[{"name": "c", "image": image}])
        await asyncio.sleep(4)
        message = (
            'Back-off pulling image "broken:1": ErrImagePull: rpc error: code = '
            "NotFound desc = failed to pull and unpack image "
            '"docker.io/library/broken:1": failed to resolve image: '
            "docker.io/library/broken:1: not found"
        )
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
        status = await status_of(cluster, "broken")
        assert (status["phase"], states(status)) == ("Pending", [(0, waiting)])
        for name in ("broken", "good"):
            pod = await send(cluster, "GET", f"{PODS}/{name}")
            pod["spec"]["containers"][0]["image"] = "j"
            await send(cluster, "PUT", f"{PODS}/{name}", pod)
        await asyncio.sleep(4)
        running = {"running": {"startedAt": time(7)}}
        assert states(await status_of(cluster, "broken")) == [(0, running)]
        (status,) = (await status_of(cluster, "good"))["containerStatuses"]
        assert status == {
            "name": "c",
            "image": "j",
            "imageID": f"docker.io/library/j@sha256:{status['imageID'][-64:]}",
            "containerID": f"containerd://{status['containerID'][-64:]}",
            "ready": True,
            "started": True,
            "restartCount": 1,
            "state": {"running": {"startedAt": time(4)}},
            "lastState": status["lastState"],
            "resources": {},
        }
        assert without_id(status["lastState"]) == terminated(137, 3, 4)


@pytest.mark.looptime
async def test_a_wrong_annotation_keeps_its_container_from_starting(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await create_pod(cluster, "p", annotations={"devcluster/exit-code": "x"})
        await asyncio.sleep(2)
        status = await status_of(cluster, "p")
    message = (
        "annotation devcluster/exit-code: must be numbers from 0 to 255 or OOMKilled, "
        "with commas between, as \"1,1,0\", it is 'x'"
    )
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    assert (status["phase"], states(status)) == ("Pending", [(0, {"waiting": waiting})])


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
