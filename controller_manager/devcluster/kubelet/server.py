"""The servers of kubelets: exec, port-forward, proxies, pods, health, and the guide.

No container runs. Programs on this machine stand for their ports, and annotations for
the commands in them; without an annotation, the refusal says what to do.

Upstream: pkg/kubelet/server; LogLocation and its like in
pkg/registry/core/pod/strategy.go; ResourceLocation in
pkg/registry/core/node/strategy.go.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from typing import Annotated, Final

import msgspec
import yaml
from msgspec import Meta, Struct, field
from yarl import URL

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster import proxying, streaming
from controller_manager.devcluster.apiserver.genericapiserver import GenericAPIServer
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.request_info import Document, Target
from controller_manager.devcluster.apiserver.responses import (
    TEXT_HEADERS,
    Upgrade,
    json_response,
    negotiated,
    no_such_path,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.proxying import (
    HOW,
    Address,
    proxied,
    unreachable,
    unverified,
)
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.registry.core.services import KIND as SERVICE
from controller_manager.devcluster.scheme.statuses import Refusal, bad_request
from controller_manager.devcluster.streaming import Result

from .commands import FOREVER, Run
from .node_status import addresses_of, is_stopped
from .programs import EXEC, AnnotationError, find

# The path ``/devcluster/guide``: what the nodes do, and the annotations of pods.

_GUIDE: Final = "/devcluster/guide"
_GUIDE_TYPE: Final = "text/markdown; charset=utf-8"

_SECTION: Final = "\n## Simulated nodes\n"
_NEXT: Final = "\n## "


def _guide() -> bytes:
    file = resources.files(__package__ or "") / "guide.md"
    _, heading, rest = file.read_text(encoding="utf-8").partition(_SECTION)
    return f"{(heading + rest.partition(_NEXT)[0]).strip()}\n".encode()


# The outcome of ``kubectl exec``: canned by an annotation, or of a simple command.

_ANY: Final = "*"
_UNKNOWN_OUTPUT: Final = re.compile(r"\b(?:cat|date|hostname|ls|printf)\b")
"""Commands that would print what no container here has."""
_EXPECTED: Final = (
    "a YAML list of answers with command, and stdout, stderr or exitCode, such as "
    '"[{command: date, stdout: today}]"'
)


Execute = Callable[[JSON, str, Sequence[str]], Run | None]
"""Runs a command in a container of a pod; `None` for an unknown command."""


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a command: its words with blanks between, or "*" for any."""

    command: str | list[str]
    stdout: str = ""
    stderr: str = ""
    code: Annotated[int, Meta(ge=0, le=255)] = field(name="exitCode", default=0)

    def fits(self, words: Sequence[str]) -> bool:
        """Tell whether the answer is for a command."""
        if isinstance(self.command, str):
            return self.command in (_ANY, " ".join(words))
        return self.command == [*words]


def _canned(pod: JSON, container: str, command: Sequence[str]) -> Result | None:
    """Return the answer to a command in a container, `None` if there is none.

    Raises AnnotationError.
    """
    found = find(pod, EXEC, container)
    if found is None:
        return None
    key, text = found
    try:
        answers = msgspec.convert(yaml.safe_load(text), list[_Answer])
    except msgspec.ValidationError as error:
        raise AnnotationError.of(key, text, f"{_EXPECTED} ({error})") from None
    except (yaml.YAMLError, RecursionError):
        raise AnnotationError.of(key, text, _EXPECTED) from None
    answer = next((each for each in answers if each.fits(command)), None)
    if answer is None:
        return None
    stdout = ((0.0, answer.stdout.encode()),) if answer.stdout else ()
    return Result(command, stdout, answer.stderr.encode(), answer.code)


def _executed(
    execute: Execute, pod: JSON, container: str, command: Sequence[str]
) -> Result | None:
    """Run a simple command in a container; `None` if it cannot be run here."""
    if not command or _UNKNOWN_OUTPUT.search(" ".join(command)):
        return None
    run = execute(pod, container, command)
    if run is None or run.seconds == FOREVER:
        return None
    lines = tuple((after, f"{line}\n".encode()) for after, line in run.lines)
    return Result(command, lines, code=run.code, seconds=run.seconds)


