"""A cluster serves the metrics APIs from its objects."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

METRICS = "/apis/metrics.k8s.io/v1beta1"
DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def get(cluster: Cluster, path: str) -> JSON:
    answer = await call(cluster, "GET", path)
    body: JSON = json.loads(answer.body)
    return body


async def create(cluster: Cluster, path: str, **obj: Any) -> JSON:
    answer = await call(cluster, "POST", path, json.dumps(obj).encode())
    assert answer.status == 201, answer.body
    created: JSON = json.loads(answer.body)
    return created


async def run_pod(cluster: Cluster, name: str, owner: JSON | None = None) -> None:
    metadata: JSON = {"name": name}
    if owner is not None:
        reference = {"kind": owner["kind"], "apiVersion": owner["apiVersion"]}
        for field in ("name", "uid"):
            reference[field] = owner["metadata"][field]
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    path = f"{DEFAULT}/pods"
    await create(cluster, path, metadata=metadata, spec=spec)
    body = json.dumps({"status": {"phase": "Running"}}).encode()
    merge = "application/merge-patch+json"
    path = f"{path}/{name}/status"
    assert (await call(cluster, "PATCH", path, body, content_type=merge)).status == 200


async def usages(cluster: Cluster, path: str = "/namespaces/default/pods") -> JSON:
    listed = await get(cluster, f"{METRICS}{path}")
    return {
        each["metadata"]["name"]: each["containers"][0]["usage"]["cpu"]
        for each in listed["items"]
    }


async def test_discovery_shows_the_three_apis(cluster: Cluster) -> None:
    groups = {each["name"] for each in (await get(cluster, "/apis"))["groups"]}
    metrics = {f"{prefix}metrics.k8s.io" for prefix in ("", "custom.", "external.")}
    assert metrics <= groups
    listed = await get(cluster, METRICS)
    assert [(each["name"], each["verbs"]) for each in listed["resources"]] == [
        ("nodes", ["get", "list"]),
        ("pods", ["get", "list"]),
    ]
    custom = await get(cluster, "/apis/custom.metrics.k8s.io/v1beta2")
    assert custom == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "custom.metrics.k8s.io/v1beta2",
        "resources": [],
    }


async def test_a_workloads_annotation_is_the_load_of_its_pods(cluster: Cluster) -> None:
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    owner = await create(
        cluster,
        DEPLOYMENTS,
        metadata={"name": "web", "annotations": {"devcluster/cpu": "total:1"}},
        spec={"selector": {"matchLabels": {"app": "a"}}, "template": template},
    )
    for name in ("one", "two"):
        await run_pod(cluster, name, owner)
    await run_pod(cluster, "bare")
    assert await usages(cluster) == {"one": "500m", "two": "500m", "bare": "1m"}
    assert await usages(cluster, "/pods") == await usages(cluster)
    answers = '{"resource": {"one": {"c": {"cpu": "7m"}}}}'
    metadata = {"name": "devcluster-metrics"}
    path = f"{DEFAULT}/configmaps"
    await create(cluster, path, metadata=metadata, data={"answers": answers})
    assert await usages(cluster) == {"one": "7m"}


async def test_a_node_uses_what_its_pods_use(cluster: Cluster) -> None:
    await create(cluster, "/api/v1/nodes", metadata={"name": "n"})
    await create(cluster, "/api/v1/nodes", metadata={"name": "empty"})
    for name in ("one", "two"):
        await run_pod(cluster, name)
    listed = await get(cluster, f"{METRICS}/nodes")
    assert {each["metadata"]["name"]: each["usage"] for each in listed["items"]} == {
        "n": {"cpu": "2m", "memory": "16Mi"},
        "empty": {"cpu": "0", "memory": "0"},
    }
    node = await get(cluster, f"{METRICS}/nodes/n")
    assert (node["kind"], node["usage"]["cpu"]) == ("NodeMetrics", "2m")
    assert (await get(cluster, f"{METRICS}/nodes/x"))["code"] == 404


async def test_metrics_are_shown_in_a_table(cluster: Cluster) -> None:
    await run_pod(cluster, "one")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path in ("pods", "namespaces/default/pods", "namespaces/default/pods/one"):
        answer = await call(cluster, "GET", f"{METRICS}/{path}", accept=accept)
        shown = json.loads(answer.body)
        titles = [each["name"] for each in shown["columnDefinitions"]]
        assert titles == ["Name", "cpu", "memory", "Window"]
        assert [row["cells"] for row in shown["rows"]] == [["one", "1m", "8Mi", "1s"]]


async def test_settings_that_cannot_be_read_are_an_error(cluster: Cluster) -> None:
    metadata, path = {"name": "devcluster-metrics"}, f"{DEFAULT}/configmaps"
    await create(cluster, path, metadata=metadata, data={"answers": "{"})
    found = await get(cluster, f"{METRICS}/namespaces/default/pods")
    assert found["code"] == 500
    assert found["message"] == (
        "ConfigMap default/devcluster-metrics, key answers: Input data was truncated"
    )


async def test_nothing_is_written_there(cluster: Cluster) -> None:
    """The APIs are read only."""
    answer = await call(cluster, "POST", f"{METRICS}/namespaces/default/pods", b"{}")
    assert answer.status == 405
