"""Annotations, images and missing objects decide what a pod does."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet import events
from controller_manager.devcluster.kubelet.kubelet import Kubelet
from controller_manager.devcluster.storage import Key
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    DEFAULT,
    PODS,
    condition,
    create_pod,
    send,
    status_of,
    times,
)
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


NOT_FOUND = (
    "rpc error: code = NotFound desc = failed to pull and unpack image "
    '"docker.io/library/broken:latest": failed to resolve image: '
    "docker.io/library/broken:latest: not found"
)


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


async def test_the_events_of_a_pod_are_those_of_a_real_cluster(
    cluster: Cluster,
) -> None:
    """From the scheduler to the end; a second pod finds the image on the node."""
    async with cluster.nodes(count=1, details=True):
        containers = [{"name": "c", "image": "i:1"}]
        await create_pod(
            cluster, "p", terminationGracePeriodSeconds=5, containers=containers
        )
        await asyncio.sleep(0.5)
        assert await waiting(cluster) == ("ContainerCreating", "")
        await asyncio.sleep(1)
        await create_pod(cluster, "q", containers=containers)
        await asyncio.sleep(2)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(6)
        at = "kubelet spec.containers{c}"
        assert await told(cluster) == [
            (
                "Normal Scheduled default-scheduler - Successfully assigned default/p "
                "to node-0"
            ),
            f'Normal Pulling {at} Pulling image "i:1"',
            (
                f'Normal Pulled {at} Successfully pulled image "i:1" in 1s (1s '
                "including waiting). Image size: 54169712 bytes."
            ),
            f"Normal Created {at} Container created",
            f"Normal Started {at} Container started",
            f"Normal Killing {at} Stopping container c",
        ]
        assert (await told(cluster, "q"))[1:] == [
            (
                f'Normal Pulled {at} Container image "i:1" already present on machine '
                "and can be accessed by the pod"
            ),
            f"Normal Created {at} Container created",
            f"Normal Started {at} Container started",
        ]


async def test_an_image_that_cannot_be_pulled_is_tried_again_and_again(
    cluster: Cluster,
) -> None:
    """After 10 seconds, 20 seconds and so on."""
    async with cluster.nodes(count=1, details=True):
        await create_pod(cluster, "p", containers=[{"name": "c", "image": "broken"}])
        await asyncio.sleep(1.5)
        assert await waiting(cluster) == ("ErrImagePull", NOT_FOUND)
        await asyncio.sleep(1)
        backing_off = 'Back-off pulling image "broken"'
        assert await waiting(cluster) == (
            "ImagePullBackOff",
            f"{backing_off}: ErrImagePull: {NOT_FOUND}",
        )
        await asyncio.sleep(30)
        at = "kubelet spec.containers{c}"
        assert (await told(cluster))[1:] == [
            f'Normal Pulling {at} Pulling image "broken" (x3)',
            f'Warning Failed {at} Failed to pull image "broken": {NOT_FOUND} (x3)',
            f"Warning Failed {at} Error: ErrImagePull (x3)",
            f"Normal BackOff {at} {backing_off} (x3)",
            f"Warning Failed {at} Error: ImagePullBackOff (x3)",
        ]


@rows("image", "policy", "reason", "message")
async def test_a_container_waits_whose_image_is_wrong(
    cluster: Cluster, image: str, policy: str, reason: str, message: str
) -> None:
    """And the kubelet says so once."""
    container = {"name": "c", "image": image, "imagePullPolicy": policy}
    async with cluster.nodes(count=1, details=True):
        await create_pod(cluster, "p", containers=[container])
        await asyncio.sleep(2)
        assert await waiting(cluster) == (reason, message)
        assert (await told(cluster))[-1] == (
            f"Warning Failed kubelet spec.containers{{c}} Error: {reason}"
        )


@rows("variables", "message", "objects")
async def test_a_container_waits_for_objects_of_its_variables(
    cluster: Cluster, variables: JSON, message: str, objects: list[list[Any]]
) -> None:
    async with cluster.nodes(count=1, details=True):
        if len(objects) > 1:
            await _store(cluster, *objects.pop(0))
        container = {"name": "c", "image": "i", **variables}
        await create_pod(cluster, "p", containers=[container])
        await asyncio.sleep(2)
        assert await waiting(cluster) == ("CreateContainerConfigError", message)
        assert (await told(cluster))[-1] == (
            f"Warning Failed kubelet spec.containers{{c}} Error: {message}"
        )
        await _store(cluster, *objects[0])
        await asyncio.sleep(0.5)
        assert "running" in (await container_of(cluster))["state"]


async def _store(cluster: Cluster, plural: str, data: JSON) -> None:
    path = f"{DEFAULT}/{plural}"
    body = {"metadata": {"name": "m"}, "data": data}
    items = (await send(cluster, "GET", path))["items"]
    if any(each["metadata"]["name"] == "m" for each in items):
        await send(cluster, "PATCH", f"{path}/m", {"data": data})
    else:
        await send(cluster, "POST", path, body)


@rows("source", "message")
async def test_a_pod_waits_for_objects_of_its_volumes(
    cluster: Cluster, source: JSON, message: str
) -> None:
    async with cluster.nodes(count=1, details=True):
        await send(
            cluster, "POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "n"}}
        )
        await create_pod(cluster, "p", volumes=[{"name": "v", **source}])
        await asyncio.sleep(70)
        assert await waiting(cluster) == ("ContainerCreating", "")
        text = f'MountVolume.SetUp failed for volume "v" : {message}'
        assert (await told(cluster))[1:] == [
            f"Warning FailedMount kubelet - {text} (x2)"
        ]
        for plural in ("configmaps", "secrets"):
            body = {"metadata": {"name": "m"}}
            await send(cluster, "POST", f"{DEFAULT}/{plural}", body)
        await send(cluster, "PATCH", f"{DEFAULT}/configmaps/n", {"data": {"k": "1"}})
        await asyncio.sleep(2)
        assert "running" in (await container_of(cluster))["state"]


async def test_a_container_that_uses_too_much_memory_is_killed(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            annotations={"devcluster/exit-code": "OOMKilled"},
        )
        await asyncio.sleep(3)
        status = await status_of(cluster, "p")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["reason"], ended["exitCode"]) == (
        "Failed",
        "OOMKilled",
        137,
    )


async def ready(cluster: Cluster, name: str = "p") -> tuple[bool, bool, str, int]:
    """Return ready, started, the condition Ready, and the restarts of a pod."""
    status = await status_of(cluster, name)
    (each,) = status["containerStatuses"]
    is_ready = condition(status, "Ready")[0]
    return each["ready"], each["started"], is_ready, each["restartCount"]


async def test_a_readiness_probe_decides_when_a_pod_is_ready(cluster: Cluster) -> None:
    """After its delay; it fails in the periods that an annotation names."""
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 3, "periodSeconds": 5}
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(
            cluster,
            "p",
            containers=[{"name": "c", "image": "i", "readinessProbe": probe}],
            annotations={"devcluster/failing-readiness": "20-40"},
        )
        seen = []
        # It looks at 3, 8, ... s: the third failure is at 33, the next success at 43.
        for until in (2.5, 3.5, 32.5, 33.5, 42.5, 43.5):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            seen.append(await ready(cluster))
        no, yes = (False, True, "False", 0), (True, True, "True", 0)
        assert seen == [no, yes, yes, no, no, yes]
        message = "Readiness probe failed: HTTP probe failed with statuscode: 503"
        assert (await told(cluster))[-1] == (
            f"Warning Unhealthy kubelet spec.containers{{c}} {message} (x4)"
        )


async def test_an_annotation_changes_the_result_of_a_probe(cluster: Cluster) -> None:
    """Also of a container without such a probe: it has one every ten seconds then."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p")
        await asyncio.sleep(5)
        assert await ready(cluster) == (True, True, "True", 0)
        key = "devcluster/failing-readiness"
        for value, expected in (("always", False), (None, True)):
            patch = {"metadata": {"annotations": {key: value}}}
            await send(cluster, "PATCH", f"{PODS}/p", patch)
            await asyncio.sleep(40)
            assert (await ready(cluster))[0] is expected