# The subresource ``proxy`` of nodes, and the endpoints of the kubelets behind it.

_HEALTHY: Final = Response(200, TEXT_HEADERS, b"ok")
_ONLY_GET: Final = Response(405, TEXT_HEADERS, b"405: Method Not Allowed")
_KUBELET_PORT: Final = "10250"


class _NodeProxy:
    """Answers requests to the kubelets of the nodes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods = objects.storage.collection(POD.resource)

    async def answer(self, target: Target, request: Request) -> Response:
        """Return the answer of a node's kubelet; raises Refusal."""
        prefix = f"/api/v1/nodes/{target.name}/proxy"
        path = request.path.removeprefix(prefix)
        _, name, port = _parts_of_name(target.name, "node")
        port = port or _KUBELET_PORT
        node = self._objects.find(NODE, "", name).obj
        if not path and request.method in ("GET", "HEAD"):
            return Response(301, {"location": f"{request.path}/"})
        if port != _KUBELET_PORT or is_stopped(node):
            address = next(iter(addresses_of(node)), name)
            raise unreachable(f"dial tcp {address}:{port}: connect: connection refused")
        return self._of_kubelet(name, path.rstrip("/"), request.method)

    def _of_kubelet(self, node: str, path: str, method: str) -> Response:
        if path == "/healthz":
            return _HEALTHY
        if path != "/pods":
            return no_such_path()
        if method != "GET":
            return _ONLY_GET
        items = [
            {k: v for k, v in each.obj.items() if k not in ("kind", "apiVersion")}
            for each in self._pods
            if each.obj["spec"].get("nodeName") == node
        ]
        pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return json_response(200, pods)


def _parts_of_name(text: str, what: str) -> tuple[str, str, str]:
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


# Connections to the containers of pods: exec, attach, port-forward and the proxies.

_NOTHING_RUNS: Final = "the development cluster runs no containers"
CONNECTIONS: Final = (
    (POD.resource, "exec"),
    (POD.resource, "attach"),
    (POD.resource, "portforward"),
    (POD.resource, "proxy"),
    (SERVICE.resource, "proxy"),
)
"""The resources and subresources that connect to containers."""

Answer = Response | StreamingResponse


