"""The metrics APIs, and the columns of metrics as metrics-server has them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import SelectorError, parse_selector
from controller_manager.clock import Clock
from controller_manager.devcluster.apiserver.genericapiserver import AggregatedAPI
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.strategy import (
    NAME,
    Cells,
    Column,
    Strategy,
)
from controller_manager.devcluster.registry.core.configuration import CONFIG_MAPS
from controller_manager.devcluster.registry.core.nodes import KIND as NODES
from controller_manager.devcluster.registry.core.pods import KIND as PODS
from controller_manager.devcluster.storage import Storage

from . import answers

# The columns of metrics, as metrics-server has them (pkg/api/table.go).


class MetricsStrategy(Strategy):
    """Shows the usage of a node, or of a pod with all its containers."""

    columns: ClassVar = (NAME, Column("cpu"), Column("memory"), Column("Window"))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        containers = obj.get("containers", [obj])
        usages = [each["usage"] for each in containers]
        return [
            obj["metadata"]["name"],
            *(
                answers.summed([each[name] for each in usages if name in each])
                for name in ("cpu", "memory")
            ),
            obj["window"],
        ]


# The metrics of nodes: the sums of their pods' metrics.

_RESOURCES: Final = ("cpu", "memory")
_WINDOW: Final = "30s"


def node_metrics(
    nodes: Iterable[JSON],
    pods: Iterable[JSON],
    places: Mapping[tuple[str, str], str],
    query: Mapping[str, str],
    now: datetime,
    name: str = "",
) -> answers.Answer:
    """Return the metrics of nodes, or of the only one, called `name`.

    `pods` are PodMetrics, `places` are the nodes of pods by namespace and name.
    """
    try:
        selector = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        return answers.failure(400, str(error))
    usages: dict[str, list[JSON]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        node = places.get((metadata["namespace"], metadata["name"]), "")
        usages.setdefault(node, []).extend(each["usage"] for each in pod["containers"])
    items = [
        _metrics_of(node, usages.get(node["metadata"]["name"], []), now)
        for node in nodes
        if selector.matches(node["metadata"].get("labels") or {})
    ]
    if not name:
        return 200, answers.metrics_list(
            answers.RESOURCE_METRICS, "NodeMetricsList", items
        )
    version = f"{answers.RESOURCE_METRICS}/{answers.VERSIONS[answers.RESOURCE_METRICS]}"
    return 200, {"kind": "NodeMetrics", "apiVersion": version, **items[0]}


def _metrics_of(node: JSON, usages: list[JSON], now: datetime) -> JSON:
    metadata, time = node["metadata"], format_time(now)
    known = {name: metadata[name] for name in ("name", "labels") if name in metadata}
    return {
        "metadata": {**known, "creationTimestamp": time},
        "timestamp": time,
        "window": _WINDOW,
        "usage": {
            resource: answers.summed(
                [each[resource] for each in usages if resource in each]
            )
            for resource in _RESOURCES
        },
    }


# Serves the metrics APIs from the objects that are stored.

FindKind = Callable[[str, str], Kind | None]
"""Returns the kind with an apiVersion and a name."""

_POD_WINDOW: Final = "1s"
"""The time over which annotated loads count as measured.

