"""Bodies that no well-behaved client sends are refused, and nothing is stored."""

import gzip

import msgspec
import pytest

from controller_manager.client.rest.transport import Response
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MAGIC, MEDIA_TYPE, encode
from controller_manager.devcluster.scheme.protobuf_decoder import (
    write_bytes,
    write_number,
    write_text,
)
from tests.clusters import Cluster
from tests.devcluster.requests import call, create_pod

pytestmark = pytest.mark.looptime

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON_TYPE = "application/json"
MAP = b'{"metadata":{"name":"a"}}'
TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
ACCEPTED = (
    "the body of the request was in an unknown format - accepted media types include: "
    f"{TYPES}"
)


def enveloped(kind: str, message: bytes, version: str = "v1") -> bytes:
    meta = write_text(1, version) + write_text(2, kind)
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message)


def reason(answer: Response) -> tuple[int, str, str]:
    """Return the code, reason and message of a refusal."""
    status = msgspec.json.decode(answer.body)
    assert status["kind"] == "Status"
    assert status["code"] == answer.status
    return answer.status, status["reason"], status["message"]


NAMED = write_bytes(1, write_text(1, "a"))
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NO_MAP = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", f"{UNRECOGNIZED}empty data (<empty>)"),
        (MAGIC, f"{UNRECOGNIZED}empty body (6b387300)"),
        (
            MAP,
            (
                f"{UNRECOGNIZED}provided data does not appear to be a protobuf "
                f"message, expected prefix [107 56 115 0] ({MAP.decode()})"
            ),
        ),
        (
            MAGIC + b"\x0a" + b"\xff" * 40,
            f"{UNRECOGNIZED}proto: integer overflow (6b3873000a{'ff' * 25} ...)",
        ),
        (enveloped("ConfigMap", NAMED + b"\x0a\xff"), f"{NO_MAP}unexpected EOF"),
        (
            enveloped("ConfigMap", NAMED + write_number(2, 1)),
            f"{NO_MAP}proto: wrong wireType = 0 for field Data",
        ),
        (
            enveloped("ConfigMap", NAMED + b"\x02\x00"),
            f"{NO_MAP}proto: ConfigMap: illegal tag 0 (wire type 2)",
        ),
        (
            enveloped("Unheard", NAMED),
            (
                'Unheard in version "v1" cannot be handled as a ConfigMap: no kind '
                '"Unheard" is registered for version "v1" in scheme '
                '"pkg/api/legacyscheme/scheme.go:30"'
            ),
        ),
        (
            enveloped("Pod", b"broken"),
            (
                'Pod in version "v1" cannot be handled as a ConfigMap: converting '
                "(v1.Pod) to (core.ConfigMap): unknown conversion"
            ),
        ),
    ],
)
async def test_broken_protobuf_is_a_bad_request(
    cluster: Cluster, body: bytes, expected: str
) -> None:
    await call(cluster, "POST", CONFIG_MAPS, b'{"metadata":{"name":"b"}}')
    version = cluster.server.storage.version
    for method, path in (("POST", CONFIG_MAPS), ("PUT", f"{CONFIG_MAPS}/b")):
        answer = await call(cluster, method, path, body, content_type=MEDIA_TYPE)
        assert reason(answer) == (400, "BadRequest", expected)
    assert cluster.server.storage.version == version


async def test_an_envelope_without_a_type_holds_the_kind_of_the_request(
    cluster: Cluster,
) -> None:
    body = MAGIC + write_bytes(2, NAMED)
    answer = await call(cluster, "POST", CONFIG_MAPS, body, content_type=MEDIA_TYPE)
    created = msgspec.json.decode(answer.body)
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")
    assert created["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json; charset=utf-8", 201),
        ("Application/JSON", 201),
        ('application/json;charset="utf-8";', 201),
        ("application/json; charset", 415),
        ("application/json, application/yaml", 415),
        ("application/*", 415),
        ("*/*", 415),
        ("text/json", 415),
        ("application/merge-patch+json", 415),
        ("application/vnd.kubernetes.protobuf2", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 201),
    ],
)
async def test_the_content_type_of_a_body_is_one_that_the_server_reads(
    cluster: Cluster, content_type: str, status: int
) -> None:
    answer = await call(cluster, "POST", CONFIG_MAPS, MAP, content_type=content_type)
    assert answer.status == status
    if status == 415:
        assert reason(answer) == (415, "UnsupportedMediaType", ACCEPTED)


async def test_a_body_that_is_compressed_is_not_unpacked(cluster: Cluster) -> None:
    version = cluster.server.storage.version
    for content_type in (JSON_TYPE, MEDIA_TYPE):
        answer = await call(
            cluster,
            "POST",
            CONFIG_MAPS,
            gzip.compress(MAP),
            content_type=content_type,
            content_encoding="gzip",
        )
        assert reason(answer)[:2] == (400, "BadRequest")
    assert cluster.server.storage.version == version


async def test_a_subresource_takes_protobuf_of_its_own_kind_only(
    cluster: Cluster,
) -> None:
    await create_pod(cluster, "a")
    path = "/api/v1/namespaces/default/pods/a/eviction"
    wrong = enveloped("Binding", b"")
    answer = await call(cluster, "POST", path, wrong, content_type=MEDIA_TYPE)
    assert reason(answer) == (
        400,
        "BadRequest",
        (
            'Binding in version "v1" cannot be handled as a Eviction: converting '
            "(v1.Binding) to (policy.Eviction): unknown conversion"
        ),
    )
    for content_type in ("text/plain", "application/json;;=;"):
        answer = await call(cluster, "POST", path, b"{}", content_type=content_type)
        assert answer.status == 415
    right = enveloped("Eviction", NAMED, "policy/v1")
    content_type = f"{MEDIA_TYPE}; charset=utf-8"
    answer = await call(cluster, "POST", path, right, content_type=content_type)
    assert answer.status == 201


async def test_a_custom_resource_in_protobuf_is_refused(cluster: Cluster) -> None:
    """It has no messages; its metadata has."""
    names = {"plural": "trees", "kind": "Tree"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Cluster", "names": names}
    definition = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "trees.example.com"},
        "spec": {**spec, "versions": [version]},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    body = encode(definition, built_in()) or b""
    created = await call(cluster, "POST", definitions, body, content_type=MEDIA_TYPE)
    assert created.status == 201
    trees = "/apis/example.com/v1/trees"
    body = enveloped("Tree", NAMED, "example.com/v1")
    answer = await call(cluster, "POST", trees, body, content_type=MEDIA_TYPE)
    message = (
        'Tree in version "v1" cannot be handled as a Tree: '
        "Object 'Kind' is missing in 'unstructured object has no kind'"
    )
    assert reason(answer) == (400, "BadRequest", message)
    partial = f"{MEDIA_TYPE};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    for accept, expected in (
        (MEDIA_TYPE, 406),
        (f"{MEDIA_TYPE},{JSON_TYPE}", JSON_TYPE),
        (partial, MEDIA_TYPE),
    ):
        answer = await call(cluster, "GET", trees, accept=accept)
        if expected == 406:
            assert answer.status == 406
        else:
            assert answer.headers["content-type"] == expected
