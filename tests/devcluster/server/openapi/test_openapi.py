"""The documents that kubectl reads."""

import json
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call


@pytest.mark.looptime
async def test_openapi_describes_the_parts_that_kubectl_reads(cluster: Cluster) -> None:
    """Types, descriptions, merge keys, and that the server validates fields."""
    index = json.loads((await call(cluster, "GET", "/openapi/v3")).body)
    assert "apis/apps/v1" in index["paths"]
    apps = json.loads((await call(cluster, "GET", "/openapi/v3/apis/apps/v1")).body)
    schemas = apps["components"]["schemas"]
    replicas = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]
    assert replicas["type"] == "integer"
    assert "Number of desired pods" in replicas["description"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    patch = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    parameters = [each["name"] for each in patch["patch"]["parameters"]]
    assert "fieldValidation" in parameters
    unresolved = {
        reference
        for reference in _references(apps)
        if reference.rpartition("/")[2] not in schemas
    }
    assert unresolved == set()
    v2 = await call(cluster, "GET", "/openapi/v2", accept="application/x-protobuf")
    assert v2.headers["content-type"].endswith("+protobuf")
    assert b"io.k8s.api.apps.v1.Deployment" in v2.body


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in _references(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _references(inner)]
    return []


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("document", "path", "methods"),
    [
        ("apis/apps/v1", "/apis/apps/v1/deployments", {"get"}),
        (
            "apis/apps/v1",
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            {"get", "post"},
        ),
        ("api/v1", "/api/v1/nodes/{name}", {"get", "put", "patch"}),
        ("api/v1", "/api/v1/namespaces/{namespace}/bindings", {"post"}),
        (
            "apis/authentication.k8s.io/v1",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"post"},
        ),
    ],
)
async def test_paths_say_which_kind_is_there(
    cluster: Cluster, document: str, path: str, methods: set[str]
) -> None:
    """The command kubectl explain needs them, also for kinds that are never stored."""
    found = json.loads((await call(cluster, "GET", f"/openapi/v3/{document}")).body)
    kinds = {
        each["x-kubernetes-group-version-kind"]["version"]
        for each in found["paths"][path].values()
    }
    assert (set(found["paths"][path]), kinds) == (methods, {"v1"})
