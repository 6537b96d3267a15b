"""The options of lists and watches: refusals and answers."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/default/configmaps"
MATCH = "resourceVersionMatch"


async def create(cluster: Cluster, *names: str) -> int:
    """Create config maps; return the version of the last one."""
    for name in names:
        body = {"metadata": {"name": name}}
        answer = await call(cluster, "POST", MAPS, body)
        assert answer.status == 201
    return cluster.server.storage.version


async def listed(cluster: Cluster, query: str) -> JSON:
    answer = await call(cluster, "GET", f"{MAPS}?{query}")
    assert answer.status == 200, answer.body
    body: JSON = json.loads(answer.body)
    return body


def names(body: JSON) -> list[str]:
    return [each["metadata"]["name"] for each in body["items"]]


async def test_a_patch_has_its_limits(cluster: Cluster) -> None:
    await create(cluster, "a")
    operations = [{"op": "test", "path": "/metadata/name", "value": "a"}] * 10_001
    body, media_type = json.dumps(operations).encode(), "application/json-patch+json"
    answer = await call(cluster, "PATCH", f"{MAPS}/a", body, content_type=media_type)
    assert (answer.status, json.loads(answer.body)["message"]) == (
        413,
        (
            "Request entity too large: The allowed maximum operations in a JSON patch "
            "is 10000, got 10001"
        ),
    )


async def test_a_resource_on_its_own_has_its_own_versions(cluster: Cluster) -> None:
    cluster.server.storage.collection("configmaps").separate(1000)
    before = await create(cluster, "a", "b")
    body = await listed(cluster, "limit=1")
    version = int(body["metadata"]["resourceVersion"])
    assert version > before + 900
    assert names(body) == ["a"]
    rest = await listed(cluster, f"continue={body['metadata']['continue']}")
    assert (names(rest), rest["metadata"]["resourceVersion"]) == (["b"], str(version))
    at_least = f"resourceVersion={version}&{MATCH}=NotOlderThan"
    assert names(await listed(cluster, at_least)) == ["a", "b"]
    past = f"resourceVersion={version - 1}&{MATCH}=Exact"
    assert names(await listed(cluster, past)) == ["a"]
