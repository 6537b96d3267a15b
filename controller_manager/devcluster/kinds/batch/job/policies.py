"""Validation of the policies of jobs: failure, success, replacement of pods."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.field_values import validate_not_negative_at
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    invalid_field,
    not_supported,
    required,
    shown,
    too_long,
    too_many,
)

from .index_intervals import parse_indexes, total

_MOST_RULES: Final = 20
_MOST_VALUES: Final = 255
_MOST_PATTERNS: Final = 20
_LONGEST_INDEXES: Final = 64 * 1024
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")


def validate_replacement_policy(spec: JSON, field: str) -> list[Cause]:
    """Check the pod replacement policy: a pod failure policy allows only Failed."""
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENTS
    if policy is None or policy in supported:
        return []
    return [not_supported(field, shown(policy), supported)]


# Failure policy


def validate_failure_policy(spec: JSON, field: str) -> list[Cause]:
    """Check the pod failure policy of a spec that has one."""
    rules = spec["podFailurePolicy"].get("rules", [])
    where = f"{field}.rules"
    causes = []
    if len(rules) > _MOST_RULES:
        causes.append(too_many(where, len(rules), _MOST_RULES))
    pod = spec["template"]["spec"]
    containers = {
        each.get("name")
        for name in ("containers", "initContainers")
        for each in pod.get(name, [])
    }
    for number, rule in enumerate(rules):
        causes += _failure_rule(spec, rule, f"{where}[{number}]", containers)
    return causes


def _failure_rule(
    spec: JSON, rule: JSON, field: str, containers: set[str]
) -> list[Cause]:
    causes = _action(spec, rule.get("action", ""), f"{field}.action")
    exit_codes = rule.get("onExitCodes")
    conditions = rule.get("onPodConditions", [])
    if exit_codes is not None:
        causes += _exit_codes(exit_codes, f"{field}.onExitCodes", containers)
    if conditions:
        causes += _conditions(conditions, f"{field}.onPodConditions")
    if exit_codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        causes.append(invalid_field(field, detail))
    if exit_codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(invalid_field(field, detail))
    return causes


def _action(spec: JSON, action: str, field: str) -> list[Cause]:
    if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        detail = "requires the backoffLimitPerIndex to be set"
        return [invalid(field, shown(action), detail)]
    return _one_of(action, field, _ACTIONS)


def _one_of(value: str, field: str, supported: Sequence[str]) -> list[Cause]:
    """Check a value that is required and one of the supported ones."""
    if not value:
        listed = " ".join(f'"{each}"' for each in supported)
        return [required(field, f"valid values: [{listed}]")]
    if value not in supported:
        return [not_supported(field, shown(value), supported)]
    return []


def _exit_codes(required_codes: JSON, field: str, containers: set[str]) -> list[Cause]:
    operator = required_codes.get("operator", "")
    causes = _one_of(operator, f"{field}.operator", _OPERATORS)
    container = required_codes.get("containerName")
    if container is not None and container not in containers:
        detail = (
            "must be one of the container or initContainer names in the pod template"
        )
        causes.append(invalid(f"{field}.containerName", shown(container), detail))
    values = required_codes.get("values", [])
    return causes + _exit_values(values, operator, f"{field}.values")


def _exit_values(values: list[int], operator: str, field: str) -> list[Cause]:
    causes = []
    if not values:
        causes.append(invalid(field, "null", "at least one value is required"))
    elif len(values) > _MOST_VALUES:
        causes.append(too_many(field, len(values), _MOST_VALUES))
    seen: set[int] = set()
    for number, value in enumerate(values):
        where = f"{field}[{number}]"
        if operator == "In" and value == 0:
            detail = "must not be 0 for the In operator"
            causes.append(invalid(where, shown(value), detail))
        if value in seen:
            causes.append(duplicate(where, shown(value)))
        seen.add(value)
    if any(before > after for before, after in pairwise(values)):
        causes.append(invalid(field, shown(values), "must be ordered"))
    return causes


def _conditions(patterns: list[JSON], field: str) -> list[Cause]:
    causes = []
    if len(patterns) > _MOST_PATTERNS:
        causes.append(too_many(field, len(patterns), _MOST_PATTERNS))
    for number, pattern in enumerate(patterns):
        where = f"{field}[{number}]"
        causes += validate_qualified_name(pattern.get("type", ""), f"{where}.type")
        causes += _one_of(pattern.get("status", ""), f"{where}.status", _STATUSES)
    return causes


# Success policy


def validate_success_policy(spec: JSON, field: str) -> list[Cause]:
    """Check the success policy of a spec that has one."""
    policy = spec["successPolicy"]
    if spec.get("completionMode", "NonIndexed") != "Indexed":
        return [invalid(field, shown(policy), "requires indexed completion mode")]
    rules, where = policy.get("rules", []), f"{field}.rules"
    causes = []
    if not rules:
        detail = (
            "at least one rules must be specified when the successPolicy is specified"
        )
        causes.append(required(where, detail))
    if len(rules) > _MOST_RULES:
        causes.append(too_many(where, len(rules), _MOST_RULES))
    completions = spec.get("completions", 0)
    for number, rule in enumerate(rules):
        causes += _success_rule(rule, f"{where}[{number}]", completions)
    return causes


def _success_rule(rule: JSON, field: str, completions: int) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    causes, number = [], 0
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        causes.append(required(field, detail))
    if indexes is not None:
        number, found = _succeeded_indexes(
            indexes, f"{field}.succeededIndexes", completions
        )
        causes += found
    if count is None:
        return causes
    where = f"{field}.succeededCount"
    causes += validate_not_negative_at(count, where)
    at_most = f"must be less than or equal to {completions}"
    if count > completions:
        detail = f"{at_most} (the number of specified completions)"
        causes.append(invalid(where, shown(count), detail))
    if indexes is not None and count > number:
        detail = (
            f"must be less than or equal to {number} "
            "(the number of indexes in the specified succeededIndexes field)"
        )
        causes.append(invalid(where, shown(count), detail))
    return causes


def _succeeded_indexes(
    text: str, field: str, completions: int
) -> tuple[int, list[Cause]]:
    """Return the number of indexes in a text, and the error if it is malformed."""
    causes = []
    if len(text) > _LONGEST_INDEXES:
        causes.append(too_long(field, _LONGEST_INDEXES))
    try:
        return total(parse_indexes(text, completions)), causes
    except ValueError as error:
        detail = f"error parsing succeededIndexes: {error}"
        return 0, [*causes, invalid(field, shown(text), detail)]
