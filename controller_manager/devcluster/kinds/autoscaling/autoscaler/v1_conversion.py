"""Autoscalers of version v2 as those of v1, and back.

Version v1 has fields for CPU utilization only. Other metrics, the behavior, the
conditions and the present values are JSON in annotations
(pkg/apis/autoscaling/v1/conversion.go).
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.readers import TypeMismatch

from .v1_metrics import metric_from_v1, metric_to_v1, status_from_v1, status_to_v1

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
