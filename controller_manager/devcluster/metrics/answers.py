"""The answers of the metrics APIs, from annotations or settings of a namespace."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, QuantityError, parse_quantity
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import Selector, SelectorError, parse_selector

# The settings of a namespace with all answers of the metrics APIs.

CONFIG_MAP: Final = "devcluster-metrics"
"""The name of the ConfigMap with the settings."""

KEY: Final = "answers"
"""The key of its data, whose value is JSON."""

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

    A quantity such as ``total:900m`` is divided among the pods that have the metric.
    """

    resource: dict[str, Usage | None] = {}
    """The usage of pods by name; ``*`` stands for all others. A pod without an entry,
    or with the usage null, has no metrics."""

    window: str = "30s"
    """The time over which the usage was measured."""

    age: float = 0
    """The seconds since the measurement."""

    pods: dict[str, dict[str, str | None]] = {}
    """Values of custom metrics by metric and pod; ``*`` stands for all other pods."""

    objects: dict[str, dict[str, str]] = {}
    """Values of custom metrics by object, such as ``services/web``, and metric."""

    external: dict[str, list[ExternalValue]] = {}
    """Values of external metrics by metric."""

    fail: int = 0
    """The status of all answers if they should fail."""


def parse_settings(text: str) -> Settings:
    """Return the settings that JSON describes; raises SettingsError."""
    try:
        return msgspec.json.decode(text, type=Settings)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise SettingsError(str(error)) from error


# The quantities of a load: a quantity, or a share of a total.

TOTAL: Final = "total:"
"""The prefix of a quantity that is divided."""


def share(text: str, count: int) -> str:
    """Return a quantity unchanged, or the share of a total for one of `count`.

    Shares are whole thousandths. Raises QuantityError.
    """
    amount = parse_quantity(text.removeprefix(TOTAL))
    if not text.startswith(TOTAL):
        return text
    return f"{amount.milli_value // max(count, 1)}m"


def summed(texts: list[str]) -> str:
    """Return the sum of quantities."""
    total = Quantity()
    for text in texts:
        total += parse_quantity(text)
    return str(total)


def is_load(text: str) -> bool:
    """Tell whether a text is a quantity of at least 0, or a total of that kind."""
    try:
        return parse_quantity(text.removeprefix(TOTAL)) >= Quantity()
    except QuantityError:
        return False


# The load of pods, from annotations.

FindOwner = Callable[[JSON], JSON | None]
"""Returns the controller of an object, `None` if there is none."""

ANNOTATION: Final = "devcluster/"
IDLE: Final = {"cpu": "1m", "memory": "8Mi"}
"""The load of a container without annotations."""


class _Load(NamedTuple):
    """A load; the pods of the same workload share a total."""

    text: str
    sharers: tuple[str, ...] = ()


_Loads = dict[str, dict[str, _Load]]
"""Loads by container and resource."""


class _Workloads:
    """Finds the workloads of pods, each once."""

    def __init__(self, find_owner: FindOwner) -> None:
        self._find_owner = find_owner
        self._known: dict[str, JSON | None] = {}

    def of(self, pod: JSON) -> JSON | None:
        """Return the outermost controller of a pod: its deployment, say."""
        uid = _controller_uid(pod)
        if uid not in self._known:
            workload, owner = None, self._find_owner(pod) if uid else None
            while owner is not None:
                workload, owner = owner, self._find_owner(owner)
            self._known[uid] = workload
        return self._known[uid]


def loads_of(
    pods: Iterable[JSON],
    find_owner: FindOwner,
    everybody: Callable[[], Iterable[JSON]] | None = None,
) -> dict[str, Usage]:
    """Return the usage of running pods of one namespace, by name.

    `everybody` returns all running pods of the namespace, among which totals are
    shared; without it, these are the `pods`. Raises SettingsError for an annotation
    that is no load.
    """
    listed, workloads = list(pods), _Workloads(find_owner)
    found = {
        pod["metadata"]["name"]: _loads_of(pod, workloads.of(pod)) for pod in listed
    }
    totals = {load.sharers for load in _each(found.values()) if load.sharers}
    counts: Counter[tuple[str, ...]] = Counter()
    if totals:
        owners = {sharers[0] for sharers in totals}
        for pod in listed if everybody is None else everybody():
            workload = workloads.of(pod)
            if _uid(workload) in owners:
                counts.update(
                    each.sharers for each in _each([_loads_of(pod, workload)])
                )
    return {
        pod: {
            container: {
                resource: share(load.text, counts[load.sharers])
                for resource, load in resources.items()
            }
            for container, resources in containers.items()
        }
        for pod, containers in found.items()
    }


