"""Requests byte for byte as clients send them, the strange ones among them."""

import json

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MAGIC, MEDIA_TYPE, decode
from controller_manager.devcluster.scheme.protobuf_decoder import (
    write_bytes,
    write_text,
    write_varint,
)
from tests.clusters import Cluster
from tests.devcluster.requests import call, create_pod

PODS_PATH = "/api/v1/namespaces/default/pods"


WEB = "/apis/apps/v1/namespaces/default/deployments/web"


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
    answer = await call(cluster, "POST", SECRETS, {"metadata": metadata})
    secret: JSON = json.loads(answer.body)
    return secret


async def delete_secret(
    cluster: Cluster, body: bytes, content_type: str
) -> tuple[int, str]:
    answer = await call(
        cluster,
        "DELETE",
        f"{SECRETS}/sh.helm.release.v1.web.v1",
        body,
        content_type=content_type,
        accept=f"{MEDIA_TYPE},application/json",
    )
    return answer.status, decode(answer.body, built_in()).get("reason", "")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("", b"\xff\xfe"),
        ("", b"[" * 100_000),
        ("application/yaml", b"[" * 3_000),
    ],
)
async def test_a_body_that_is_no_text_or_nested_deeply_is_refused(
    cluster: Cluster, media_type: str, body: bytes
) -> None:
    answer = await call(cluster, "POST", PODS_PATH, body, content_type=media_type)
    assert (answer.status, json.loads(answer.body)["reason"]) == (400, "BadRequest")


@pytest.mark.looptime
async def test_only_users_with_a_token_get_answers(cluster: Cluster) -> None:
    for path, code in (("/healthz", 200), ("/version", 200), (PODS_PATH, 403)):
        answer = await cluster.server.handle(Request("GET", path))
        assert isinstance(answer, Response)
        assert answer.status == code


@pytest.mark.looptime
async def test_a_defect_is_a_500_and_the_server_continues(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a Status that says so."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(cluster.server.objects, "find", fail)
        broken = await call(cluster, "GET", WEB)
    assert (broken.status, json.loads(broken.body)["reason"]) == (500, "InternalError")
    assert (await call(cluster, "GET", WEB)).status == 404


@pytest.mark.looptime
async def test_a_subresource_that_is_not_served_says_so(cluster: Cluster) -> None:
    """It is in discovery, as on a real cluster, but there are no containers."""
    await create_pod(cluster, "a")
    answer = await cluster.client.raw("GET", PODS.path("default", "a", "log"))
    assert (answer.status, b"pods/log is not served" in answer.body) == (501, True)


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
        (b"{}", MEDIA_TYPE, (400, "BadRequest")),
        (delete_options(write_text(2, "x")), MEDIA_TYPE, (400, "BadRequest")),
        (b"{", "application/json", (400, "BadRequest")),
        (b"[]", "application/json", (400, "BadRequest")),
    ],
)
async def test_a_delete_whose_body_cannot_be_read_deletes_nothing(
    cluster: Cluster, body: bytes, content_type: str, refusal: tuple[int, str]
) -> None:
    """Its options might have protected the objects."""
    await add_secret(cluster)
    assert await delete_secret(cluster, body, content_type) == refusal
    assert await delete_secret(cluster, b"", "") == (200, "")
