"""Autoscalers have upstream's defaults, checks and columns, in both versions."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, update
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cpu(percent: int) -> JSON:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def queue(**target: str) -> JSON:
    kind = "Value" if "value" in target else "AverageValue"
    return {
        "type": "External",
        "external": {"metric": {"name": "queue"}, "target": {"type": kind, **target}},
    }


async def send(
    cluster: Cluster, method: str, path: str, obj: JSON, **headers: str
) -> JSON:
    body = json.dumps(obj).encode()
    answer = await call(cluster, method, path, body, **headers)
    decoded: JSON = json.loads(answer.body)
    return decoded


async def get(cluster: Cluster, path: str) -> JSON:
    answer = await call(cluster, "GET", path)
    decoded: JSON = json.loads(answer.body)
    return decoded


async def create(cluster: Cluster, path: str = V2, **spec: Any) -> JSON:
    spec = {"maxReplicas": 5, "scaleTargetRef": TARGET, **spec}
    return await send(
        cluster, "POST", path, {"metadata": {"name": "web"}, "spec": spec}
    )


async def refused(cluster: Cluster, **spec: Any) -> list[str]:
    details = (await create(cluster, **spec))["details"]
    return [f"{each['field']}: {each['message']}" for each in details["causes"]]


async def test_only_replication_controllers_have_no_group(cluster: Cluster) -> None:
    """An autoscaler that was stored without one may be changed."""
    target = {"apiVersion": "v1", "kind": "ReplicationController", "name": "web"}
    created = await create(cluster, scaleTargetRef=target)
    assert created["spec"]["scaleTargetRef"] == target
    catalogue = cluster.server.catalogue
    kind = catalogue.find("autoscaling", "v2", "horizontalpodautoscalers")
    assert kind is not None
    spec = {**created["spec"], "scaleTargetRef": {**target, "kind": "Pod"}}
    old = {**created, "spec": spec}
    stored = cluster.server.objects.put(kind, ("default", "web"), old).obj
    changed = update(cluster, stored, {"spec": {"maxReplicas": 9}})
    assert changed["spec"]["maxReplicas"] == 9


async def test_scaling_to_zero_needs_its_gate() -> None:
    """And a metric that exists without pods; without the gate it may go on."""
    cluster = Cluster(features=FeatureGates({"HPAScaleToZero": True}))
    spec: JSON = {"minReplicas": 0, "metrics": [queue(averageValue="1")]}
    created = await create(cluster, **spec)
    assert created["spec"]["minReplicas"] == 0
    without = Cluster()
    assert await refused(without, **spec) == [
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
    ]
    kind = without.server.catalogue.find(
        "autoscaling", "v2", "horizontalpodautoscalers"
    )
    assert kind is not None
    created["metadata"].pop("resourceVersion")
    without.server.objects.put(kind, ("default", "web"), created)
    stored = without.server.objects.find(kind, "default", "web").obj
    changed = update(without, stored, {"spec": {"maxReplicas": 9}})
    assert changed["spec"]["maxReplicas"] == 9
    with pytest.raises(Refusal) as raised:
        update(without, stored, {"spec": {"minReplicas": -1}})
    assert causes(raised.value)[0].endswith("must be greater than or equal to 0")


async def test_the_old_version_shows_the_same_row(cluster: Cluster) -> None:
    """Also of metrics that it keeps in annotations."""
    await create(cluster, metrics=[cpu(50), queue(value="35")])
    for path in (V1, V2):
        answer = await call(cluster, "GET", path, accept=TABLE)
        (row,) = json.loads(answer.body)["rows"]
        targets = "cpu: <unknown>/50%, <unknown>/35"
        assert row["cells"] == ["web", "Deployment/web", targets, "1", "5", 0, "0s"]


async def test_the_old_version_writes_the_present_cpu(cluster: Cluster) -> None:
    """It is a metric of the newer version, and shown in the row."""
    await create(cluster, metrics=[cpu(50)])
    status = {"status": {"currentCPUUtilizationPercentage": 7}}
    await send(cluster, "PATCH", f"{V1}/web/status", status, content_type=MERGE)
    current = {"name": "cpu", "current": {"averageUtilization": 7}}
    assert (await get(cluster, f"{V2}/web"))["status"]["currentMetrics"] == [
        {"type": "Resource", "resource": current}
    ]
    answer = await call(cluster, "GET", V1, accept=TABLE)
    (row,) = json.loads(answer.body)["rows"]
    assert row["cells"][2] == "cpu: 7%/50%"


async def test_the_old_version_knows_cpu(cluster: Cluster) -> None:
    """It is the same object in both."""
    created = await create(cluster, V1, targetCPUUtilizationPercentage=50)
    assert created["apiVersion"] == "autoscaling/v1"
    assert created["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 50,
    }
    assert created["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    newer = await get(cluster, f"{V2}/web")
    assert newer["apiVersion"] == "autoscaling/v2"
    assert newer["spec"]["metrics"] == [cpu(50)]
    assert "annotations" not in newer["metadata"]
    (listed,) = (await get(cluster, V1))["items"]
    assert listed["spec"] == created["spec"]


async def test_the_rest_stands_in_annotations_of_the_old_version(
    cluster: Cluster,
) -> None:
    """A write of the old version loses nothing."""
    metrics = [
        cpu(50),
        queue(averageValue="10"),
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Service", "name": "web"},
                "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "Value", "value": "10"},
            },
        },
    ]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    await create(cluster, metrics=metrics, behavior=behavior)
    condition = {"type": "AbleToScale", "status": "True", "reason": "R", "message": "m"}
    percent = {"averageUtilization": 30, "averageValue": "30m"}
    status = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "conditions": [condition],
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": percent}},
            {"type": ""},
        ],
    }
    merge = {"content_type": MERGE}
    newer = await send(
        cluster, "PATCH", f"{V2}/web/status", {"status": status}, **merge
    )
    older = await get(cluster, f"{V1}/web")
    annotations = older["metadata"]["annotations"]
    prefix = "autoscaling.alpha.kubernetes.io/"
    kept = {
        key.removeprefix(prefix): json.loads(annotations[key]) for key in annotations
    }
    assert kept.keys() == {"metrics", "behavior", "conditions", "current-metrics"}
    assert kept["metrics"] == metrics[1:]
    assert kept["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 0
    assert kept["current-metrics"] == status["currentMetrics"]
    assert older["status"]["currentCPUUtilizationPercentage"] == 30
    older["metadata"]["labels"] = {"x": "y"}
    older["spec"]["maxReplicas"] = 9
    await send(cluster, "PUT", f"{V1}/web", older)
    after = await get(cluster, f"{V2}/web")
    assert after["spec"] == {**newer["spec"], "maxReplicas": 9}
    assert after["status"] == newer["status"]
    assert after["metadata"]["labels"] == {"x": "y"}
    assert "annotations" not in after["metadata"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metrics", "["),
        ("metrics", '[{"type": "Pods", "pods": {"target": []}}]'),
        ("behavior", '{"scaleUp": 5}'),
        ("conditions", '[{"type": 5}]'),
        ("current-metrics", '{"type": "Pods"}'),
    ],
)
async def test_annotations_that_cannot_be_read_are_dropped(
    cluster: Cluster, name: str, text: str
) -> None:
    """As if they were not there."""
    annotations = {f"autoscaling.alpha.kubernetes.io/{name}": text, "mine": "1"}
    metadata = {"name": "web", "annotations": annotations}
    spec = {"maxReplicas": 5, "scaleTargetRef": TARGET}
    await send(cluster, "POST", V1, {"metadata": metadata, "spec": spec})
    newer = await get(cluster, f"{V2}/web")
    assert newer["metadata"]["annotations"] == {"mine": "1"}
    assert newer["spec"]["metrics"] == [cpu(80)]


async def test_the_old_version_is_deleted_and_watched_too(cluster: Cluster) -> None:
    """It is one object."""
    created = await create(cluster, V1)
    version = created["metadata"]["resourceVersion"]
    assert (await call(cluster, "DELETE", f"{V1}/web")).status == 200
    query = (("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", "1"))
    answer = await cluster.transport.request(Request("GET", V1, query))
    (event,) = map(json.loads, answer.body.splitlines())
    assert (event["type"], event["object"]["spec"]) == ("DELETED", created["spec"])
    assert (await get(cluster, f"{V2}/web"))["code"] == 404


async def test_an_autoscaler_that_is_held_is_shown_in_the_old_version(
    cluster: Cluster,
) -> None:
    """In the answer to its deletion."""
    spec = {"maxReplicas": 5, "scaleTargetRef": TARGET}
    metadata = {"name": "web", "finalizers": ["example.com/hold"]}
    await send(cluster, "POST", V1, {"metadata": metadata, "spec": spec})
    answer = await call(cluster, "DELETE", f"{V1}/web")
    held = json.loads(answer.body)
    assert held["apiVersion"] == "autoscaling/v1"
    assert held["spec"]["targetCPUUtilizationPercentage"] == 80
    assert "deletionTimestamp" in held["metadata"]


async def test_the_old_version_is_applied_too(cluster: Cluster) -> None:
    """By the server, when it is new and when it is there."""
    apply = {"content_type": "application/apply-patch+yaml"}
    obj: JSON = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": TARGET},
    }
    for percent in (30, 40):
        spec = {**obj["spec"], "targetCPUUtilizationPercentage": percent}
        path = f"{V1}/web?fieldManager=test"
        applied = await send(cluster, "PATCH", path, {**obj, "spec": spec}, **apply)
        assert applied["apiVersion"] == "autoscaling/v1"
        assert applied["spec"] == {**spec, "minReplicas": 1}
        newer = await get(cluster, f"{V2}/web")
        assert newer["apiVersion"] == "autoscaling/v2"
        assert newer["spec"]["metrics"] == [cpu(percent)]