def _each(loads: Iterable[_Loads]) -> Iterator[_Load]:
    for containers in loads:
        for resources in containers.values():
            yield from resources.values()


def _controller_uid(obj: JSON) -> str:
    """Return the uid of the controller of an object, empty if it has none."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def _uid(workload: JSON | None) -> str:
    return str(workload["metadata"]["uid"]) if workload else ""


def _loads_of(pod: JSON, workload: JSON | None) -> _Loads:
    names = [each["name"] for each in pod["spec"]["containers"]]
    sources = [each for each in (pod, workload) if each is not None]
    of_whom = _uid(workload)
    return {
        name: {
            resource: _load(sources, of_whom, resource, name, is_first=not number)
            for resource in IDLE
        }
        for number, name in enumerate(names)
    }


def _load(
    sources: list[JSON], of_whom: str, resource: str, container: str, *, is_first: bool
) -> _Load:
    keys = [f"{ANNOTATION}{resource}.{container}"]
    if is_first:
        keys.append(f"{ANNOTATION}{resource}")
    for source in sources:
        for key in keys:
            text = (source["metadata"].get("annotations") or {}).get(key)
            if text is not None:
                _check(source, key, text.strip())
                total = text.strip().startswith(TOTAL)
                sharers = (of_whom, key, text.strip()) if total else ()
                return _Load(text.strip(), sharers)
    return _Load(IDLE[resource])


def _check(source: JSON, key: str, text: str) -> None:
    if not is_load(text):
        name = source["metadata"]["name"]
        raise SettingsError(
            f"annotation {key} of {source.get('kind', 'Pod')} {name}: must be a "
            f'quantity such as "200m", or "total:2" to share it, it is {text!r}'
        )


# The answers of the metrics APIs: a pure function from settings and pods.

Answer = tuple[int, JSON]
"""The status and the body of an answer."""

RESOURCE_METRICS: Final = "metrics.k8s.io"
CUSTOM_METRICS: Final = "custom.metrics.k8s.io"
EXTERNAL_METRICS: Final = "external.metrics.k8s.io"
VERSIONS: Final = {
    RESOURCE_METRICS: "v1beta1",
    CUSTOM_METRICS: "v1beta2",
    EXTERNAL_METRICS: "v1beta1",
}
"""The version in which each group is served."""

_REASONS: Final = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_NO_RESOURCE: Final = "the server could not find the requested resource"


class _Question(NamedTuple):
    """A request, and the data for its answer."""

    settings: Settings
    pods: Sequence[JSON]
    namespace: str
    rest: list[str]
    selector: Selector
    now: datetime

    @property
    def timestamp(self) -> str:
        """The time of the measurement."""
        return format_time(self.now - timedelta(seconds=self.settings.age))


def answer(
    settings: Settings,
    pods: Iterable[JSON],
    path: str,
    query: Mapping[str, str],
    now: datetime,
) -> Answer:
    """Return the answer to a GET of a path in a namespace.

    `pods` are all pods of the namespace; those that do not run, or are being deleted,
    have no metrics.
    """
    parts = path.strip("/").split("/")
    if len(parts) < 6 or parts[0] != "apis" or parts[3] != "namespaces":
        return failure(404, _NO_RESOURCE)
    if settings.fail:
        return failure(settings.fail, "the metrics server is told to fail")
    try:
        selector = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        return failure(400, str(error))
    _, group, _, _, namespace, *rest = parts
    asked = _Question(settings, measured(pods), namespace, rest, selector, now)
    respond = _RESPONSES.get(group)
    if respond is None:
        return failure(404, _NO_RESOURCE)
    try:
        return respond(asked)
    except QuantityError as error:
        return failure(500, f"a value of the namespace {namespace}: {error}")


def measured(pods: Iterable[JSON]) -> list[JSON]:
    """Return the pods with metrics, by name: running and not being deleted."""
    found = [
        pod
        for pod in pods
        if pod.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def failure(code: int, message: str) -> Answer:
    """Return the Status of an error."""
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, ""),
        "code": code,
    }


def not_found(plural: str, name: str) -> Answer:
    """Return the Status for an object without metrics."""
    return failure(404, f'{plural}.{RESOURCE_METRICS} "{name}" not found')


def metrics_list(group: str, kind: str, items: list[JSON]) -> JSON:
    """Return a list of a metrics API."""
    return {
        "kind": kind,
        "apiVersion": f"{group}/{VERSIONS[group]}",
        "metadata": {},
        "items": items,
    }


def _selected(asked: _Question) -> list[JSON]:
    return [
        pod
        for pod in asked.pods
        if asked.selector.matches(pod["metadata"].get("labels") or {})
    ]


def _resource_metrics(asked: _Question) -> Answer:
    """Answer ``pods`` and ``pods/NAME`` of metrics.k8s.io."""
    if asked.rest[0] != "pods" or len(asked.rest) > 2:
        return failure(404, _NO_RESOURCE)
    items = _pod_metrics(asked)
    if len(asked.rest) == 1:
        return 200, metrics_list(RESOURCE_METRICS, "PodMetricsList", items)
    name = asked.rest[1]
    for item in items:
        if item["metadata"]["name"] == name:
            version = f"{RESOURCE_METRICS}/{VERSIONS[RESOURCE_METRICS]}"
            return 200, {"kind": "PodMetrics", "apiVersion": version, **item}
    return not_found("podmetrics", f"{asked.namespace}/{name}")


def _pod_metrics(asked: _Question) -> list[JSON]:
    conf = asked.settings.resource
    others = conf.get("*")
    found = [
        (pod, conf.get(pod["metadata"]["name"], others)) for pod in _selected(asked)
    ]
    have = [(pod, usage) for pod, usage in found if usage is not None]
    return [
        {
            "metadata": _pod_metadata(pod, asked.now),
            "timestamp": asked.timestamp,
            "window": asked.settings.window,
            "containers": [
                {
                    "name": name,
                    "usage": {
                        resource: share(text, len(have))
                        for resource, text in resources.items()
                    },
                }
                for name, resources in usage.items()
            ],
        }
        for pod, usage in have
    ]


def _pod_metadata(pod: JSON, now: datetime) -> JSON:
    metadata = pod["metadata"]
    names = ("name", "namespace", "labels")
    known = {name: metadata[name] for name in names if name in metadata}
    return {**known, "creationTimestamp": format_time(now)}


def _custom_metrics(asked: _Question) -> Answer:
    """Answer ``pods/*/METRIC`` and ``RESOURCE/NAME/METRIC`` of custom metrics."""
    if asked.rest[:2] == ["pods", "*"] and len(asked.rest) == 3:
        return _metrics_of_pods(asked, asked.rest[2])
    metric, what = asked.rest[-1], asked.rest[:-1]
    named = "/".join(what)
    value = asked.settings.objects.get(named, {}).get(metric)
    if value is None:
        return _no_metric(metric, f" for {named}")
    name = what[1] if len(what) > 1 else asked.namespace
    return 200, _values(asked, metric, [(what[0], name, value)])


def _metrics_of_pods(asked: _Question, metric: str) -> Answer:
    conf = asked.settings.pods.get(metric)
    if conf is None:
        return _no_metric(metric, " for pods")
    names = [pod["metadata"]["name"] for pod in _selected(asked)]
    found = [(name, conf.get(name, conf.get("*"))) for name in names]
    have = [(name, text) for name, text in found if text is not None]
    values = [("Pod", name, share(text, len(have))) for name, text in have]
    return 200, _values(asked, metric, values)


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
    return metrics_list(CUSTOM_METRICS, "MetricValueList", items)


def _external_metrics(asked: _Question) -> Answer:
    """Answer ``METRIC`` of external.metrics.k8s.io."""
    metric = asked.rest[0]
    conf = asked.settings.external.get(metric)
    if conf is None:
        return _no_metric(metric)
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
    return 200, metrics_list(EXTERNAL_METRICS, "ExternalMetricValueList", items)


def _no_metric(metric: str, of: str = "") -> Answer:
    return failure(404, f"the server could not find the metric {metric}{of}")


_RESPONSES: Final[dict[str, Callable[[_Question], Answer]]] = {
    RESOURCE_METRICS: _resource_metrics,
    CUSTOM_METRICS: _custom_metrics,
    EXTERNAL_METRICS: _external_metrics,
}
