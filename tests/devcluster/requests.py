"""Raw requests to a cluster in memory."""

import msgspec

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import TOKEN, Cluster
from tests.controllers.builders import template


async def call(
    cluster: Cluster, method: str, path: str, body: bytes = b"", **headers: str
) -> Response:
    """Send one request as the administrator; return the answer."""
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
        body=body or None,
    )
    answer = await cluster.server.handle(request)
    assert isinstance(answer, Response)
    return answer


async def create_pod(cluster: Cluster, name: str, image: str = "app:v1") -> None:
    pod = {"metadata": {"name": name}, "spec": template(image)["spec"]}
    await cluster.client.create_json(PODS, "default", msgspec.json.encode(pod))
