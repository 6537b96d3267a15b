"""Autoscalers have upstream's defaults, checks and columns, in both versions."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
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


async def test_the_rest_stands_in_annotations_of_the_old_version(
    cluster: Cluster,
) -> None:
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


async def test_the_old_version_is_deleted_and_watched_too(cluster: Cluster) -> None:
    created = await create(cluster, V1)
    version = created["metadata"]["resourceVersion"]
    assert (await call(cluster, "DELETE", f"{V1}/web")).status == 200
    query = (("watch", "1"), ("resourceVersion", version), ("timeoutSeconds", "1"))
    answer = await cluster.transport.request(Request("GET", V1, query))
    (event,) = map(json.loads, answer.body.splitlines())
    assert (event["type"], event["object"]["spec"]) == ("DELETED", created["spec"])
    assert (await get(cluster, f"{V2}/web"))["code"] == 404
