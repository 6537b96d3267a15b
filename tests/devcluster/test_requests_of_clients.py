"""Requests byte for byte as clients send them, that the cluster refused once."""

import json

import pytest

from controller_manager.devcluster.defaults import apply_defaults
from controller_manager.devcluster.protobuf import (
    MAGIC,
    MEDIA_TYPE,
    write_bytes,
    write_text,
    write_varint,
)
from controller_manager.version import KUBERNETES_VERSION
from tests.clusters import Cluster
from tests.controllers.builders import JSON
from tests.devcluster.test_api_server import call

SECRETS = "/api/v1/namespaces/default/secrets"


def delete_options(message: bytes) -> bytes:
    """Return DeleteOptions as client-go's typed clients encode them."""
    meta = write_text(1, "v1") + write_text(2, "DeleteOptions")
    # Encoding and content type follow, both empty.
    return MAGIC + write_bytes(1, meta) + write_bytes(2, message) + b"\x1a\x00\x22\x00"


async def add_secret(cluster: Cluster, *, finalizer: str = "") -> JSON:
    metadata: JSON = {"name": "sh.helm.release.v1.web.v1"}
    if finalizer:
        metadata["finalizers"] = [finalizer]
    answer = await call(
        cluster, "POST", SECRETS, json.dumps({"metadata": metadata}).encode()
    )
    secret: JSON = json.loads(answer.body)
    return secret


async def delete_secret(
    cluster: Cluster, body: bytes, content_type: str
) -> tuple[int, str]:
    """Return status and reason of the answer."""
    answer = await call(
        cluster,
        "DELETE",
        f"{SECRETS}/sh.helm.release.v1.web.v1",
        body,
        content_type=content_type,
        accept=f"{MEDIA_TYPE},application/json",
    )
    return answer.status, json.loads(answer.body).get("reason", "")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (delete_options(b""), MEDIA_TYPE),
        (delete_options(write_text(4, "Background")), MEDIA_TYPE),
        (b"", MEDIA_TYPE),
        (b"", "application/x-www-form-urlencoded"),
        (b"{}", ""),
        (b'{"propagationPolicy": "Background"}', "application/json; charset=utf-8"),
        (b"propagationPolicy: Background\n", "application/yaml"),
    ],
    ids=[
        "protobuf, as helm uninstall",
        "protobuf",
        "no body",
        "no body, of a type unknown here",
        "JSON without a type",
        "JSON",
        "YAML",
    ],
)
async def test_the_body_of_a_delete_is_read_by_its_content_type(
    cluster: Cluster, body: bytes, content_type: str
) -> None:
    """Also when it is not there; all ask for the same."""
    await add_secret(cluster)
    assert await delete_secret(cluster, body, content_type) == (200, "")
    assert await delete_secret(cluster, body, content_type) == (404, "NotFound")


async def test_options_in_protobuf_are_obeyed(cluster: Cluster) -> None:
    """A precondition on another uid, a dry run, and an orphaning deletion."""
    secret = await add_secret(cluster)
    other = delete_options(write_bytes(2, write_text(1, "another uid")))
    assert await delete_secret(cluster, other, MEDIA_TYPE) == (409, "Conflict")
    dry_run = delete_options(write_text(5, "All"))
    assert await delete_secret(cluster, dry_run, MEDIA_TYPE) == (200, "")
    same = write_bytes(2, write_text(1, secret["metadata"]["uid"]))
    orphaning = delete_options(
        write_varint(1 << 3) + write_varint(0) + same + write_text(4, "Orphan")
    )
    assert await delete_secret(cluster, orphaning, MEDIA_TYPE) == (200, "")
    left = await call(cluster, "GET", f"{SECRETS}/sh.helm.release.v1.web.v1")
    assert json.loads(left.body)["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize(
    ("body", "content_type", "refusal"),
    [
        (b"{}", "text/plain", (415, "UnsupportedMediaType")),
        (b"{}", MEDIA_TYPE, (415, "UnsupportedMediaType")),
        (
            delete_options(write_text(99, "x")),
            MEDIA_TYPE,
            (415, "UnsupportedMediaType"),
        ),
        (b"{", "application/json", (400, "BadRequest")),
        (b"[]", "application/json", (400, "BadRequest")),
    ],
)
async def test_a_delete_whose_body_cannot_be_read_deletes_nothing(
    cluster: Cluster, body: bytes, content_type: str, refusal: tuple[int, str]
) -> None:
    """Whatever it may have wanted to keep is kept."""
    await add_secret(cluster)
    assert await delete_secret(cluster, body, content_type) == refusal
    assert await delete_secret(cluster, b"", "") == (200, "")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/version", 200),
        ("/version/", 200),
        ("/api/", 200),
        ("/apis/", 200),
        ("/apis/apps/", 200),
        ("/apis/apps/v1/", 200),
        ("/api/v1/nodes/", 200),
        ("/api/v1/namespaces/default/", 200),
        ("/healthz", 200),
        ("/healthz/", 404),
        ("/readyz/", 404),
        ("/openapi/v2", 200),
        ("/openapi/v2/", 404),
        ("/openapi/v3/", 404),
        ("/versions/", 404),
    ],
)
async def test_a_slash_at_the_end_is_taken_where_upstream_takes_it(
    cluster: Cluster, path: str, status: int
) -> None:
    """Go's routes take it, single handlers do not."""
    answer = await call(cluster, "GET", path)
    assert answer.status == status
    if path.startswith("/version") and status == 200:
        assert json.loads(answer.body)["gitVersion"] == KUBERNETES_VERSION


@pytest.mark.looptime
async def test_a_node_tells_of_its_machine(cluster: Cluster) -> None:
    """Generated clients refuse to show a node of which one field is missing."""
    async with cluster.nodes(count=1):
        answer = await call(cluster, "GET", "/api/v1/nodes/node-0")
    status = json.loads(answer.body)["status"]
    assert status["nodeInfo"] == {
        "machineID": "508074a4f657521db0c289b42e98f817",
        "systemUUID": "508074a4-f657-521d-b0c2-89b42e98f817",
        "bootID": "c70e3304-58b1-51bd-91d7-aa7690bea1c2",
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": KUBERNETES_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def test_a_node_that_somebody_creates_has_every_field() -> None:
    """Empty ones, as the API server writes them."""
    node: JSON = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0"}}}
    apply_defaults("Node", node)
    assert node == {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "v1.30.0",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    }