async def test_a_liveness_probe_restarts_a_container(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["x"]}, "failureThreshold": 3}
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(
            cluster,
            "p",
            terminationGracePeriodSeconds=4,
            containers=[{"name": "c", "image": "i", "livenessProbe": probe}],
            annotations={"devcluster/failing-liveness": "15-"},
        )
        await asyncio.sleep(43.5)
        assert await ready(cluster) == (True, True, "True", 0)
        await asyncio.sleep(1)
        assert await ready(cluster) == (True, True, "True", 1)
        at = "kubelet spec.containers{c}"
        pulled = (
            f'Normal Pulled {at} Successfully pulled image "i" in 0s (0s including '
            "waiting). Image size: 59324076 bytes."
        )
        lines = await told(cluster)
    assert lines[-5:] == [
        f"{pulled} (x2)",
        f"Normal Created {at} Container created (x2)",
        f"Normal Started {at} Container started (x2)",
        f"Warning Unhealthy {at} Liveness probe failed: an annotation says so (x3)",
        f"Normal Killing {at} Container c failed liveness probe, will be restarted",
    ]


async def test_a_startup_probe_holds_the_others_back(cluster: Cluster) -> None:
    """Until it succeeds the container is not started; then it is ready."""
    probe = {"tcpSocket": {"port": 80}, "periodSeconds": 2, "failureThreshold": 10}
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(
            cluster,
            "p",
            containers=[
                {
                    "name": "c",
                    "image": "i",
                    "startupProbe": probe,
                    "readinessProbe": {"exec": {"command": ["x"]}},
                }
            ],
            annotations={"devcluster/failing-startup": "-5"},
        )
        await asyncio.sleep(5.5)
        assert await ready(cluster) == (False, False, "False", 0)
        await asyncio.sleep(1)
        assert await ready(cluster) == (True, True, "True", 0)
        address = (await status_of(cluster, "p"))["podIP"]
        assert (await told(cluster))[-1] == (
            "Warning Unhealthy kubelet spec.containers{c} Startup probe failed: dial "
            f"tcp {address}:80: connect: connection refused (x3)"
        )


