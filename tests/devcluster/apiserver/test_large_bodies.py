"""A large body in protobuf does not keep other requests waiting."""

import asyncio
import json

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE, encode
from tests.clusters import Cluster
from tests.devcluster.requests import call

MAPS = "/api/v1/namespaces/default/configmaps"


def in_protobuf(name: str, kind: str = "ConfigMap") -> bytes:
    parts = {f"key-{number}": "dmFsdWU=" for number in range(8000)}
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": parts}
    body = encode(obj, built_in())
    assert body is not None
    return body


async def test_other_requests_are_answered_meanwhile(cluster: Cluster) -> None:
    """The loop is free while a thread reads the body."""
    body = in_protobuf("large")
    request = call(cluster, "POST", MAPS, body, content_type=MEDIA_TYPE)
    created = asyncio.create_task(request)
    await asyncio.sleep(0)
    assert (await call(cluster, "GET", "/api/v1/namespaces/default")).status == 200
    assert not created.done()
    answer = await created
    found: JSON = json.loads(answer.body)
    assert (answer.status, len(found["data"])) == (201, 8000)


async def test_a_large_body_is_refused_as_a_small_one(cluster: Cluster) -> None:
    wrong = await call(
        cluster, "POST", MAPS, in_protobuf("a", "Secret"), content_type=MEDIA_TYPE
    )
    assert json.loads(wrong.body)["message"].startswith(
        'Secret in version "v1" cannot be handled as a ConfigMap'
    )
    cut = in_protobuf("a")[:-1]
    broken = await call(cluster, "POST", MAPS, cut, content_type=MEDIA_TYPE)
    message = json.loads(broken.body)["message"]
    start = "the object provided is unrecognized (must be of type ConfigMap): "
    assert (broken.status, message.startswith(start)) == (400, True)
