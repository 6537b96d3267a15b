"""Metrics of autoscalers in the JSON that version v1 keeps in annotations.

There a target's fields stand beside the metric's name, with names of their own
(pkg/apis/autoscaling/v1/conversion.go). Values are renamed, nothing is computed.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Conversion
from controller_manager.devcluster.apiserver.strategy import Cells
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.readers import TypeMismatch

from .autoscalers import AUTOSCALERS, FACTS, AutoscalerStrategy

# Metrics of autoscalers in the JSON that version v1 keeps in annotations.

Path = tuple[str, ...]


class _Form(NamedTuple):
    """Where the fields of one source are: in v1 by name, in v2 by path."""

    field: str
    spec: dict[str, Path]
    status: dict[str, Path]


_RESOURCE_SPEC: Final[dict[str, Path]] = {
    "name": ("name",),
    "targetAverageUtilization": ("target", "averageUtilization"),
    "targetAverageValue": ("target", "averageValue"),
}
_RESOURCE_STATUS: Final[dict[str, Path]] = {
    "name": ("name",),
    "currentAverageUtilization": ("current", "averageUtilization"),
    "currentAverageValue": ("current", "averageValue"),
}
_CONTAINER: Final[dict[str, Path]] = {"container": ("container",)}
_METRIC: Final[dict[str, Path]] = {"metricName": ("metric", "name")}
_SELECTOR: Final[dict[str, Path]] = {"selector": ("metric", "selector")}
_EXTERNAL: Final[dict[str, Path]] = {
    **_METRIC,
    "metricSelector": ("metric", "selector"),
}
_OBJECT: Final[dict[str, Path]] = {"target": ("describedObject",), **_METRIC}

_FORMS: Final = {
    "Resource": _Form("resource", _RESOURCE_SPEC, _RESOURCE_STATUS),
    "ContainerResource": _Form(
        "containerResource",
        {**_RESOURCE_SPEC, **_CONTAINER},
        {**_RESOURCE_STATUS, **_CONTAINER},
    ),
    "Pods": _Form(
        "pods",
        {**_METRIC, "targetAverageValue": ("target", "averageValue"), **_SELECTOR},
        {**_METRIC, "currentAverageValue": ("current", "averageValue"), **_SELECTOR},
    ),
    "Object": _Form(
        "object",
        {
            **_OBJECT,
            "targetValue": ("target", "value"),
            **_SELECTOR,
            "averageValue": ("target", "averageValue"),
        },
        {
            **_OBJECT,
            "currentValue": ("current", "value"),
            **_SELECTOR,
            "averageValue": ("current", "averageValue"),
        },
    ),
    "External": _Form(
        "external",
        {
            **_EXTERNAL,
            "targetValue": ("target", "value"),
            "targetAverageValue": ("target", "averageValue"),
        },
        {
            **_EXTERNAL,
            "currentValue": ("current", "value"),
            "currentAverageValue": ("current", "averageValue"),
        },
    ),
}


def metric_to_v1(metric: JSON) -> JSON:
    """Return a metric of a spec as version v1 writes it."""
    return _flattened(metric, is_spec=True)


def status_to_v1(metric: JSON) -> JSON:
    """Return a present value of a status as version v1 writes it."""
    return _flattened(metric, is_spec=False)


def metric_from_v1(metric: JSON) -> JSON:
    """Return a metric that version v1 wrote as version v2 has it.

    The type of its target follows from the field that is set.
    """
    result = _nested(metric, is_spec=True)
    for part in result.values():
        if isinstance(part, dict):
            target = part.setdefault("target", {})
            target["type"] = _target_type(target)
    return result


def status_from_v1(metric: JSON) -> JSON:
    """Return a present value that version v1 wrote as version v2 has it."""
    return _nested(metric, is_spec=False)


def _flattened(metric: JSON, *, is_spec: bool) -> JSON:
    kind = metric.get("type", "")
    form = _FORMS.get(kind)
    if form is None or form.field not in metric:
        return {"type": kind}
    paths = form.spec if is_spec else form.status
    found = {name: _at(metric[form.field], path) for name, path in paths.items()}
    kept = {name: value for name, value in found.items() if value is not None}
    return {"type": kind, form.field: kept}


def _nested(metric: JSON, *, is_spec: bool) -> JSON:
    kind = metric.get("type", "")
    form = _FORMS.get(kind)
    if form is None or not isinstance(given := metric.get(form.field), dict):
        return {"type": kind}
    paths = form.spec if is_spec else form.status
    source: JSON = {}
    for name, path in paths.items():
        if name in given:
            _place(source, path, given[name])
    return {"type": kind, form.field: source}


def _at(source: JSON, path: Path) -> Any:
    value: Any = source
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _place(source: JSON, path: Path, value: Any) -> None:
    for name in path[:-1]:
        source = source.setdefault(name, {})
    source[path[-1]] = value


def _target_type(target: JSON) -> str:
    if "averageUtilization" in target:
        return "Utilization"
    return "AverageValue" if "averageValue" in target else "Value"


# Autoscalers of version v2 as those of v1, and back.

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_SHARED_SPEC: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SHARED_STATUS: Final = ("observedGeneration", "lastScaleTime")


def to_v1(obj: JSON) -> JSON:
    """Return an autoscaler of version v2 in version v1."""
    spec, status = obj["spec"], obj["status"]
    metrics, current = spec.get("metrics", []), status.get("currentMetrics") or []
    others = [metric_to_v1(each) for each in metrics if _cpu(each, "target") is None]
    kept = {
        _METRICS: others,
        _CURRENT: [status_to_v1(each) for each in current],
        _CONDITIONS: status.get("conditions", []),
        _BEHAVIOR: _renamed(spec.get("behavior", {}), _capitalized),
    }
    annotations = {
        name: msgspec.json.encode(value).decode()
        for name, value in kept.items()
        if value
    }
    wanted = [_cpu(each, "target") for each in metrics]
    found = [_cpu(each, "current") for each in current]
    return {
        "metadata": _annotated(obj["metadata"], annotations),
        "spec": {
            **{name: spec[name] for name in _SHARED_SPEC if name in spec},
            **_first("targetCPUUtilizationPercentage", wanted),
        },
        "status": {
            **{name: status[name] for name in _SHARED_STATUS if name in status},
            "currentReplicas": status.get("currentReplicas", 0),
            "desiredReplicas": status.get("desiredReplicas", 0),
            **_first("currentCPUUtilizationPercentage", found),
        },
    }


def from_v1(obj: JSON) -> JSON:
    """Return an autoscaler of version v1 in version v2.

    Annotations that cannot be read are dropped.
    """
    metadata = obj.get("metadata", {})
    annotations = dict(metadata.get("annotations", {}))
    texts = {
        name: annotations.pop(name, "")
        for name in (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
    }
    return {
        "metadata": _without_empty({**metadata, "annotations": annotations}),
        "spec": _spec_from_v1(obj.get("spec", {}), texts),
        "status": _status_from_v1(obj.get("status", {}), texts),
    }


def _spec_from_v1(spec: JSON, texts: dict[str, str]) -> JSON:
    metrics = [metric_from_v1(each) for each in _decoded(texts[_METRICS]) or ()]
    if (percent := spec.get("targetCPUUtilizationPercentage")) is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.insert(0, _of_cpu({"target": target}))
    behavior = _decoded(f"[{texts[_BEHAVIOR]}]") or [{}]
    model = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec"
    parts = {
        **_fitting({"metrics": metrics}, model),
        **_fitting({"behavior": _renamed(behavior[0], _lowered)}, model),
    }
    known: JSON = {name: spec[name] for name in _SHARED_SPEC if name in spec}
    return {**known, **_without_empty(parts)}


def _status_from_v1(status: JSON, texts: dict[str, str]) -> JSON:
    current = _decoded(texts[_CURRENT])
    values = [status_from_v1(each) for each in current or ()]
    percent = status.get("currentCPUUtilizationPercentage")
    if current is None and percent is not None:
        values = [_of_cpu({"current": {"averageUtilization": percent}})]
    model = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus"
    parts = {
        **_fitting({"currentMetrics": values}, model),
        **_fitting({"conditions": _decoded(texts[_CONDITIONS]) or []}, model),
    }
    counts = ("currentReplicas", "desiredReplicas")
    return {
        **{name: status[name] for name in _SHARED_STATUS if name in status},
        **{name: status[name] for name in counts if status.get(name)},
        **_without_empty(parts),
    }


def _without_empty(fields: JSON) -> JSON:
    return {
        name: value for name, value in fields.items() if value not in ({}, [], None)
    }


def _annotated(metadata: JSON, annotations: JSON) -> JSON:
    if not annotations:
        return metadata
    return {
        **metadata,
        "annotations": {**metadata.get("annotations", {}), **annotations},
    }


def _cpu(metric: JSON, part: str) -> int | None:
    """Return the CPU utilization of a metric: its ``target`` or its ``current``."""
    resource = metric.get("resource", {})
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    percent: int | None = resource.get(part, {}).get("averageUtilization")
    return percent


def _of_cpu(part: JSON) -> JSON:
    return {"type": "Resource", "resource": {"name": "cpu", **part}}


def _first(name: str, values: list[int | None]) -> JSON:
    found = [each for each in values if each is not None]
    return {name: found[0]} if found else {}


def _fitting(fields: JSON, model: str) -> JSON:
    """Return fields in their stored form, `None` if they do not fit the model.

    Users may write any text into the annotation.
    """
    try:
        return Decoder().decode(fields, model)
    except TypeMismatch:
        return {}


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """Return a value with other names of all fields in it.

    Upstream writes the behavior with the names of Go's fields.
    """
    if isinstance(value, list):
        return [_renamed(each, rename) for each in value]
    if not isinstance(value, dict):
        return value
    return {rename(name): _renamed(each, rename) for name, each in value.items()}


def _capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]


def _lowered(name: str) -> str:
    return name[:1].lower() + name[1:]


def _decoded(text: str) -> list[JSON] | None:
    """Return the list of objects in an annotation, `None` if it is none."""
    try:
        return msgspec.json.decode(text, type=list[JSON])
    except (msgspec.DecodeError, UnicodeError):
        return None


# HorizontalPodAutoscaler in version v1, which knows CPU only.


class _OldAutoscalerStrategy(AutoscalerStrategy):
    """Shows the same row as the version that is stored."""

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return super().cells(from_v1(obj), now)


OLD_AUTOSCALERS: Final = kind_of(
    "autoscaling/v1",
    "horizontalpodautoscalers",
    _OldAutoscalerStrategy(**FACTS),
    conversion=Conversion(AUTOSCALERS, to_stored=from_v1, from_stored=to_v1),
)
