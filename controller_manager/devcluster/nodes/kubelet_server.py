"""The HTTP endpoints of the kubelets: pods and health.

Upstream: pkg/kubelet/server. The API server reaches them through the proxy of a node.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.server.http.responses import (
    TEXT_HEADERS,
    json_response,
    no_such_path,
)
from controller_manager.devcluster.server.storage.storage import Storage

_HEALTHY: Final = Response(200, TEXT_HEADERS, b"ok")
_ONLY_GET: Final = Response(405, TEXT_HEADERS, b"405: Method Not Allowed")


class KubeletServer:
    """Answers requests to the port 10250 of any node."""

    def __init__(self, storage: Storage) -> None:
        self._pods = storage.collection(POD.resource)

    def answer(self, node: str, path: str, request: Request) -> Response:
        """Return the answer of a node's kubelet for a path."""
        match path.rstrip("/"):
            case "/healthz":
                return _HEALTHY
            case "/pods" if request.method == "GET":
                return json_response(200, self._pod_list(node))
            case "/pods":
                return _ONLY_GET
        return no_such_path()

    def _pod_list(self, node: str) -> JSON:
        """Return the pods that the kubelet of a node has."""
        items = [
            {k: v for k, v in each.obj.items() if k not in ("kind", "apiVersion")}
            for each in self._pods
            if each.obj["spec"].get("nodeName") == node
        ]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
