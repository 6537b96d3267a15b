"""The special behaviour of quotas, and of kinds that only quotas use."""

import json

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import Forbidden
from controller_manager.devcluster.registry.core.quotas import QUOTAS
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.controllers.builders import template
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def selector(scope: str, operator: str, *values: str) -> JSON:
    requirement: JSON = {"scopeName": scope, "operator": operator}
    if values:
        requirement["values"] = list(values)
    return {"scopeSelector": {"matchExpressions": [requirement]}}


@pytest.mark.parametrize(
    ("hard", "spec"),
    [
        ({"requests.example.com/gpu": "1", "count/jobs.batch": "1"}, {}),
        ({"hugepages-2Mi": "1Gi", "requests.hugepages-1Gi": "1Gi"}, {}),
        ({"gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}, {}),
        ({"pods": "1"}, selector("PriorityClass", "In", "high", "low")),
        ({"requests.storage": "1"}, selector("VolumeAttributesClass", "Exists")),
    ],
)
async def test_a_valid_quota_is_stored(
    cluster: Cluster, hard: JSON, spec: JSON
) -> None:
    cluster.add("ResourceQuota", "q", spec={"hard": hard, **spec})


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"scopes": ["BestEffort"]}, 422),
        ({"scopes": None}, 422),
        ({"scopes": ["NotBestEffort", "Terminating"]}, 200),
        (selector("PriorityClass", "Exists"), 200),
        ({"hard": {"pods": "2"}}, 200),
    ],
)
async def test_scopes_never_change(cluster: Cluster, spec: JSON, status: int) -> None:
    """Their order may, and so may their selector and the limits."""
    scopes = ["Terminating", "NotBestEffort"]
    cluster.add("ResourceQuota", "q", spec={"hard": {"pods": "1"}, "scopes": scopes})
    path = "/api/v1/namespaces/default/resourcequotas/q"
    merge = "application/merge-patch+json"
    body = json.dumps({"spec": spec}).encode()
    answer = await call(cluster, "PATCH", path, body, content_type=merge)
    assert answer.status == status
    if status != 200:
        assert "spec.scopes" in json.loads(answer.body)["message"]


async def test_the_table_shows_requests_and_limits_of_the_status(
    cluster: Cluster,
) -> None:
    hard = {"limits.cpu": "2", "pods": "5", "requests.cpu": "1000m"}
    used = {"limits.cpu": "1", "pods": "1"}
    status = {"hard": hard, "used": used}
    cluster.add("ResourceQuota", "a", spec={"hard": hard}, status=status)
    cluster.add("ResourceQuota", "b", spec={"hard": hard})
    path = "/api/v1/namespaces/default/resourcequotas"
    table = json.loads((await call(cluster, "GET", path, accept=TABLE)).body)
    assert [each["cells"][:3] for each in table["rows"]] == [
        ["a", "pods: 1/5, requests.cpu: 0/1", "limits.cpu: 1/2"],
        ["b", "", ""],
    ]


async def test_quantities_are_stored_in_canonical_form(cluster: Cluster) -> None:
    """In pods and templates, claims and quotas; numbers become texts."""
    resources = {"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"cpu": 2}}
    container = {"name": "c", "image": "app:v1", "resources": resources}
    cluster.add("Pod", "p", spec={"containers": [container]})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    cluster.add("ReplicaSet", "r", "apps/v1", spec=spec)
    storage = {"requests": {"storage": "1.5Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": storage}
    cluster.add("PersistentVolumeClaim", "v", spec=claim)

    def stored(api: str, kind: str, name: str) -> JSON:
        found = cluster.server.catalogue.of(api, kind)
        assert found is not None
        return cluster.server.objects.find(found, "default", name).obj

    canonical = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    pod = stored("v1", "Pod", "p")
    assert pod["spec"]["containers"][0]["resources"] == canonical
    made = stored("apps/v1", "ReplicaSet", "r")["spec"]["template"]["spec"]
    assert made["containers"][0]["resources"] == canonical
    sizes = stored("v1", "PersistentVolumeClaim", "v")["spec"]["resources"]
    assert sizes == {"requests": {"storage": "1536Mi"}}


async def test_the_devices_of_a_claim_never_change(cluster: Cluster) -> None:
    exactly = {"deviceClassName": "gpu"}
    devices = {"requests": [{"name": "r", "exactly": exactly}]}
    version = "resource.k8s.io/v1"
    cluster.add("ResourceClaim", "c", version, spec={"devices": devices})
    kind = cluster.server.catalogue.of(version, "ResourceClaim")
    assert kind is not None
    obj = cluster.server.objects.find(kind, "default", "c").obj
    assert obj["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    with pytest.raises(Refusal, match="field is immutable"):
        cluster.server.objects.update(kind, "default", "c", {**obj, "spec": {}})


async def test_a_quota_limits_cpu_as_well_as_pods(cluster: Cluster) -> None:
    hard = {"pods": "5", "requests.cpu": "250m"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    stored = cluster.server.objects.create(QUOTAS, "default", quota).obj
    counted = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    cluster.server.objects.update(
        QUOTAS, "default", "q", {**stored, "status": counted}, "status"
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
    stored = cluster.server.objects.find(QUOTAS, "default", "q").obj
    assert stored["status"]["used"] == {"pods": "2", "requests.cpu": "200m"}
