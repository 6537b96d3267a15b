"""Validation of autoscalers (pkg/apis/autoscaling/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .metrics import has_group, validate_metric, validate_reference

_SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
_POLICY_TYPES: Final = ("Percent", "Pods")
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800
_POSITIVE: Final = "must be greater than zero"


def validate_autoscaler(
    spec: JSON, lowest: int, old: JSON | None = None
) -> list[Cause]:
    """Check the spec of an autoscaler.

    `lowest` is the lowest allowed ``minReplicas``, `old` the spec before an update. In
    the core group only replication controllers can be scaled, but an update may keep
    another target without a group.
    """
    target, metrics = spec.get("scaleTargetRef", {}), spec.get("metrics", [])
    causes = _validate_limits(spec, lowest)
    known = old is not None and not has_group(old.get("scaleTargetRef", {}))
    needs_group = not known and target.get("kind") != "ReplicationController"
    where = "spec.scaleTargetRef"
    causes += validate_reference(target, where, needs_group=needs_group)
    for number, metric in enumerate(metrics):
        causes += validate_metric(metric, f"spec.metrics[{number}]")
    types = {each.get("type") for each in metrics}
    if spec.get("minReplicas") == 0 and not types & {"Object", "External"}:
        detail = (
            "must specify at least one Object or External metric to support scaling "
            "to zero replicas"
        )
        causes.append(forbidden_field("spec.metrics", detail))
    for direction in ("scaleUp", "scaleDown"):
        rules = spec.get("behavior", {}).get(direction)
        if rules is not None:
            causes += _validate_rules(rules, f"spec.behavior.{direction}")
    return causes


def _validate_limits(spec: JSON, lowest: int) -> list[Cause]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    causes = []
    if least is not None and least < lowest:
        detail = f"must be greater than or equal to {lowest}"
        causes.append(invalid("spec.minReplicas", shown(least), detail))
    if most < 1:
        detail = "must be greater than 0"
        causes.append(invalid("spec.maxReplicas", shown(most), detail))
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        causes.append(invalid("spec.maxReplicas", shown(most), detail))
    return causes


def _validate_rules(rules: JSON, field: str) -> list[Cause]:
    causes = []
    window, where = (
        rules.get("stabilizationWindowSeconds"),
        "stabilizationWindowSeconds",
    )
    if window is not None and window < 0:
        detail = "must be greater than or equal to zero"
        causes.append(invalid(f"{field}.{where}", shown(window), detail))
    if window is not None and window > _LONGEST_WINDOW:
        detail = f"must be less than or equal to {_LONGEST_WINDOW}"
        causes.append(invalid(f"{field}.{where}", shown(window), detail))
    select = rules.get("selectPolicy")
    if select is not None and select not in _SELECT_POLICIES:
        where = f"{field}.selectPolicy"
        causes.append(not_supported(where, shown(select), _SELECT_POLICIES))
    policies = rules.get("policies", [])
    if not policies:
        detail = "must specify at least one Policy"
        causes.append(required(f"{field}.policies", detail))
    for number, policy in enumerate(policies):
        causes += _validate_policy(policy, f"{field}.policies[{number}]")
    if str(rules.get("tolerance", "")).startswith("-"):
        detail = "must be greater than or equal to 0"
        where = f"{field}.tolerance"
        causes.append(invalid(where, shown(rules["tolerance"]), detail))
    return causes


def _validate_policy(policy: JSON, field: str) -> list[Cause]:
    causes = []
    kind = policy.get("type", "")
    if kind not in _POLICY_TYPES:
        causes.append(not_supported(f"{field}.type", shown(kind), _POLICY_TYPES))
    value, period = policy.get("value", 0), policy.get("periodSeconds", 0)
    if value <= 0:
        causes.append(invalid(f"{field}.value", shown(value), _POSITIVE))
    if period <= 0:
        causes.append(invalid(f"{field}.periodSeconds", shown(period), _POSITIVE))
    if period > _LONGEST_PERIOD:
        detail = f"must be less than or equal to {_LONGEST_PERIOD}"
        causes.append(invalid(f"{field}.periodSeconds", shown(period), detail))
    return causes
