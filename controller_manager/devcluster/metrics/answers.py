"""The answers of the metrics APIs: a pure function from settings and pods.

They have the parts of the answers of metrics-server, and of an adapter for custom and
external metrics, that autoscalers and kubectl read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import QuantityError
from controller_manager.api.selectors import Selector, SelectorError, parse_selector
from controller_manager.api.times import format_time

from .quantities import share
from .settings import Settings

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
    """Return the PodMetrics of the selected pods, which share totals."""
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
    """Return the list of a custom metric's values: kind, name and value of each."""
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
