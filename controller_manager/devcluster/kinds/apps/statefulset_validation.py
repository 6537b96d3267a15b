"""Validation of the spec of a stateful set (apps/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.workload_validation import (
    validate_always_restarts,
    validate_required_selector,
    validate_template_labels,
)
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    percent,
    validate_int_or_percent,
    validate_not_negative,
    validate_not_negative_at,
)
from controller_manager.devcluster.validation.pods import validate_pod_template

_MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_IMMUTABLE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
    "'template', 'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_stateful_set_spec(spec: JSON) -> list[Cause]:
    """Check the policies, numbers, selector and template of a spec."""
    selector = spec.get("selector")
    causes = _pod_management(spec.get("podManagementPolicy", ""))
    causes += _update_strategy(spec["updateStrategy"], "spec.updateStrategy")
    causes += _retention(spec["persistentVolumeClaimRetentionPolicy"])
    causes += validate_not_negative(spec, "replicas", "minReadySeconds")
    start = spec.get("ordinals", {}).get("start", 0)
    causes += validate_not_negative_at(start, "spec.ordinals.start")
    causes += validate_not_negative(spec, "revisionHistoryLimit")
    if name := spec.get("serviceName"):
        causes += validate_label(name, "spec.serviceName")
    causes += validate_required_selector(selector, "statefulset")
    causes += validate_template_labels(spec, selector)
    claims = spec.get("volumeClaimTemplates") or ()
    causes += validate_pod_template(spec["template"], "spec.template", claims)
    return causes + validate_always_restarts(spec, "StatefulSet")


def validate_stateful_set_update(before: JSON, after: JSON) -> list[Cause]:
    """Check that only the few mutable fields of the spec change."""
    if _immutable(before) == _immutable(after):
        return []
    return [forbidden_field("spec", _IMMUTABLE)]


def _immutable(spec: JSON) -> JSON:
    return {name: value for name, value in spec.items() if name not in _MUTABLE}


def _pod_management(policy: str) -> list[Cause]:
    field = "spec.podManagementPolicy"
    if not policy:
        return [required(field)]
    if policy in ("OrderedReady", "Parallel"):
        return []
    return [invalid(field, shown(policy), "must be 'OrderedReady' or 'Parallel'")]


def _update_strategy(strategy: JSON, field: str) -> list[Cause]:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is None:
                return []
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            return [invalid(f"{field}.rollingUpdate", shown(rolling), detail)]
        case "RollingUpdate":
            return _rolling_update(rolling or {}, f"{field}.rollingUpdate")
        case kind:
            value = {"Type": kind, "RollingUpdate": rolling}
            detail = "must be 'RollingUpdate' or 'OnDelete'"
            return [invalid(field, shown(value), detail)]


def _rolling_update(rolling: JSON, field: str) -> list[Cause]:
    partition = rolling.get("partition", 0)
    causes = validate_not_negative_at(partition, f"{field}.partition")
    unavailable = rolling.get("maxUnavailable")
    if unavailable is None:
        return causes
    where = f"{field}.maxUnavailable"
    causes += validate_int_or_percent(unavailable, where)
    if unavailable == 0 or (isinstance(unavailable, str) and not percent(unavailable)):
        causes.append(invalid(where, shown(unavailable), "cannot be 0"))
    if percent(unavailable) > 100:
        detail = "must not be greater than 100%"
        causes.append(invalid(where, shown(unavailable), detail))
    return causes


def _retention(policy: JSON) -> list[Cause]:
    return [
        not_supported(
            f"spec.persistentVolumeClaimRetentionPolicy.{name}",
            shown(policy.get(name, "")),
            ("Retain", "Delete"),
        )
        for name in ("whenDeleted", "whenScaled")
        if policy.get(name) not in ("Retain", "Delete")
    ]
