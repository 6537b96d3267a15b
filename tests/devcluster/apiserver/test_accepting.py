"""The header Accept: the encoding and the form of an answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import protobuf
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.version import KUBERNETES_VERSION
from tests.clusters import Cluster
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

JSON_TYPE, YAML_TYPE = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAPS = "/api/v1/namespaces/default/configmaps"
DECODERS: dict[str, Callable[[bytes], Any]] = {
    JSON_TYPE: json.loads,
    YAML_TYPE: yaml.safe_load,
    PROTOBUF: lambda body: protobuf.decode(body, built_in()),
}


def config_map(name: str = "a") -> JSON:
    return {"metadata": {"name": name}}


@rows("accept", "media_type", "kind")
async def test_the_first_acceptable_clause_decides(
    cluster: Cluster, accept: str, media_type: str, kind: str
) -> None:
    """For reads and for writes."""
    await call(cluster, "POST", MAPS, config_map("b"))
    for method, path, body in (
        ("POST", MAPS, config_map()),
        ("GET", f"{MAPS}/b", b""),
        ("PUT", f"{MAPS}/b", config_map("b")),
    ):
        answer = await call(cluster, method, path, body, accept=accept)
        found = DECODERS[media_type](answer.body)["kind"]
        assert (answer.headers["content-type"], found) == (media_type, kind), method


async def test_refusals_and_discovery_come_as_yaml_too(cluster: Cluster) -> None:
    found: list[Any] = []
    for path in (f"{MAPS}/nope", "/version", "/apis/apps"):
        answer = await call(cluster, "GET", path, accept=YAML_TYPE)
        found.append(yaml.safe_load(answer.body))
    refusal, version, group = found
    assert refusal["message"] == 'configmaps "nope" not found'
    assert version["gitVersion"] == KUBERNETES_VERSION
    assert group["kind"] == "APIGroup"


@pytest.mark.parametrize(
    ("agent", "query", "indented"),
    [
        ("curl/8.5", "", True),
        ("Mozilla/5.0 (X11)", "", True),
        ("python", "", False),
        ("python", "?pretty=true", True),
        ("curl/8.5", "?pretty=0", False),
    ],
)
async def test_people_get_indented_json(
    cluster: Cluster, agent: str, query: str, *, indented: bool
) -> None:
    """The query goes before the name of the client."""
    answer = await call(cluster, "GET", f"/version{query}", user_agent=agent)
    assert (b'\n  "major": ' in answer.body) is indented
    assert json.loads(answer.body)["gitVersion"] == KUBERNETES_VERSION


async def test_a_client_that_has_the_document_gets_304(cluster: Cluster) -> None:
    aggregated = "application/json;v=v2;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io"
    for path in ("/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"):
        first = await call(cluster, "GET", path, accept=aggregated)
        etag = first.headers["etag"]
        again = await call(
            cluster, "GET", path, accept=aggregated, if_none_match=f'"x", {etag}'
        )
        other = await call(cluster, "GET", path, accept=aggregated, if_none_match='"x"')
        assert (first.status, again.status, other.status) == (200, 304, 200)
        assert (again.body, again.headers["etag"]) == (b"", etag)
        assert other.body == first.body
