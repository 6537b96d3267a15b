"""The documents that kubectl reads."""

import json
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("document", "path", "methods"),
    [
        ("apis/apps/v1", "/apis/apps/v1/deployments", {"get"}),
        (
            "apis/apps/v1",
            "/apis/apps/v1/namespaces/{namespace}/deployments",
            {"delete", "get", "post"},
        ),
        ("api/v1", "/api/v1/nodes/{name}", {"delete", "get", "put", "patch"}),
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
        for name, each in found["paths"][path].items()
        if name != "parameters"
    }
    assert set(found["paths"][path]) - {"parameters"} == methods
    assert kinds == {"v1"}


def _operations(document: Any) -> dict[str, tuple[str, str]]:
    """Return the action and the kind of each operation, by its name."""
    return {
        operation["operationId"]: (
            operation["x-kubernetes-action"],
            operation["x-kubernetes-group-version-kind"]["kind"],
        )
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters" and "x-kubernetes-action" in operation
    }


@pytest.mark.looptime
async def test_operations_have_the_names_of_upstream(cluster: Cluster) -> None:
    """Generated clients have methods of these names."""
    found: dict[str, tuple[str, str]] = {}
    for name in ("api/v1", "apis/apps/v1", "apis/rbac.authorization.k8s.io/v1"):
        answer = await call(cluster, "GET", f"/openapi/v3/{name}")
        found |= _operations(json.loads(answer.body))
    expected = {
        "connectCoreV1GetNamespacedPodExec": ("connect", "PodExecOptions"),
        "createCoreV1NamespacedPodBinding": ("post", "Binding"),
        "createCoreV1NamespacedPodEviction": ("post", "Eviction"),
        "deleteAppsV1CollectionNamespacedDeployment": (
            "deletecollection",
            "Deployment",
        ),
        "deleteAppsV1NamespacedDeployment": ("delete", "Deployment"),
        "listAppsV1DeploymentForAllNamespaces": ("list", "Deployment"),
        "listAppsV1NamespacedDeployment": ("list", "Deployment"),
        "patchAppsV1NamespacedDeploymentScale": ("patch", "Scale"),
        "readAppsV1NamespacedDeployment": ("get", "Deployment"),
        "readCoreV1NamespacedPodLog": ("get", "Pod"),
        "readRbacAuthorizationV1ClusterRole": ("get", "ClusterRole"),
        "replaceAppsV1NamespacedDeploymentStatus": ("put", "Deployment"),
        "watchAppsV1DeploymentListForAllNamespaces": ("watchlist", "Deployment"),
        "watchAppsV1NamespacedDeployment": ("watch", "Deployment"),
        "watchAppsV1NamespacedDeploymentList": ("watchlist", "Deployment"),
        "watchCoreV1NodeList": ("watchlist", "Node"),
    }
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.looptime
async def test_both_versions_describe_the_same_operations(cluster: Cluster) -> None:
    v2 = json.loads((await call(cluster, "GET", "/openapi/v2")).body)
    v3 = json.loads((await call(cluster, "GET", "/openapi/v3/apis/apps/v1")).body)
    own = [each for each in v2["paths"] if each.startswith("/apis/apps/v1/")]
    assert own == list(v3["paths"])
    shared = v2["parameters"]
    for path, item in v3["paths"].items():
        for method, operation in item.items():
            other = v2["paths"][path][method]
            if method == "parameters":
                assert _names(operation, {}) == _names(other, shared)
                continue
            named = ("operationId", "description", "tags", "x-kubernetes-action")
            assert [operation.get(each) for each in named] == [
                other.get(each) for each in named
            ]
            body = ["body"] if "requestBody" in operation else []
            given = [*_names(operation.get("parameters", ()), {}), *body]
            assert given == _names(other.get("parameters", ()), shared)
            assert operation["responses"].keys() == other["responses"].keys()


def _names(parameters: Any, shared: dict[str, Any]) -> list[str]:
    return [
        shared[each["$ref"].rpartition("/")[2]]["name"]
        if "$ref" in each
        else each["name"]
        for each in parameters
    ]
