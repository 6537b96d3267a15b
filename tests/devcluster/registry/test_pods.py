"""Pods: priority, quality of service, gates, grace periods, labels of their nodes."""

import asyncio
import json
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pod_updates import qos_class
from controller_manager.devcluster.registry.core.pods import KIND, bind
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import DEFAULT, PODS, create_pod, send, status_of
from tests.devcluster.registry.requests import create, update
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


async def test_a_pod_has_the_priority_of_its_class(cluster: Cluster) -> None:
    pod = create(cluster, "Pod", {"metadata": {"name": "before"}})
    assert (pod["spec"]["priority"], pod["spec"].get("priorityClassName")) == (0, None)
    low = {"metadata": {"name": "low"}, "value": 5, "preemptionPolicy": "Never"}
    create(cluster, "PriorityClass", {**low, "globalDefault": True})
    create(cluster, "PriorityClass", {"metadata": {"name": "high"}, "value": 50})
    for name, priority, policy in (
        (None, 5, "Never"),
        ("high", 50, "PreemptLowerPriority"),
        ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
    ):
        change = {"metadata": {"name": f"p{priority}"}}
        spec = {"priorityClassName": name} if name else {}
        pod = create(cluster, "Pod", {**change, "spec": spec})
        found = pod["spec"]
        assert (found["priority"], found["preemptionPolicy"]) == (priority, policy)
        assert found["priorityClassName"] == (name or "low")


async def test_a_pod_of_an_unknown_class_is_refused(cluster: Cluster) -> None:
    metadata = {"name": None, "generateName": "p-"}
    change = {"metadata": metadata, "spec": {"priorityClassName": "x"}}
    with pytest.raises(Refusal) as caught:
        create(cluster, "Pod", change)
    assert caught.value.code == 403
    expected = 'pods "p-" is forbidden: no PriorityClass with name x was found'
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("policy", "code", "allowed"),
    [
        ("Always", 0, True),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Never", 1, False),
        ("Never", 0, False),
    ],
)
async def test_a_container_that_has_ended_for_good_does_not_start_again(
    cluster: Cluster, policy: str, code: int, *, allowed: bool
) -> None:
    pod = create(cluster, "Pod", {"spec": {"restartPolicy": policy}})
    common = {"name": "c", "image": "i", "imageID": "", "ready": False}

    def status(**state: JSON) -> JSON:
        container = {**common, "restartCount": 0, "state": state}
        return {"status": {"containerStatuses": [container]}}

    ended = {"exitCode": code}
    pod = update(cluster, pod, status(terminated=ended), "status")
    if allowed:
        update(cluster, pod, status(running={}), "status")
        return
    with pytest.raises(Refusal, match="may not be transitioned to non-terminated"):
        update(cluster, pod, status(running={}), "status")
    update(cluster, pod, status(terminated={**ended, "reason": "Error"}), "status")


async def test_a_field_selector_sees_the_default_of_an_absent_field(
    cluster: Cluster,
) -> None:
    create(cluster, "Pod")
    create(cluster, "Node")
    create(cluster, "Job")
    pods, jobs = "/api/v1/pods", "/apis/batch/v1/jobs"
    for path, field, absent in (
        (pods, "spec.hostNetwork", "false"),
        ("/api/v1/nodes", "spec.unschedulable", "false"),
        (jobs, "status.successful", "0"),
        (pods, "spec.nodeName", ""),
    ):
        for value, count in ((absent, 1), ("other", 0)):
            query = f"{path}?fieldSelector={field}={value}"
            answer = await call(cluster, "GET", query)
            assert len(msgspec.json.decode(answer.body)["items"]) == count


FULL: Final[JSON] = {"cpu": "1", "memory": "1Gi"}
SAME: Final[JSON] = {"cpu": "1000m", "memory": "1073741824"}


def both(requests: JSON, limits: JSON) -> JSON:
    return {"requests": requests, "limits": limits}


def spec(*resources: JSON, init: JSON | None = None, whole: JSON | None = None) -> JSON:
    """Return the spec of a pod whose containers have these resources."""
    made: JSON = {
        "containers": [{"name": "c", "resources": each} for each in resources]
    }
    if init is not None:
        made["initContainers"] = [{"name": "i", "resources": init}]
    if whole is not None:
        made["resources"] = whole
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (spec({}), "BestEffort"),
        (spec({"requests": {"cpu": "0"}, "limits": {"memory": "0"}}), "BestEffort"),
        (spec({"requests": {"ephemeral-storage": "1Gi"}}), "BestEffort"),
        (spec({"requests": {"example.com/gpu": "1"}}), "BestEffort"),
        (spec({"requests": {"cpu": "1"}}), "Burstable"),
        (spec({"limits": {"memory": "1Gi"}}), "Burstable"),
        (spec(both(FULL, FULL)), "Guaranteed"),
        (spec(both(FULL, SAME)), "Guaranteed"),
        (spec(both({**FULL, "ephemeral-storage": "1Gi"}, FULL)), "Guaranteed"),
        (spec(both({"cpu": "1"}, {"cpu": "1"})), "Burstable"),
        (spec(both(FULL, FULL), {}), "Burstable"),
        (spec(both(FULL, FULL), init={}), "Burstable"),
        (spec(both(FULL, FULL), init=both(FULL, FULL)), "Guaranteed"),
        (spec({}, whole=both(FULL, SAME)), "Guaranteed"),
        (spec(both(FULL, FULL), whole={"requests": {"cpu": "1"}}), "Burstable"),
        (spec(both(FULL, FULL), whole={}), "BestEffort"),
    ],
)
def test_the_class_is_that_of_the_amounts(pod: JSON, expected: str) -> None:
    """Only cpu and memory count; what the pod states as a whole decides alone."""
    assert qos_class(pod) == expected


GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def term(*keys: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": each, "operator": "Exists"} for each in keys]}


async def refusal(cluster: Cluster, **spec: Any) -> str:
    """Change the spec of the pod p; return the reason of the refusal, "" for none."""
    body = json.dumps({"spec": spec}).encode()
    form = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", f"{PODS}/p", body, content_type=form)
    if answer.status == 200:
        return ""
    message: str = json.loads(answer.body)["message"]
    return message.removeprefix('Pod "p" is invalid: ')


async def test_a_pod_is_scheduled_once_its_gates_are_removed(cluster: Cluster) -> None:
    """One after the other; upstream's e2e patches them away."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", schedulingGates=GATES)
        assert await refusal(cluster, schedulingGates=GATES[1:]) == ""
        (gated,) = (await status_of(cluster, "p"))["conditions"]
        assert gated["reason"] == "SchedulingGated"
        pod = await send(cluster, "GET", f"{PODS}/p")
        assert "nodeName" not in pod["spec"]
        assert await refusal(cluster, schedulingGates=None) == ""
        pod = await send(cluster, "GET", f"{PODS}/p")
        while pod["status"]["phase"] != "Running":
            await asyncio.sleep(1)
            pod = await send(cluster, "GET", f"{PODS}/p")
    assert pod["metadata"]["generation"] == 3


async def test_gates_are_never_added(cluster: Cluster) -> None:
    await create_pod(cluster, "p", schedulingGates=GATES[:1])
    name = "example.com/two"
    why = f"only deletion is allowed, but found new scheduling gate '{name}'"
    found = await refusal(cluster, schedulingGates=GATES)
    assert found == f"spec.schedulingGates[1].name: Forbidden: {why}"


@rows("change", "expected")
async def test_a_gated_pod_may_be_limited_to_fewer_nodes(
    cluster: Cluster, change: dict[str, Any], expected: str
) -> None:
    await create_pod(
        cluster,
        "p",
        schedulingGates=GATES,
        nodeSelector={"a": "b"},
        affinity=affinity(term("a")),
    )
    found = await refusal(cluster, **change)
    assert bool(found) is bool(expected)
    assert expected in found


async def test_a_pod_without_gates_keeps_its_node_selector(cluster: Cluster) -> None:
    await create_pod(cluster, "p")
    assert "Forbidden" in await refusal(cluster, nodeSelector={"a": "b"})


async def test_a_pod_with_a_negative_grace_period_has_one_second(
    cluster: Cluster,
) -> None:
    await create_pod(cluster, "p", terminationGracePeriodSeconds=-7)
    pod = await send(cluster, "GET", f"{PODS}/p")
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    spec = {**pod["spec"], "terminationGracePeriodSeconds": -1}
    updated = await send(cluster, "PUT", f"{PODS}/p", {**pod, "spec": spec})
    assert updated == pod


async def test_another_grace_period_cannot_be_changed(cluster: Cluster) -> None:
    await create_pod(cluster, "p", terminationGracePeriodSeconds=5)
    patch = json.dumps({"spec": {"terminationGracePeriodSeconds": -1}}).encode()
    form = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", f"{PODS}/p", patch, content_type=form)
    assert answer.status == 422


async def test_a_template_keeps_its_negative_grace_period(cluster: Cluster) -> None:
    template = {
        "metadata": {"name": "t"},
        "template": {
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "terminationGracePeriodSeconds": -1,
            }
        },
    }
    created = await send(cluster, "POST", f"{DEFAULT}/podtemplates", template)
    assert created["template"]["spec"]["terminationGracePeriodSeconds"] == -1


ZONE = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}


async def test_a_bound_pod_is_labelled(cluster: Cluster) -> None:
    """Also over labels of its own; no other label is copied."""
    create(cluster, "Node", {"metadata": {"name": "n", "labels": {**ZONE, "x": "y"}}})
    own = {"app": "web", "topology.kubernetes.io/zone": "mine"}
    create(cluster, "Pod", {"metadata": {"name": "p", "labels": own}})
    bind(cluster.server.objects, KIND, "default", "p", "n")
    stored = cluster.server.objects.find(KIND, "default", "p").obj
    assert stored["metadata"]["labels"] == {"app": "web", **ZONE}


async def test_a_pod_that_is_created_on_a_node_is_labelled(cluster: Cluster) -> None:
    create(cluster, "Node", {"metadata": {"name": "n", "labels": ZONE}})
    pod = create(cluster, "Pod", {"spec": {"nodeName": "n"}})
    assert pod["metadata"]["labels"] == ZONE
    assert pod["metadata"]["name"] == "a"
    assert "creationTimestamp" in pod["metadata"]
    other = {"metadata": {"name": "b"}, "spec": {"nodeName": "other"}}
    assert "labels" not in create(cluster, "Pod", other)["metadata"]
