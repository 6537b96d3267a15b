"""Validation of an autoscaler's metrics (pkg/apis/autoscaling/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_path_segment,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

_FIELDS: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
"""The field of each type of metric; the types are in the order of messages."""

_ORDER: Final = ("object", "external", "pods", "resource", "containerResource")
"""The order in which upstream looks at the fields."""

_TARGETS: Final = ("Utilization", "Value", "AverageValue")

_RAW_OR_UTILIZATION: Final = (
    "must set either a target raw value or a target utilization"
)
_NEEDED: Final = {
    "object": (
        ("value", "averageValue"),
        "averageValue",
        "must set either a target value or averageValue",
    ),
    "external": (
        ("value", "averageValue"),
        "averageValue",
        "must set either a target value for metric or a per-pod target",
    ),
    "pods": (
        ("averageValue",),
        "averageValue",
        "must specify a positive target averageValue",
    ),
    "resource": (
        ("averageUtilization", "averageValue"),
        "averageUtilization",
        _RAW_OR_UTILIZATION,
    ),
    "containerResource": (
        ("averageUtilization", "averageValue"),
        "averageUtilization",
        _RAW_OR_UTILIZATION,
    ),
}
"""The fields of the target of which a source needs one, and the error without."""

_EXCLUSIVE: Final = {
    "external": (
        ("value", "averageValue"),
        "value",
        "may not set both a target value for metric and a per-pod target",
    ),
    "resource": (
        ("averageUtilization", "averageValue"),
        "averageValue",
        "may not set both a target raw value and a target utilization",
    ),
    "containerResource": (
        ("averageUtilization", "averageValue"),
        "averageValue",
        "may not set both a target raw value and a target utilization",
    ),
}
"""The fields of the target that exclude each other, and the error with both."""


def validate_metric(metric: JSON, field: str) -> list[Cause]:
    """Check one metric of an autoscaler's spec."""
    kind = metric.get("type", "")
    causes = []
    if not kind:
        causes.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in _FIELDS:
        # Upstream reports this error at the beginning and at the end.
        wrong = not_supported(f"{field}.type", shown(kind), tuple(_FIELDS))
        causes += [wrong, wrong]
    present = [name for name in _ORDER if name in metric]
    for name in present[:1]:
        causes += _validate_source(name, metric[name], f"{field}.{name}")
    expected = _FIELDS.get(kind)
    if expected and expected not in metric:
        detail = "must populate information for the given metric source"
        causes.append(required(f"{field}.{expected}", detail))
    if len(present) != 1:
        detail = "must populate the given metric source only"
        causes += [
            forbidden_field(f"{field}.{name}", detail)
            for name in present
            if name != expected
        ]
    return causes


def validate_reference(
    reference: JSON, field: str, *, needs_group: bool = False
) -> list[Cause]:
    """Check a reference to an object of any version (CrossVersionObjectReference).

    `needs_group` refuses objects of the core group.
    """
    causes = []
    for name in ("kind", "name"):
        value = reference.get(name, "")
        where = f"{field}.{name}"
        causes += validate_path_segment(value, where) if value else [required(where)]
    version = reference.get("apiVersion", "")
    detail = ""
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
    elif needs_group and not has_group(reference):
        detail = "apiVersion must specify API group"
    if detail:
        causes.append(invalid(f"{field}.apiVersion", shown(version), detail))
    return causes


def has_group(reference: JSON) -> bool:
    """Tell whether a reference is to an object of another group than the core."""
    return bool(reference.get("apiVersion", "").rpartition("/")[0])


def _validate_source(kind: str, source: JSON, field: str) -> list[Cause]:
    causes = []
    if kind == "object":
        described = source.get("describedObject", {})
        causes += validate_reference(described, f"{field}.describedObject")
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            causes.append(required(f"{field}.name", "must specify a resource name"))
    else:
        causes += _validate_identifier(source.get("metric", {}), f"{field}.metric")
    if kind == "containerResource":
        causes += _validate_container(source.get("container", ""), field)
    target, where = source.get("target", {}), f"{field}.target"
    causes += _validate_target(target, where)
    needed, at, detail = _NEEDED[kind]
    if not any(name in target for name in needed):
        causes.append(required(f"{where}.{at}", detail))
    exclusive, at, detail = _EXCLUSIVE.get(kind, ((), "", ""))
    if exclusive and all(name in target for name in exclusive):
        causes.append(forbidden_field(f"{where}.{at}", detail))
    return causes


def _validate_container(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(f"{field}.container", "must specify a container")]
    return validate_label(name, f"{field}.container")


def _validate_identifier(identifier: JSON, field: str) -> list[Cause]:
    if not (name := identifier.get("name", "")):
        return [required(f"{field}.name", "must specify a metric name")]
    return validate_path_segment(name, f"{field}.name")


def _validate_target(target: JSON, field: str) -> list[Cause]:
    causes = []
    kind = target.get("type", "")
    if not kind:
        causes.append(required(f"{field}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        causes.append(invalid(f"{field}.type", shown(kind), detail))
    for name in ("value", "averageValue"):
        if name in target and parse_quantity(target[name]) <= ZERO:
            value = shown(target[name])
            causes.append(invalid(f"{field}.{name}", value, "must be positive"))
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        where = f"{field}.averageUtilization"
        causes.append(invalid(where, shown(percent), "must be greater than 0"))
    return causes
