"""Metrics of autoscalers in the JSON that version v1 keeps in annotations.

There a target's fields stand beside the metric's name, with names of their own
(pkg/apis/autoscaling/v1/conversion.go). Values are renamed, nothing is computed.
"""

from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON

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
