"""The nodes' answers to requests about the containers of one pod.

Upstream: LogLocation and its like in pkg/registry/core/pod/strategy.go, and
validateContainerLogStatus in pkg/kubelet/kubelet_pods.go.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.kinds.core.service.strategy import KIND as SERVICE
from controller_manager.devcluster.scheme.statuses import Refusal, bad_request
from controller_manager.devcluster.server.genericapiserver import GenericAPIServer
from controller_manager.devcluster.server.http.request_info import Target
from controller_manager.devcluster.server.registry.objects import Objects

from .guide import PATH as GUIDE
from .node_proxy import name_and_port
from .node_status import addresses_of, is_stopped

_KUBELET_PORT: Final = 10250
_NOTHING_RUNS: Final = "the development cluster runs no containers"
_RUN_IT_HERE: Final = "run the program on this machine, and connect to it there"
_WORDS: Final = {
    (POD.resource, "exec"): (
        "nothing can be executed in pod {name}, and no file copied; annotations say "
        "what its containers do: {guide}"
    ),
    (POD.resource, "attach"): (
        "there is nothing to attach to in pod {name}; kubectl logs -f shows what the "
        "annotation devcluster/logs says"
    ),
    (POD.resource, "portforward"): (
        f"no port of pod {{name}} can be forwarded; {_RUN_IT_HERE}"
    ),
    (POD.resource, "proxy"): f"nothing listens in pod {{name}}; {_RUN_IT_HERE}",
    (SERVICE.resource, "proxy"): (
        f"nothing listens behind service {{name}}; {_RUN_IT_HERE}"
    ),
}
"""The messages for requests that the simulated nodes cannot fulfil."""

CONNECTIONS: Final = tuple(_WORDS)
"""The resources and subresources that this cluster refuses, unlike a real one."""


class PodConnections:
    """Refuses connections to containers, and names the alternative."""

    def __init__(self, server: GenericAPIServer) -> None:
        self._server = server
        self._objects = server.objects

    async def refuse(self, target: Target, request: Request) -> Response:
        """Raise Refusal: the request is wrong, or no container runs."""
        name = target.name
        if target.subresource == "proxy":
            name, _ = name_and_port(name, target.kind.singular_name)
        obj = self._objects.find(target.kind, target.namespace, name).obj
        if target.subresource in ("attach", "exec"):
            chosen_container(obj, dict(request.query).get("container", ""))
        if target.subresource != "proxy":
            check_node(self._objects, obj, "pod {name} does not have a host assigned")
        guide = f"https://{self._server.address}{GUIDE}, kubectl get --raw {GUIDE}"
        words = _WORDS[target.kind.resource, target.subresource]
        words = words.format(name=f'"{name}"', guide=guide)
        raise Refusal(501, "NotImplemented", f"{_NOTHING_RUNS}: {words}")


def chosen_container(pod: JSON, name: str) -> JSON:
    """Return the container that a request names, or the only one; raises Refusal."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    init, main = spec.get("initContainers") or [], spec["containers"]
    if name:
        ephemeral = spec.get("ephemeralContainers") or []
        for each in (*main, *init, *ephemeral):
            if each["name"] == name:
                return dict(each)
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if len(main) == 1:
        return dict(main[0])
    message = (
        f"a container name must be specified for pod {pod_name}, choose one of: "
        f"[{_listed(main)}]"
    )
    if init:
        message += f" or one of the init containers: [{_listed(init)}]"
    raise bad_request(message)


def check_node(objects: Objects, pod: JSON, without: str) -> None:
    """Raise Refusal unless the pod is on a node that answers.

    `without` is the message about a pod without a node.
    """
    node = pod["spec"].get("nodeName")
    if not node:
        raise bad_request(without.format(name=pod["metadata"]["name"]))
    if not objects.has(NODE, "", node):
        return
    found = objects.find(NODE, "", node).obj
    if is_stopped(found):
        address = next(iter(addresses_of(found)), node)
        message = f"dial tcp {address}:{_KUBELET_PORT}: connect: connection refused"
        raise Refusal(500, "InternalError", f"error dialing backend: {message}")


def _listed(containers: list[JSON]) -> str:
    return " ".join(each["name"] for each in containers)