class _PodConnections:
    """Connects to programs on this machine, or names the alternative."""

    def __init__(self, server: GenericAPIServer, execute: Execute | None) -> None:
        """Take the function that runs simple commands, `None` without kubelets."""
        self._server = server
        self._execute = execute
        self._objects = server.objects
        self._storage = server.objects.storage

    async def answer(self, target: Target, request: Request) -> Answer:
        """Answer a request to connect; raises Refusal."""
        if target.subresource == "proxy":
            return await self._proxied(target, request)
        pod = self._objects.find(target.kind, target.namespace, target.name).obj
        if target.subresource == "portforward":
            self._check_node(pod)
            return self._forwarding(pod, request)
        name = dict(request.query).get("container", "")
        container = chosen_container(pod, name)
        self._check_node(pod)
        if target.subresource == "exec":
            return self._executing(pod, container["name"], request)
        raise _nothing_runs(
            f'there is nothing to attach to in pod "{target.name}"; kubectl logs -f '
            "shows what the annotation devcluster/logs says"
        )

    def _check_node(self, pod: JSON) -> None:
        check_node(self._objects, pod, "pod {name} does not have a host assigned")

    # Commands

    def _executing(self, pod: JSON, container: str, request: Request) -> Upgrade:
        """Return the outcome of a command; raises Refusal if it cannot be known."""
        command = [value for name, value in request.query if name == "command"]
        try:
            result = _canned(pod, container, command)
        except AnnotationError as error:
            raise bad_request(str(error)) from None
        if result is None and self._execute is not None:
            result = _executed(self._execute, pod, container, command)
        if result is None:
            url = f"https://{self._server.address}{_GUIDE}"
            raise _nothing_runs(
                f'nothing can be executed in pod "{pod["metadata"]["name"]}", and no '
                f"file copied, unless the annotation {EXEC} has an answer to "
                f'"{" ".join(command)}"; annotations say what its containers do: '
                f"{url}, kubectl get --raw {_GUIDE}"
            )
        streams, channels = streaming.EXEC_STREAMS, streaming.EXEC_CHANNELS
        protocol, subprotocol = negotiated(request, streams, channels)
        flags = dict(request.query)
        wanted = frozenset(
            name
            for name in ("stdin", "stdout", "stderr")
            if flags.get(name) in ("1", "true", "True")
        )
        serve = streaming.executing(protocol, subprotocol, result, wanted)
        return Upgrade(protocol, subprotocol, serve)

    # Ports

    def _forwarding(self, pod: JSON, request: Request) -> Upgrade:
        """Return the forwarding of ports; raises Refusal if no port has a program."""
        name = pod["metadata"]["name"]
        if not proxying.has_forward(self._storage, pod):
            raise _nothing_runs(f'no port of pod "{name}" can be forwarded; {HOW}')
        over_spdy = (streaming.FORWARD_STREAMS,)
        over_websockets = (streaming.TUNNEL, streaming.FORWARD_CHANNELS)
        protocol, subprotocol = negotiated(request, over_spdy, over_websockets)
        serve = streaming.forwarding(
            subprotocol, partial(self._address, pod), _ports_of(request)
        )
        return Upgrade(protocol, subprotocol, serve)

    def _address(self, pod: JSON, port: int) -> Address:
        """Return the address of the program behind a port; raises PortError."""
        try:
            found = proxying.pod_forward(self._storage, pod, port)
        except proxying.ForwardError as error:
            raise streaming.PortError(str(error)) from None
        if found is None:
            raise streaming.PortError(f"nothing listens on port {port}; {HOW}")
        return found

    async def _proxied(self, target: Target, request: Request) -> Answer:
        """Pass a request on to the program behind a port; raises Refusal."""
        what = target.kind.singular_name
        scheme, name, port = _parts_of_name(target.name, what)
        obj = self._objects.find(target.kind, target.namespace, name).obj
        try:
            address = self._proxy_address(target, obj, port)
        except proxying.ForwardError as error:
            raise bad_request(str(error)) from None
        if address is None:
            is_service = target.kind.resource == SERVICE.resource
            where = "behind service" if is_service else "in pod"
            raise _nothing_runs(f'nothing listens {where} "{name}"; {HOW}')
        prefix = (
            f"/api/v1/namespaces/{target.namespace}/{target.kind.plural}/"
            f"{target.name}/proxy"
        )
        path = request.path.removeprefix(prefix)
        if not path and request.method in ("GET", "HEAD"):
            return Response(301, {"location": f"{request.path}/"})
        host, number = address
        url = URL.build(
            scheme=scheme or "http",
            host=host,
            port=number,
            path=path or "/",
            query=request.query,
        )
        return await proxied(request, url, unverified(), prefix=prefix)

    def _proxy_address(self, target: Target, obj: JSON, port: str) -> Address | None:
        if target.kind.resource == SERVICE.resource:
            return proxying.service_forward(self._storage, obj, port)
        number = int(port) if port.isdigit() else _first_port(obj)
        return proxying.pod_forward(self._storage, obj, number)


def _nothing_runs(words: str) -> Refusal:
    return Refusal(501, "NotImplemented", f"{_NOTHING_RUNS}: {words}")


def _ports_of(request: Request) -> list[int]:
    """Return the ports in a query, which channels need; raises Refusal."""
    texts = [
        part
        for name, value in request.query
        if name == "ports"
        for part in value.split(",")
    ]
    if not all(each.isdigit() and 0 < int(each) < 65536 for each in texts):
        raise bad_request(f"unable to parse ports {', '.join(texts)}")
    return [int(each) for each in texts]


def _first_port(pod: JSON) -> int:
    """Return the first port of a pod, 80 if it has none."""
    for container in pod["spec"]["containers"]:
        for each in container.get("ports") or ():
            return int(each["containerPort"])
    return 80


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


def connect(server: GenericAPIServer, execute: Execute | None) -> None:
    """Let an API server serve the guide, and connect to pods and kubelets.

    `execute` is `None` without kubelets.
    """
    server.serve(_GUIDE, Document(_GUIDE_TYPE, _guide))
    connections = _PodConnections(server, execute)
    for resource, name in CONNECTIONS:
        server.connect(resource, name, connections.answer)
    if execute is not None:
        server.connect(NODE.resource, "proxy", _NodeProxy(server.objects).answer)