@rows("annotations", "lifecycle", "seconds", "code")
async def test_a_pod_terminates_as_long_as_its_containers_need(
    cluster: Cluster, annotations: JSON, lifecycle: JSON, seconds: int, code: int
) -> None:
    """At most for its grace period; a finalizer shows how they ended."""
    container = {"name": "c", "image": "i", "lifecycle": lifecycle}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            terminationGracePeriodSeconds=20,
            containers=[container],
            annotations=annotations,
        )
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await send(cluster, "PATCH", f"{PODS}/p", held)
        await asyncio.sleep(1)
        await send(cluster, "DELETE", f"{PODS}/p")
        await asyncio.sleep(seconds - 0.1)
        assert "running" in (await container_of(cluster))["state"]
        await asyncio.sleep(0.2)
        ended = (await container_of(cluster))["state"]["terminated"]
        assert ended["exitCode"] == code


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


async def test_images_are_pulled_as_long_as_an_annotation_says(
    cluster: Cluster,
) -> None:
    container = {"name": "c", "image": "busybox:1", "args": ["sleep", "3"]}
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            containers=[container],
            annotations={"devcluster/pull-seconds": "7"},
        )
        seen = []
        for until in (6.9, 7.1, 10.1):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            seen.append((await status_of(cluster, "p"))["phase"])
    assert seen == ["Pending", "Running", "Succeeded"]


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


