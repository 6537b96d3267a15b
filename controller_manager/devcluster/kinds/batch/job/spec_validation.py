"""Validation of the spec of a job, and of a cron job's template (batch/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.domain_paths import (
    validate_domain_prefixed_path,
)
from controller_manager.devcluster.kinds.field_values import validate_not_negative
from controller_manager.devcluster.kinds.workload_validation import (
    validate_pod_template,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
)

from .policies import (
    validate_failure_policy,
    validate_replacement_policy,
    validate_success_policy,
)

_INDEXED: Final = "Indexed"
_NUMBERS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MOST_PARALLEL: Final = 100_000
_MOST_FAILED: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_LIMIT_FOR_MANY: Final = 10_000
_LONGEST_MANAGER: Final = 63


def validate_job_spec(spec: JSON, field: str) -> list[Cause]:
    """Check a spec, except its selector."""
    causes = validate_not_negative(spec, *_NUMBERS, field=field)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        detail = "when maxFailedIndexes is specified"
        causes.append(required(f"{field}.backoffLimitPerIndex", detail))
    if "managedBy" in spec:
        causes += _manager(spec["managedBy"], f"{field}.managedBy")
    causes += _completion_mode(spec, field)
    if "podFailurePolicy" in spec:
        causes += validate_failure_policy(spec, f"{field}.podFailurePolicy")
    if "successPolicy" in spec:
        causes += validate_success_policy(spec, f"{field}.successPolicy")
    causes += validate_replacement_policy(spec, f"{field}.podReplacementPolicy")
    causes += validate_pod_template(spec["template"], f"{field}.template")
    return causes + _restart_policy(spec, f"{field}.template.spec.restartPolicy")


def _completion_mode(spec: JSON, field: str) -> list[Cause]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode == _INDEXED:
        return _indexed(spec, field)
    causes = []
    if mode != "NonIndexed":
        supported = ("NonIndexed", _INDEXED)
        where = f"{field}.completionMode"
        return [not_supported(where, shown(mode), supported)]
    for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if name in spec:
            detail = "requires indexed completion mode"
            causes.append(invalid(f"{field}.{name}", shown(spec[name]), detail))
    return causes


def _indexed(spec: JSON, field: str) -> list[Cause]:
    completions = spec.get("completions")
    causes = []
    if completions is None:
        detail = f"when completion mode is {_INDEXED}"
        causes.append(required(f"{field}.completions", detail))
    parallelism = f"{field}.parallelism"
    detail = f"when completion mode is {_INDEXED}"
    causes += _at_most(spec, "parallelism", parallelism, _MOST_PARALLEL, detail)
    failed, where = spec.get("maxFailedIndexes"), f"{field}.maxFailedIndexes"
    if completions is not None and failed is not None and failed > completions:
        detail = "must be less than or equal to completions"
        causes.append(invalid(where, shown(failed), detail))
    causes += _at_most(spec, "maxFailedIndexes", where, _MOST_FAILED)
    if (completions or 0) > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        causes += _many_completions(spec, field)
    return causes


def _many_completions(spec: JSON, field: str) -> list[Cause]:
    causes = []
    if "maxFailedIndexes" not in spec:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        causes.append(required(f"{field}.maxFailedIndexes", detail))
    detail = (
        f"when completions are above {_MANY_COMPLETIONS} and used with backoff limit "
        "per index"
    )
    for name in ("parallelism", "maxFailedIndexes"):
        causes += _at_most(spec, name, f"{field}.{name}", _LIMIT_FOR_MANY, detail)
    return causes


def _at_most(
    spec: JSON, name: str, field: str, most: int, detail: str = ""
) -> list[Cause]:
    value = spec.get(name)
    if value is None or value <= most:
        return []
    text = f"must be less than or equal to {most} {detail}".rstrip()
    return [invalid(field, shown(value), text)]


def _manager(name: str, field: str) -> list[Cause]:
    """Check the name of a controller."""
    causes = validate_domain_prefixed_path(name, field)
    if len(name) > _LONGEST_MANAGER:
        causes.append(too_long(field, _LONGEST_MANAGER))
    return causes


def _restart_policy(spec: JSON, field: str) -> list[Cause]:
    policy = spec["template"]["spec"].get("restartPolicy", "Always")
    if policy == "Always":
        return [required(field, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(field, shown(policy), ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(field, shown(policy), detail)]
    return []
