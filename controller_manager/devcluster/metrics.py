"""The metrics APIs of the development cluster, for autoscalers and ``kubectl top``.

The cluster measures nothing. Annotations of pods or of their workloads set a load, or a
ConfigMap sets all answers of a namespace. The table in docs/devcluster.md shows both.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import ClassVar, Final, NamedTuple

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import Selector, SelectorError, parse_selector
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.registry.core.cluster import NODES
from controller_manager.devcluster.registry.core.secrets import CONFIG_MAPS

from .apiserver.kind import Kind
from .apiserver.negotiation import Form, accepted, header
from .apiserver.request_info import attributes_of_request, is_true
from .apiserver.responses import json_response, table
from .apiserver.security import User
from .apiserver.strategy import NAME, Cells, Column, Strategy
from .registry.core.pods import KIND as PODS
from .scheme import statuses
from .storage import Storage, Stored, key_of

# The settings of a namespace with all answers of the metrics APIs.

CONFIG_MAP: Final = "devcluster-metrics"
KEY: Final = "answers"
"""The key of the ConfigMap's data, whose value is JSON."""

Usage = dict[str, dict[str, str]]
"""Quantities by container and resource."""


class SettingsError(Exception):
    """The settings of a namespace cannot be read; the message says why."""


class ExternalValue(Struct, frozen=True, forbid_unknown_fields=True):
    """One value of an external metric, and the labels that select it."""

    value: str
    labels: dict[str, str] = {}


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The answers of the metrics APIs in one namespace.

    - `resource`: the usage of pods by name; ``*`` stands for all others. A pod without
      an entry, or with the usage null, has no metrics.
    - `window`: the time over which the usage was measured; `age`: the seconds since.
    - `pods`: values of custom metrics by metric and pod; ``*`` stands for all others.
    - `objects`: values of custom metrics by object, as ``services/web``, and metric.
    - `external`: values of external metrics by metric.
    - `fail`: the status of all answers if they should fail.

    A quantity such as ``total:900m`` is divided among the pods that have the metric.
    """

    resource: dict[str, Usage | None] = {}
    window: str = "30s"
    age: float = 0
    pods: dict[str, dict[str, str | None]] = {}
    objects: dict[str, dict[str, str]] = {}
    external: dict[str, list[ExternalValue]] = {}
    fail: int = 0


def parse_settings(text: str) -> Settings:
    """Return the settings that JSON describes; raises SettingsError."""
    try:
        return msgspec.json.decode(text, type=Settings)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SettingsError(str(error)) from error


# The loads of pods, from annotations: a quantity, or a share of a total.

_TOTAL: Final = "total:"
"""The prefix of a quantity that is divided."""


def _share(text: str, count: int) -> str:
    """Return a quantity unchanged, or the share of a total for one of `count`.

    Shares are whole thousandths. Raises QuantityError.
    """
    amount = parse_quantity(text.removeprefix(_TOTAL))
    if not text.startswith(_TOTAL):
        return text
    return f"{amount.milli_value // max(count, 1)}m"


def _sums(usages: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {
        name: str(
            sum((parse_quantity(each[name]) for each in usages if name in each), _NONE)
        )
        for name in _IDLE
    }


_PREFIX: Final = "devcluster/"
_NONE: Final = Quantity()
_IDLE: Final = {"cpu": "1m", "memory": "8Mi"}
"""The load of a container without annotations."""


_Load = tuple[str, tuple[str, ...]]
"""A load, and its sharers: the pods of the same workload share a total."""

_Loads = dict[tuple[str, str], _Load]
"""Loads by container and resource."""


class _Workloads:
    """The loads of pods, and their workloads, each of which is found once."""

    def __init__(self, find_owner: Callable[[JSON], JSON | None]) -> None:
        self._find_owner = find_owner
        self._known: dict[str, JSON | None] = {}

    def of(self, pod: JSON) -> JSON | None:
        """Return the outermost controller of a pod: its deployment, say."""
        owner = _controller_of(pod)
        uid = str(owner["uid"]) if owner else ""
        if uid not in self._known:
            workload, found = None, self._find_owner(pod) if uid else None
            while found is not None:
                workload, found = found, self._find_owner(found)
            self._known[uid] = workload
        return self._known[uid]

    def uid_of(self, pod: JSON) -> str:
        workload = self.of(pod)
        return str(workload["metadata"]["uid"]) if workload else ""

    def loads(self, pod: JSON) -> _Loads:
        """Return the loads of all containers; raises SettingsError."""
        sources = [each for each in (pod, self.of(pod)) if each is not None]
        of_whom = self.uid_of(pod)
        return {
            (each["name"], resource): _load(
                sources, of_whom, resource, each["name"], is_first=not number
            )
            for number, each in enumerate(pod["spec"]["containers"])
            for resource in _IDLE
        }


def loads_of(
    pods: Iterable[JSON],
    find_owner: Callable[[JSON], JSON | None],
    everybody: Callable[[], Iterable[JSON]] | None = None,
) -> dict[str, Usage]:
    """Return the usage of running pods of one namespace, by name.

    `find_owner` returns the controller of an object, if there is one. `everybody`
    returns all running pods of the namespace, among which totals are shared; without
    it, these are the `pods`. Raises SettingsError for an annotation that is no load.
    """
    listed, workloads = list(pods), _Workloads(find_owner)
    found = {pod["metadata"]["name"]: workloads.loads(pod) for pod in listed}
    owners = {
        sharers[0]
        for loads in found.values()
        for _, sharers in loads.values()
        if sharers
    }
    counts: Counter[tuple[str, ...]] = Counter()
    if owners:
        for pod in listed if everybody is None else everybody():
            if workloads.uid_of(pod) in owners:
                counts.update(sharers for _, sharers in workloads.loads(pod).values())
    usages: dict[str, Usage] = {pod: {} for pod in found}
    for pod, loads in found.items():
        for (container, resource), (text, sharers) in loads.items():
            usage = usages[pod].setdefault(container, {})
            usage[resource] = _share(text, counts[sharers])
    return usages


def _controller_of(obj: JSON) -> JSON | None:
    """Return the owner reference to the controller of an object, if it has one."""
    owners: list[JSON] = obj["metadata"].get("ownerReferences", [])
    return next((each for each in owners if each.get("controller")), None)


def _load(
    sources: list[JSON], of_whom: str, resource: str, container: str, *, is_first: bool
) -> _Load:
    keys = [f"{_PREFIX}{resource}.{container}"]
    if is_first:
        keys.append(f"{_PREFIX}{resource}")
    for source in sources:
        for key in keys:
            given = (source["metadata"].get("annotations") or {}).get(key)
            if given is None:
                continue
            text = given.strip()
            with suppress(QuantityError):
                if parse_quantity(text.removeprefix(_TOTAL)) >= _NONE:
                    return text, (of_whom, key, text) if _TOTAL in text else ()
            name = source["metadata"]["name"]
            raise SettingsError(
                f"annotation {key} of {source.get('kind', 'Pod')} {name}: must be a "
                f'quantity such as "200m", or "total:2" to share it, it is {text!r}'
            )
    return _IDLE[resource], ()


# The answers of the metrics APIs: a pure function from settings and pods.

RESOURCE_METRICS: Final = "metrics.k8s.io"
CUSTOM_METRICS: Final = "custom.metrics.k8s.io"
EXTERNAL_METRICS: Final = "external.metrics.k8s.io"
VERSIONS: Final = {
    RESOURCE_METRICS: "v1beta1",
    CUSTOM_METRICS: "v1beta2",
    EXTERNAL_METRICS: "v1beta1",
}
"""The version in which each group is served."""

_POD_WINDOW: Final = "1s"
"""The window of annotated loads: autoscalers ignore pods that became ready in it."""


class _Question(NamedTuple):
    """A request, and the data for its answer."""

    settings: Settings
    pods: Sequence[JSON]
    namespace: str
    rest: list[str]
    selector: Selector
    now: datetime
    timestamp: str
    """The time of the measurement."""

    def selected(self) -> list[JSON]:
        return [each for each in self.pods if _matches(self.selector, each)]


def answer(
    settings: Settings,
    pods: Iterable[JSON],
    path: str,
    query: Mapping[str, str],
    now: datetime,
) -> JSON:
    """Return the answer to a GET of a path in a namespace; raises Refusal.

    `pods` are all pods of the namespace; those that do not run, or are being deleted,
    have no metrics.
    """
    parts = path.strip("/").split("/")
    if len(parts) < 6 or parts[0] != "apis" or parts[3] != "namespaces":
        raise statuses.no_such_resource()
    if settings.fail:
        raise statuses.of_code(settings.fail, "the metrics server is told to fail")
    _, group, _, _, namespace, *rest = parts
    selector = _selector_in(query)
    measured = format_time(now - timedelta(seconds=settings.age))
    asked = _Question(
        settings, _measured(pods), namespace, rest, selector, now, measured
    )
    respond = _RESPONSES.get(group)
    if respond is None:
        raise statuses.no_such_resource()
    try:
        return respond(asked)
    except QuantityError as error:
        why = f"a value of the namespace {namespace}: {error}"
        raise statuses.of_code(500, why) from None


def _no_metric(metric: str, of: str = "") -> statuses.Refusal:
    return statuses.of_code(404, f"the server could not find the metric {metric}{of}")


def _selector_in(query: Mapping[str, str]) -> Selector:
    """Return the label selector of a query; raises Refusal."""
    try:
        return parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise statuses.bad_request(str(error)) from None


def _matches(selector: Selector, obj: JSON) -> bool:
    return selector.matches(obj["metadata"].get("labels") or {})


def _measured(pods: Iterable[JSON]) -> list[JSON]:
    """Return the pods with metrics, by name: running and not being deleted."""
    found = [
        pod
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def _head(group: str, kind: str) -> JSON:
    return {"kind": kind, "apiVersion": f"{group}/{VERSIONS[group]}"}


def _list(group: str, kind: str, items: list[JSON]) -> JSON:
    return {**_head(group, kind), "metadata": {}, "items": items}


def _metadata(obj: JSON, now: datetime) -> JSON:
    metadata = obj["metadata"]
    names = ("name", "namespace", "labels")
    known = {name: metadata[name] for name in names if name in metadata}
    return {**known, "creationTimestamp": format_time(now)}


def _resource_metrics(asked: _Question) -> JSON:
    """Answer ``pods`` and ``pods/NAME`` of metrics.k8s.io."""
    if asked.rest[0] != "pods" or len(asked.rest) > 2:
        raise statuses.no_such_resource()
    items = _pod_metrics(asked)
    _, *names = asked.rest
    if not names:
        return _list(RESOURCE_METRICS, "PodMetricsList", items)
    for item in items:
        if item["metadata"]["name"] == names[0]:
            return {**_head(RESOURCE_METRICS, "PodMetrics"), **item}
    raise statuses.not_found(
        RESOURCE_METRICS, "podmetrics", f"{asked.namespace}/{names[0]}"
    )


def _pod_metrics(asked: _Question) -> list[JSON]:
    conf = asked.settings.resource
    found = [
        (pod, conf.get(pod["metadata"]["name"], conf.get("*")))
        for pod in asked.selected()
    ]
    have = [(pod, usage) for pod, usage in found if usage is not None]
    return [
        {
            "metadata": _metadata(pod, asked.now),
            "timestamp": asked.timestamp,
            "window": asked.settings.window,
            "containers": [
                {
                    "name": name,
                    "usage": {
                        resource: _share(text, len(have))
                        for resource, text in resources.items()
                    },
                }
                for name, resources in usage.items()
            ],
        }
        for pod, usage in have
    ]


def _custom_metrics(asked: _Question) -> JSON:
    """Answer ``pods/*/METRIC`` and ``RESOURCE/NAME/METRIC`` of custom metrics."""
    if asked.rest[:2] == ["pods", "*"] and len(asked.rest) == 3:
        return _metrics_of_pods(asked, asked.rest[2])
    metric, what = asked.rest[-1], asked.rest[:-1]
    named = "/".join(what)
    value = asked.settings.objects.get(named, {}).get(metric)
    if value is None:
        raise _no_metric(metric, f" for {named}")
    name = what[1] if len(what) > 1 else asked.namespace
    return _values(asked, metric, [(what[0], name, value)])


def _metrics_of_pods(asked: _Question, metric: str) -> JSON:
    conf = asked.settings.pods.get(metric)
    if conf is None:
        raise _no_metric(metric, " for pods")
    names = [pod["metadata"]["name"] for pod in asked.selected()]
    found = [(name, conf.get(name, conf.get("*"))) for name in names]
    have = [(name, text) for name, text in found if text is not None]
    values = [("Pod", name, _share(text, len(have))) for name, text in have]
    return _values(asked, metric, values)


def _values(asked: _Question, metric: str, values: list[tuple[str, str, str]]) -> JSON:
    items = [
        {
            "describedObject": {
                "kind": kind,
                "namespace": asked.namespace,
                "name": name,
                "apiVersion": "v1",
            },
            "metric": {"name": metric, "selector": None},
            "timestamp": asked.timestamp,
            "value": value,
        }
        for kind, name, value in values
    ]
    return _list(CUSTOM_METRICS, "MetricValueList", items)


def _external_metrics(asked: _Question) -> JSON:
    """Answer ``METRIC`` of external.metrics.k8s.io."""
    metric = asked.rest[0]
    conf = asked.settings.external.get(metric)
    if conf is None:
        raise _no_metric(metric)
    items = [
        {
            "metricName": metric,
            "metricLabels": each.labels,
            "timestamp": asked.timestamp,
            "value": each.value,
        }
        for each in conf
        if asked.selector.matches(each.labels)
    ]
    return _list(EXTERNAL_METRICS, "ExternalMetricValueList", items)


_RESPONSES: Final[dict[str, Callable[[_Question], JSON]]] = {
    RESOURCE_METRICS: _resource_metrics,
    CUSTOM_METRICS: _custom_metrics,
    EXTERNAL_METRICS: _external_metrics,
}


# Serves the metrics APIs from the objects that are stored.


class _MetricsStrategy(Strategy):
    """The columns of metrics-server: the usage of a node, or of a pod as a whole."""

    columns: ClassVar = (NAME, Column("cpu"), Column("memory"), Column("Window"))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        del now
        sums = _sums([each["usage"] for each in obj.get("containers", [obj])])
        return [obj["metadata"]["name"], *sums.values(), obj["window"]]


_KINDS: Final = tuple(
    Kind(
        RESOURCE_METRICS,
        VERSIONS[RESOURCE_METRICS],
        kind,
        plural,
        namespaced=plural == "pods",
        verbs=("get", "list"),
        strategy=_MetricsStrategy(),
        singular_name=plural.removesuffix("s"),
    )
    for kind, plural in (("NodeMetrics", "nodes"), ("PodMetrics", "pods"))
)


class MetricsAPI:
    """The metrics API of a group: that of metrics-server, or that of an adapter."""

    def __init__(
        self,
        group: str,
        storage: Storage,
        clock: Clock,
        find_kind: Callable[[str, str], Kind | None],
    ) -> None:
        """Take the stored objects and the clock.

        `find_kind` returns the kind with an apiVersion and a name.
        """
        self.kinds: Sequence[Kind] = _KINDS if group == RESOURCE_METRICS else ()
        self._is_of_resources = group == RESOURCE_METRICS
        self._storage = storage
        self._clock = clock
        self._find_kind = find_kind

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a GET, as a Table if the request wants one; raises Refusal."""
        del user
        query = dict(request.query)
        if request.method != "GET" or is_true(query, "watch"):
            raise statuses.method_not_allowed()
        body = self._body(request.path.strip("/"), query)
        about = attributes_of_request(request.method, request.path, request.query)
        kind = next((k for k in self.kinds if k.plural == about.resource), None)
        if kind and accepted(header(request.headers, "accept")).form is Form.TABLE:
            items = [Stored(obj, 0) for obj in body.get("items", [body])]
            include = query.get("includeObject", "Metadata")
            body = table(kind, items, self._clock.now(), include, body["metadata"])
        return json_response(200, body)

    def _body(self, path: str, query: Mapping[str, str]) -> JSON:
        match path.split("/")[3:]:
            case ["pods"] if self._is_of_resources:
                return self._pods_everywhere(path.removesuffix("/pods"), query)
            case ["nodes", *names] if self._is_of_resources and len(names) < 2:
                root = "/".join(path.split("/")[:3])
                return self._nodes(root, query, "".join(names))
        return self._in_namespace(path, query)

    def _in_namespace(self, path: str, query: Mapping[str, str]) -> JSON:
        parts = path.split("/")
        namespace = parts[4] if parts[3:4] == ["namespaces"] and parts[5:] else ""
        selector = _selector_in(query)
        pods = [each for each in self._pods(namespace) if _matches(selector, each)]
        try:
            settings = self._settings(namespace, pods)
        except SettingsError as error:
            raise statuses.of_code(500, str(error)) from None
        return answer(settings, pods, path, query, self._clock.now())

    def _pods(self, namespace: str) -> list[JSON]:
        """Return the pods of a namespace, of all if it is empty."""
        return [
            stored.obj
            for stored in self._storage.collection(PODS.resource)
            if not namespace or stored.obj["metadata"]["namespace"] == namespace
        ]

    def _settings(self, namespace: str, pods: Iterable[JSON]) -> Settings:
        """Return the settings of a namespace, by its ConfigMap or by annotations.

        The latter are those of `pods` only. Raises SettingsError.
        """
        stored = self._storage.collection(CONFIG_MAPS.resource).get(
            (namespace, CONFIG_MAP)
        )
        if stored is None:
            loads = loads_of(
                _measured(pods),
                self._owner_of,
                lambda: _measured(self._pods(namespace)),
            )
            return Settings(resource=dict(loads), window=_POD_WINDOW)
        try:
            return parse_settings(stored.obj.get("data", {}).get(KEY, ""))
        except SettingsError as error:
            where = f"ConfigMap {namespace}/{CONFIG_MAP}, key {KEY}"
            raise SettingsError(f"{where}: {error}") from error

    def _owner_of(self, obj: JSON) -> JSON | None:
        """Return the controller of an object, `None` if there is none."""
        owner = _controller_of(obj)
        kind = owner and self._find_kind(owner["apiVersion"], owner["kind"])
        if not owner or not kind:
            return None
        key = (obj["metadata"].get("namespace", ""), owner["name"])
        stored = self._storage.collection(kind.resource).get(key)
        is_it = stored and stored.obj["metadata"]["uid"] == owner["uid"]
        return stored.obj if stored and is_it else None

    def _pods_everywhere(self, root: str, query: Mapping[str, str]) -> JSON:
        """Return the metrics of all pods; a namespace that fails is left out."""
        items: list[JSON] = []
        for namespace in sorted({p["metadata"]["namespace"] for p in self._pods("")}):
            path = f"{root}/namespaces/{namespace}/pods"
            with suppress(statuses.Refusal):
                items += self._in_namespace(path, query)["items"]
        return _list(RESOURCE_METRICS, "PodMetricsList", items)

    def _nodes(self, root: str, query: Mapping[str, str], name: str) -> JSON:
        """Return the sums of the metrics of pods by node, or of the node `name`."""
        selector, usages = _selector_in(query), dict[str, list[JSON]]()
        pods = self._storage.collection(PODS.resource)
        for each in self._pods_everywhere(root, {})["items"]:
            pod = pods.get(key_of(each))
            node = pod.obj["spec"].get("nodeName", "") if pod else ""
            found = usages.setdefault(node, [])
            found += (container["usage"] for container in each["containers"])
        now = self._clock.now()
        items = [
            {
                "metadata": _metadata(node, now),
                "timestamp": format_time(now),
                "window": "30s",
                "usage": _sums(usages.get(node["metadata"]["name"], [])),
            }
            for node in (each.obj for each in self._storage.collection(NODES.resource))
            if name in ("", node["metadata"]["name"]) and _matches(selector, node)
        ]
        if not name:
            return _list(RESOURCE_METRICS, "NodeMetricsList", items)
        if not items:
            raise statuses.not_found(RESOURCE_METRICS, "nodemetrics", name)
        return {**_head(RESOURCE_METRICS, "NodeMetrics"), **items[0]}