async def test_a_node_under_pressure_evicts_pods(cluster: Cluster) -> None:
    requests = {"resources": {"requests": {"memory": "1Gi"}}}
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await create_pod(
            cluster, "large", containers=[{"name": "c", "image": "i", **requests}]
        )
        await create_pod(cluster, "small")
        await asyncio.sleep(5)
        patch = {"metadata": {"annotations": {"devcluster/pressure": "memory"}}}
        await send(cluster, "PATCH", "/api/v1/nodes/node-0", patch)
        await asyncio.sleep(0.1)
        node = await send(cluster, "GET", "/api/v1/nodes/node-0")
        assert condition(node["status"], "MemoryPressure") == (
            "True",
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        )
        status = await status_of(cluster, "small")
        message = (
            "The node was low on resource: memory. Threshold quantity: 100Mi, "
            "available: 50Mi. "
        )
        assert (status["phase"], status["reason"], status["message"]) == (
            "Failed",
            "Evicted",
            message,
        )
        assert condition(status, "DisruptionTarget") == (
            "True",
            "TerminationByKubelet",
            message,
        )
        assert (await told(cluster, "small"))[-2:] == [
            f"Warning Evicted kubelet - {message}",
            "Normal Killing kubelet spec.containers{c} Stopping container c",
        ]
        assert (await status_of(cluster, "large"))["phase"] == "Running"
        await asyncio.sleep(11)
        assert (await status_of(cluster, "large"))["reason"] == "Evicted"


async def test_the_log_of_a_failed_container_may_be_its_message(
    cluster: Cluster,
) -> None:
    container = {
        "name": "c",
        "image": "i",
        "command": ["sh", "-c", "echo no such file; exit 2"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", restartPolicy="Never", containers=[container])
        await asyncio.sleep(1)
        ended = (await container_of(cluster))["state"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (2, "no such file\n")


@pytest.mark.parametrize(
    ("policy", "rules", "restarts", "phase"),
    [
        ("Never", [], 0, "Failed"),
        ("OnFailure", [], 1, "Running"),
        ("Never", [{"operator": "In", "values": [42]}], 1, "Running"),
        ("Never", [{"operator": "NotIn", "values": [42]}], 0, "Failed"),
    ],
)
async def test_a_container_may_have_a_policy_of_its_own(
    cluster: Cluster, policy: str, rules: list[JSON], restarts: int, phase: str
) -> None:
    """Its rules go before it; the pod's is Never."""
    container = {
        "name": "c",
        "image": "i",
        "restartPolicy": policy,
        "restartPolicyRules": [
            {"action": "Restart", "exitCodes": each} for each in rules
        ],
    }
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(
            cluster,
            "p",
            restartPolicy="Never",
            containers=[container],
            annotations={"devcluster/exit-code": "42", "devcluster/run-seconds": "5"},
        )
        await asyncio.sleep(7)
        status = await status_of(cluster, "p")
    assert (status["containerStatuses"][0]["restartCount"], status["phase"]) == (
        restarts,
        phase,
    )


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


@rows("expression", "value", "message")
async def test_a_wrong_sub_path_keeps_a_container_from_starting(
    cluster: Cluster, expression: str, value: JSON, message: str
) -> None:
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": expression}
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sleep", "infinity"],
        "env": [{"name": "HERE", **value}],
        "volumeMounts": [mount],
    }
    async with cluster.nodes(count=1, details=True):
        volumes = [{"name": "v", "emptyDir": {}}]
        await create_pod(cluster, "p", containers=[container], volumes=volumes)
        await asyncio.sleep(2)
        assert await waiting(cluster) == ("CreateContainerConfigError", message)
        patch = {"metadata": {"annotations": {"place": "here"}}}
        await send(cluster, "PATCH", f"{PODS}/p", patch)
        await asyncio.sleep(15)
        phase = (await status_of(cluster, "p"))["phase"]
        assert phase == ("Running" if "valueFrom" in value else "Pending")


@rows("image", "of_pod", "of_container", "why")
async def test_a_container_that_must_not_run_as_root_waits(
    cluster: Cluster, image: str, of_pod: JSON, of_container: JSON, why: str
) -> None:
    container = {
        "name": "c",
        "image": image,
        "command": ["sleep", "infinity"],
        "securityContext": of_container,
    }
    async with cluster.nodes(count=1, details=True):
        await create_pod(cluster, "p", containers=[container], securityContext=of_pod)
        await asyncio.sleep(2)
        if not why:
            assert (await status_of(cluster, "p"))["phase"] == "Running"
            return
        uid = (await send(cluster, "GET", f"{PODS}/p"))["metadata"]["uid"]
        message = f'{why} (pod: "p_default({uid})", container: c)'
        assert await waiting(cluster) == ("CreateContainerConfigError", message)
