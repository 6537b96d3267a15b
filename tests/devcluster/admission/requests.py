"""Requests of a client, with what admission says about them."""

import json
import re
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from tests.clusters import Cluster
from tests.devcluster.requests import call

PODS = "/api/v1/namespaces/default/pods"


async def post(cluster: Cluster, path: str, obj: JSON) -> JSON:
    """Create an object; return the answer, which may be a refusal."""
    answer = await call(cluster, "POST", path, json.dumps(obj).encode())
    return decoded(answer)


async def patch(cluster: Cluster, path: str, change: JSON) -> JSON:
    """Change an object by a merge patch; return the answer."""
    body = json.dumps(change).encode()
    merge = "application/merge-patch+json"
    return decoded(await call(cluster, "PATCH", path, body, content_type=merge))


def decoded(answer: Response) -> JSON:
    found: JSON = json.loads(answer.body)
    return found


def warnings(answer: Response) -> list[str]:
    """Return the texts of the Warning headers of an answer."""
    header = next((v for k, v in answer.headers.items() if k.lower() == "warning"), "")
    texts = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', header)
    return [text.replace('\\"', '"') for text in texts]


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
