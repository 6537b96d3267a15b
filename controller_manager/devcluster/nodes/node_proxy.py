"""The subresource ``proxy`` of nodes, which connects to their kubelets.

Upstream: ResourceLocation in pkg/registry/core/node/strategy.go, and the proxy handler
of apimachinery's util/proxy.
"""

from typing import Final

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.proxying import unreachable
from controller_manager.devcluster.scheme.statuses import bad_request
from controller_manager.devcluster.server.http.request_info import Target
from controller_manager.devcluster.server.registry.objects import Objects

from .kubelet_server import KubeletServer
from .node_status import addresses_of, is_stopped

_KUBELET_PORT: Final = "10250"


class NodeProxy:
    """Passes requests on to the kubelets of the nodes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kubelets = KubeletServer(objects.storage)

    async def answer(self, target: Target, request: Request) -> Response:
        """Return the answer of a node's kubelet; raises Refusal."""
        prefix = f"/api/v1/nodes/{target.name}/proxy"
        path = request.path.removeprefix(prefix)
        _, name, port = parts_of_name(target.name, "node")
        port = port or _KUBELET_PORT
        node = self._objects.find(NODE, "", name).obj
        if not path and request.method in ("GET", "HEAD"):
            return Response(301, {"location": f"{request.path}/"})
        if port != _KUBELET_PORT or is_stopped(node):
            address = next(iter(addresses_of(node)), name)
            raise unreachable(f"dial tcp {address}:{port}: connect: connection refused")
        return self._kubelets.answer(name, path, request)


def parts_of_name(text: str, what: str) -> tuple[str, str, str]:
    """Return scheme, name and port of ``NAME``, ``NAME:PORT`` or ``SCHEME:NAME:PORT``.

    Scheme and port may be empty. Raises Refusal, which names `what` is proxied.
    """
    match text.split(":"):
        case [name] if name:
            return "", name, ""
        case [name, port] if name:
            return "", name, port
        case ["" | "http" | "https" as scheme, name, port] if name:
            return scheme, name, port
    raise bad_request(f'invalid {what} request "{text}"')
