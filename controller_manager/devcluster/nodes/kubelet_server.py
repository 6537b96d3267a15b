"""The HTTP endpoints of the kubelets: pods, health and metrics.

Upstream: pkg/kubelet/server. The API server reaches them through the proxy of a node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.server.http.responses import (
    TEXT_HEADERS,
    json_response,
    no_such_path,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.observability.exposition import expose
from controller_manager.serving.health import HealthCheck, probe

from .pod_states import is_over

_METRICS_HEADERS: Final = {"content-type": "text/plain; version=0.0.4; charset=utf-8"}
_ONLY_GET: Final = Response(405, TEXT_HEADERS, b"405: Method Not Allowed")
_STATES: Final = {"running": "running", "terminated": "exited"}
"""The states of containers in metrics, by the key of the container's state."""


def _passes() -> None:
    """Find no problem: all parts of a kubelet run in this process."""


_CHECKS: Final[Mapping[str, HealthCheck]] = dict.fromkeys(
    ("ping", "log", "syncloop"), _passes
)


class KubeletServer:
    """Answers requests to the port 10250 of any node."""

    def __init__(self, storage: Storage) -> None:
        self._pods = storage.collection(POD.resource)
        self._pages: Mapping[str, Callable[[str], Response]] = {
            "/pods": self._pod_list,
            "/metrics": self._metrics,
        }

    def answer(self, node: str, path: str, request: Request) -> Response:
        """Return the answer of a node's kubelet for a path."""
        if path == "/healthz" or path.startswith("/healthz/"):
            return _health(path, request.query)
        page = self._pages.get(path.rstrip("/"))
        if page is None:
            return no_such_path()
        return page(node) if request.method == "GET" else _ONLY_GET

    def _on(self, node: str) -> Iterable[JSON]:
        """Return the pods that the kubelet of a node has."""
        for stored in self._pods:
            if stored.obj["spec"].get("nodeName") == node:
                yield stored.obj

    def _pod_list(self, node: str) -> Response:
        items = [
            {
                key: each
                for key, each in pod.items()
                if key not in ("kind", "apiVersion")
            }
            for pod in self._on(node)
        ]
        pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return json_response(200, pods)

    def _metrics(self, node: str) -> Response:
        registry, running = CollectorRegistry(), 0
        containers: Counter[str] = Counter()
        for pod in self._on(node):
            states = [
                _STATES[name]
                for each in pod["status"].get("containerStatuses", ())
                for name in each["state"]
                if name in _STATES
            ]
            containers.update(states)
            running += not is_over(pod) and "running" in states
        Gauge(
            "kubelet_node_name",
            "The node's name. The count is always 1.",
            ("node",),
            registry=registry,
        ).labels(node).set(1)
        Gauge(
            "kubelet_running_pods",
            "Number of pods that have a running pod sandbox",
            registry=registry,
        ).set(running)
        shown = Gauge(
            "kubelet_running_containers",
            "Number of containers currently running",
            ("container_state",),
            registry=registry,
        )
        for state, number in sorted(containers.items()):
            shown.labels(state).set(number)
        return Response(200, _METRICS_HEADERS, expose(registry))


def _health(path: str, query: Sequence[tuple[str, str]]) -> Response:
    """Return the answer to a probe, or to one of its checks."""
    check = path.removeprefix("/healthz").removeprefix("/")
    if path != "/healthz":
        if check not in _CHECKS:
            return no_such_path()
        return Response(200, TEXT_HEADERS, b"ok")
    excluded = [value for key, value in query if key == "exclude"]
    verbose = any(key == "verbose" for key, _ in query)
    health = probe("healthz", _CHECKS, verbose=verbose, exclude=excluded)
    return Response(200, TEXT_HEADERS, health.text.encode())
