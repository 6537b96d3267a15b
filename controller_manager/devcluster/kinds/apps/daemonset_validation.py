"""Validation of the spec of a daemon set (apps/validation)."""

from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.workload_validation import (
    validate_always_restarts,
    validate_template_labels,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    percent,
    validate_int_or_percent,
    validate_not_negative,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector
from controller_manager.devcluster.validation.pods import validate_pod_template


def validate_daemon_set_spec(spec: JSON) -> list[Cause]:
    """Check the selector, the template, numbers and the update strategy."""
    selector = spec.get("selector")
    causes = validate_selector(selector, "spec.selector")
    causes += validate_template_labels(spec, selector)
    if selector is not None and not any(selector.values()):
        detail = "empty selector is invalid for daemonset"
        causes.append(invalid("spec.selector", shown(selector), detail))
    causes += validate_pod_template(spec["template"], "spec.template")
    causes += validate_always_restarts(spec, "DaemonSet")
    causes += validate_not_negative(spec, "minReadySeconds")
    causes += _update_strategy(spec["updateStrategy"])
    return causes + validate_not_negative(spec, "revisionHistoryLimit")


def _update_strategy(strategy: JSON) -> list[Cause]:
    field, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            return []
        case "RollingUpdate":
            return _rolling_update(rolling or {}, f"{field}.rollingUpdate")
        case kind:
            value = {"Type": kind, "RollingUpdate": rolling}
            supported = ("RollingUpdate", "OnDelete")
            return [not_supported(field, shown(value), supported)]


def _rolling_update(rolling: JSON, field: str) -> list[Cause]:
    causes = []
    for name in ("maxUnavailable", "maxSurge"):
        causes += validate_int_or_percent(rolling.get(name, 0), f"{field}.{name}")
    for name in ("maxUnavailable", "maxSurge"):
        value = rolling.get(name, 0)
        if percent(value) > 100:
            detail = "must not be greater than 100%"
            causes.append(invalid(f"{field}.{name}", shown(value), detail))
    surge = rolling.get("maxSurge", 0)
    if _is_zero(rolling.get("maxUnavailable", 0)):
        if _is_zero(surge):
            detail = "cannot be 0 when maxSurge is 0"
            causes.append(required(f"{field}.maxUnavailable", detail))
    elif not _is_zero(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{field}.maxSurge", shown(surge), detail))
    return causes


def _is_zero(value: Any) -> bool:
    return not (percent(value) if isinstance(value, str) else value)
