"""Raw requests to a cluster in memory."""

from typing import Any

import msgspec

from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.controllers.builders import template

MERGE = "application/merge-patch+json"


async def call(
    cluster: Cluster, method: str, path: str, body: Any = b"", **headers: str
) -> Response:
    """Send one request as the administrator; return the answer.

    A body that is not of bytes is sent as JSON.
    """
    path, _, query = path.partition("?")
    pairs = tuple(
        (name, value)
        for name, _, value in (each.partition("=") for each in query.split("&"))
        if name
    )
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    request = Request(
        method,
        path,
        query=pairs,
        headers={"authorization": f"Bearer {TOKEN}", **names},
        body=(body if isinstance(body, bytes) else msgspec.json.encode(body)) or None,
    )
    answer = await cluster.server.handle(request)
    assert isinstance(answer, Response)
    return answer


async def send(
    cluster: Cluster, method: str, path: str, body: Any = b"", **headers: str
) -> JSON:
    """Send a request that must succeed; return the object. A patch is a merge patch."""
    if method == "PATCH":
        headers.setdefault("content_type", MERGE)
    answer = await call(cluster, method, path, body, **headers)
    assert answer.status < 300, answer.body
    found: JSON = msgspec.json.decode(answer.body)
    return found


async def create_pod(cluster: Cluster, name: str, image: str = "app:v1") -> None:
    pod = {"metadata": {"name": name}, "spec": template(image)["spec"]}
    await cluster.client.create_json(PODS, "default", msgspec.json.encode(pod))
