"""Requests of a client, with what admission says about them."""

import json
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from tests.clusters import Cluster
from tests.devcluster.requests import call

PODS = "/api/v1/namespaces/default/pods"


async def post(cluster: Cluster, path: str, obj: JSON) -> JSON:
    """Create an object; return the answer, which may be a refusal."""
    answer = await call(cluster, "POST", path, obj)
    return decoded(answer)


def decoded(answer: Response) -> JSON:
    found: JSON = json.loads(answer.body)
    return found


def pod(name: str = "p", **spec: Any) -> JSON:
    """Return a pod with one container; `spec` changes its spec."""
    container = {"name": "c", "image": "app:v1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def container(name: str = "c", **fields: Any) -> JSON:
    return {"name": name, "image": "app:v1", **fields}
