"""The special behaviour of kinds of the core group."""

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import Forbidden
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.registry.core.quotas import QUOTAS as QUOTA
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.controllers.builders import template
from tests.devcluster.registry.requests import create, update
from tests.devcluster.requests import call


def test_a_node_that_somebody_creates_has_every_field() -> None:
    """Empty ones, as the API server writes them."""
    node: JSON = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0"}}}
    NODE.apply_defaults(node)
    assert node == {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "v1.30.0",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    }


@pytest.mark.parametrize(
    "given", [[], ["example.com/hold"], ["kubernetes.io/pvc-protection"]]
)
@pytest.mark.looptime
async def test_a_new_claim_is_protected(cluster: Cluster, given: list[str]) -> None:
    """Once, behind its other finalizers."""
    resources = {"requests": {"storage": "1Gi"}}
    claim = {
        "metadata": {"name": "data", "finalizers": given},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    stored = cluster.server.objects.create(CLAIM, "default", claim).obj
    assert stored["metadata"]["finalizers"] == [
        *(each for each in given if each.startswith("example.com")),
        "kubernetes.io/pvc-protection",
    ]


@pytest.mark.looptime
async def test_a_quota_limits_cpu_as_well_as_pods(cluster: Cluster) -> None:
    """And admission updates its status, which a manager has counted before."""
    hard = {"pods": "5", "requests.cpu": "250m"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    stored = cluster.server.objects.create(QUOTA, "default", quota).obj
    counted = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    cluster.server.objects.update(
        QUOTA, "default", "q", {**stored, "status": counted}, "status"
    )
    pod = {"metadata": {"generateName": "p-"}, "spec": template()["spec"]}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    body = msgspec.json.encode(pod)
    for _ in range(2):
        await cluster.client.create_json(PODS, "default", body)
    with pytest.raises(Forbidden) as caught:
        await cluster.client.create_json(PODS, "default", body)
    assert str(caught.value).endswith(
        "is forbidden: exceeded quota: q, requested: requests.cpu=100m, "
        "used: requests.cpu=200m, limited: requests.cpu=250m"
    )
    stored = cluster.server.objects.find(QUOTA, "default", "q").obj
    assert stored["status"]["used"] == {"pods": "2", "requests.cpu": "200m"}


@pytest.mark.looptime
async def test_a_pod_has_the_priority_of_its_class(cluster: Cluster) -> None:
    """Or that of the default class, or one of every cluster."""
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


@pytest.mark.looptime
async def test_a_pod_of_an_unknown_class_is_refused(cluster: Cluster) -> None:
    """Before it has a name, as upstream's message shows."""
    metadata = {"name": None, "generateName": "p-"}
    change = {"metadata": metadata, "spec": {"priorityClassName": "x"}}
    with pytest.raises(Refusal) as caught:
        create(cluster, "Pod", change)
    assert caught.value.code == 403
    expected = 'pods "p-" is forbidden: no PriorityClass with name x was found'
    assert str(caught.value) == expected


@pytest.mark.looptime
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
    """By the restart policy of its pod."""
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


@pytest.mark.looptime
async def test_a_field_selector_sees_the_default_of_an_absent_field(
    cluster: Cluster,
) -> None:
    """As upstream's: false, or 0."""
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
