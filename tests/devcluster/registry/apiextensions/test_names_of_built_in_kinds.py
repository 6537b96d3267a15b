"""A custom resource may have the kind and the plural name of a built-in one."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.registry.apiextensions.test_definitions import (
    define,
    spec,
    version,
)
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

TEXT: JSON = {"type": "string", "description": "The name of the whale."}
SCHEMA: JSON = {"type": "object", "properties": {"whale": TEXT}}
CORE = "io.k8s.api.core.v1.Pod"


async def document(cluster: Cluster, name: str) -> Any:
    return msgspec.json.decode((await call(cluster, "GET", f"/openapi/{name}")).body)


def explained(found: JSON, path: str) -> JSON:
    """Return the definition for a path, as ``kubectl explain`` finds it.

    It reads the kind from an operation of the path, and looks for a definition with
    that kind.
    """
    wanted = found["paths"][path]["get"]["x-kubernetes-group-version-kind"]
    schemas = found.get("definitions") or found["components"]["schemas"]
    (name,) = (
        name
        for name, each in schemas.items()
        if wanted in each.get("x-kubernetes-group-version-kind", ())
    )
    return {"name": name, **schemas[name]}


@pytest.mark.parametrize(
    ("custom", "core"), [("v3/apis/example.com/v1", "v3/api/v1"), ("v2", "v2")]
)
async def test_each_is_explained_by_its_own_type(
    cluster: Cluster, custom: str, core: str
) -> None:
    before = await document(cluster, core)
    given = spec(version(schema={"openAPIV3Schema": SCHEMA}), plural="pods")
    assert (await define(cluster, given))[0] == 201
    found = await document(cluster, custom)
    path = "/apis/example.com/v1/namespaces/{namespace}/pods/{name}"
    own = explained(found, path)
    assert own["name"] == "com.example.v1.Pod"
    assert own["properties"]["whale"] == TEXT
    item = {"get", "put", "patch", "delete"}
    assert found["paths"][path].keys() - {"parameters"} == item
    after = await document(cluster, core)
    core_path = "/api/v1/namespaces/{namespace}/pods/{name}"
    assert explained(after, core_path) == explained(before, core_path)
    assert explained(after, core_path)["name"] == CORE


async def test_its_list_and_its_items_are_of_the_custom_type(cluster: Cluster) -> None:
    given = spec(version(schema={"openAPIV3Schema": SCHEMA}), plural="pods")
    await define(cluster, given)
    found = await document(cluster, "v3/apis/example.com/v1")
    schemas = found["components"]["schemas"]
    assert schemas["com.example.v1.PodList"]["properties"]["items"] == {
        "type": "array",
        "description": "List of pods. More info: https://git.k8s.io/community/"
        "contributors/devel/sig-architecture/api-conventions.md",
        "items": {"$ref": "#/components/schemas/com.example.v1.Pod"},
    }
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    body = (await call(cluster, "GET", "/openapi/v2", accept=accept)).body
    assert [each.encode() in body for each in ("com.example.v1.Pod", CORE)] == [
        True,
        True,
    ]


async def test_its_status_is_an_object_and_its_scale_a_scale(cluster: Cluster) -> None:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    subresources = {"status": {}, "scale": scale}
    await define(cluster, spec(version(subresources=subresources), plural="pods"))
    found = await document(cluster, "v3/apis/example.com/v1")
    path = "/apis/example.com/v1/namespaces/{namespace}/pods/{name}"
    answers = {
        name: found["paths"][f"{path}/{name}"]["get"]["responses"]["200"]["content"][
            "application/json"
        ]["schema"]["$ref"].rpartition("/")[2]
        for name in ("status", "scale")
    }
    assert answers == {
        "status": "com.example.v1.Pod",
        "scale": "io.k8s.api.autoscaling.v1.Scale",
    }


async def test_a_removed_custom_resource_has_no_document(cluster: Cluster) -> None:
    await define(cluster, spec(plural="pods"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pods.example.com"
    assert "com.example.v1.Pod" in (await document(cluster, "v2"))["definitions"]
    assert (await call(cluster, "GET", "/openapi/v3/apis/example.com/v1")).status == 200
    assert (await call(cluster, "DELETE", path)).status == 200
    assert (await call(cluster, "GET", "/openapi/v3/apis/example.com/v1")).status == 404
    assert "com.example.v1.Pod" not in (await document(cluster, "v2"))["definitions"]