Autoscalers ignore the metrics of a pod that became ready within this time.
"""

_VERBS: Final = ("get", "list")
_KINDS: Final = tuple(
    Kind(
        answers.RESOURCE_METRICS,
        answers.VERSIONS[answers.RESOURCE_METRICS],
        kind,
        plural,
        namespaced=plural == "pods",
        verbs=_VERBS,
        strategy=MetricsStrategy(),
        singular_name=plural.removesuffix("s"),
    )
    for kind, plural in (("NodeMetrics", "nodes"), ("PodMetrics", "pods"))
)


def metrics_apis(
    storage: Storage, clock: Clock, find_kind: FindKind
) -> list[AggregatedAPI]:
    """Return the three metrics APIs of a cluster."""
    return [
        ResourceMetricsAPI(storage, clock, find_kind),
        CustomMetricsAPI(storage, clock, find_kind),
        ExternalMetricsAPI(storage, clock, find_kind),
    ]


class MetricsAPI:
    """A metrics API: answers about one namespace."""

    group: str
    kinds: Sequence[Kind] = ()

    def __init__(self, storage: Storage, clock: Clock, find_kind: FindKind) -> None:
        """Take the stored objects and the clock; `find_kind` finds owners."""
        self._storage = storage
        self._clock = clock
        self._find_kind = find_kind

    @property
    def version(self) -> str:
        """The version in which the API is served."""
        return answers.VERSIONS[self.group]

    def answer(self, path: str, query: Mapping[str, str]) -> answers.Answer:
        """Return the status and the body of the answer to a GET."""
        parts = path.strip("/").split("/")
        namespace = parts[4] if parts[3:4] == ["namespaces"] and parts[5:] else ""
        pods = _selected(self._pods(namespace), query)
        try:
            settings = self._settings(namespace, pods)
        except answers.SettingsError as error:
            return answers.failure(500, str(error))
        return answers.answer(settings, pods, path, query, self._clock.now())

    def _pods(self, namespace: str) -> list[JSON]:
        """Return the pods of a namespace, of all if it is empty."""
        return [
            stored.obj
            for stored in self._storage.collection(PODS.resource)
            if not namespace or stored.obj["metadata"]["namespace"] == namespace
        ]

    def _settings(self, namespace: str, pods: Iterable[JSON]) -> answers.Settings:
        """Return the settings of a namespace, by its ConfigMap or by annotations.

        The latter are those of `pods` only. Raises SettingsError.
        """
        collection = self._storage.collection(CONFIG_MAPS.resource)
        stored = collection.get((namespace, answers.CONFIG_MAP))
        if stored is None:
            loads = answers.loads_of(
                answers.measured(pods),
                self._owner_of,
                lambda: answers.measured(self._pods(namespace)),
            )
            return answers.Settings(resource=dict(loads), window=_POD_WINDOW)
        text = stored.obj.get("data", {}).get(answers.KEY, "")
        try:
            return answers.parse_settings(text)
        except answers.SettingsError as error:
            where = f"ConfigMap {namespace}/{answers.CONFIG_MAP}, key {answers.KEY}"
            msg = f"{where}: {error}"
            raise answers.SettingsError(msg) from error

    def _owner_of(self, obj: JSON) -> JSON | None:
        """Return the controller of an object, `None` if there is none."""
        metadata = obj["metadata"]
        for owner in metadata.get("ownerReferences", ()):
            if owner.get("controller"):
                kind = self._find_kind(owner["apiVersion"], owner["kind"])
                if kind is None:
                    return None
                key = (metadata.get("namespace", ""), owner["name"])
                stored = self._storage.collection(kind.resource).get(key)
                is_it = stored and stored.obj["metadata"]["uid"] == owner["uid"]
                return stored.obj if stored and is_it else None
        return None


def _selected(pods: list[JSON], query: Mapping[str, str]) -> list[JSON]:
    """Return the pods that a request selects; all if its selector is invalid."""
    try:
        selector = parse_selector(query.get("labelSelector", ""))
    except SelectorError:
        return pods
    return [
        pod for pod in pods if selector.matches(pod["metadata"].get("labels") or {})
    ]


class ResourceMetricsAPI(MetricsAPI):
    """The API of metrics-server: the usage of pods and nodes."""

    group = answers.RESOURCE_METRICS
    kinds = _KINDS

    def answer(self, path: str, query: Mapping[str, str]) -> answers.Answer:
        """Return the status and the body of the answer to a GET."""
        match path.strip("/").split("/")[3:]:
            case ["pods"]:
                return self._pods_everywhere(path, query)
            case ["nodes"]:
                return self._nodes(path, query, "")
            case ["nodes", name]:
                return self._nodes(path, query, name)
        return super().answer(path, query)

    def _pods_everywhere(self, path: str, query: Mapping[str, str]) -> answers.Answer:
        """Return the metrics of all pods; a namespace that fails is left out."""
        root = path.strip("/").removesuffix("/pods").removesuffix("/nodes")
        namespaces = {each["metadata"]["namespace"] for each in self._pods("")}
        items: list[JSON] = []
        for namespace in sorted(namespaces):
            path = f"{root}/namespaces/{namespace}/pods"
            status, body = super().answer(path, query)
            items += body["items"] if status == 200 else []
        return 200, answers.metrics_list(
            answers.RESOURCE_METRICS, "PodMetricsList", items
        )

    def _nodes(self, path: str, query: Mapping[str, str], name: str) -> answers.Answer:
        root = path.strip("/").removesuffix(f"/{name}" if name else "")
        _, everywhere = self._pods_everywhere(root, {})
        collection = self._storage.collection(NODES.resource)
        nodes = [
            stored.obj
            for stored in collection
            if name in ("", stored.obj["metadata"]["name"])
        ]
        if name and not nodes:
            return answers.not_found("nodemetrics", name)
        places = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"].get(
                "nodeName", ""
            )
            for each in self._pods("")
        }
        return node_metrics(
            nodes, everywhere["items"], places, query, self._clock.now(), name
        )


class CustomMetricsAPI(MetricsAPI):
    """The API of an adapter: metrics of pods and of other objects."""

    group = answers.CUSTOM_METRICS


class ExternalMetricsAPI(MetricsAPI):
    """The API of an adapter: metrics from outside the cluster."""

    group = answers.EXTERNAL_METRICS
