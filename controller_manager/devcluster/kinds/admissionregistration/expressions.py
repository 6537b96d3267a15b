"""Validation of an admission policy's expressions, but for what they mean.

Upstream: pkg/apis/admissionregistration/validation. It compiles the expressions, too.
"""

import re
from typing import Any, Final

from controller_manager.devcluster.server.names import validate_qualified_name
from controller_manager.devcluster.server.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
    too_many,
)

JSON = dict[str, Any]

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_MOST_CONDITIONS: Final = 64
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_NO_EXPRESSION: Final = "expression is not specified"
_EMPTY: Final = "must be non-empty if specified"


def validate_expressions(spec: JSON, policy: str) -> list[Cause]:
    """Check what has expressions in the spec of the policy with the name `policy`."""
    validations = spec.get("validations", [])
    annotations = spec.get("auditAnnotations", [])
    causes: list[Cause] = []
    for number, variable in enumerate(spec.get("variables", [])):
        causes += _validate_variable(variable, f"spec.variables[{number}]")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        causes += [
            required(f"spec.{name}", detail)
            for name in ("validations", "auditAnnotations")
        ]
    for number, validation in enumerate(validations):
        causes += _validate_validation(validation, f"spec.validations[{number}]")
    causes += _validate_conditions(spec.get("matchConditions", []))
    keys = [each.get("key", "") for each in annotations]
    for number, annotation in enumerate(annotations):
        field = f"spec.auditAnnotations[{number}]"
        causes += _validate_annotation(annotation, policy, field)
        if keys[number] in keys[:number]:
            causes.append(duplicate(f"{field}.key", shown(keys[number])))
    return causes


def _is_empty(obj: JSON, name: str) -> bool:
    return not obj.get(name, "").strip()


def _validate_variable(variable: JSON, field: str) -> list[Cause]:
    causes, name = [], variable.get("name", "")
    if _is_empty(variable, "name"):
        causes.append(required(f"{field}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name):
        detail = "name is not a valid CEL identifier"
        causes.append(invalid(f"{field}.name", shown(name), detail))
    if _is_empty(variable, "expression"):
        causes.append(required(f"{field}.expression", _NO_EXPRESSION))
    return causes


def _validate_validation(validation: JSON, field: str) -> list[Cause]:
    causes = []
    if _is_empty(validation, "expression"):
        causes.append(required(f"{field}.expression", _NO_EXPRESSION))
    for name, detail in (
        ("messageExpression", _EMPTY),
        ("message", f"message {_EMPTY}"),
    ):
        if name in validation and _is_empty(validation, name):
            value = shown(validation[name])
            causes.append(invalid(f"{field}.{name}", value, detail))
    message = validation.get("message", "")
    if re.search(r"[\n\r]", message.strip()):
        detail = "message must not contain line breaks"
        causes.append(invalid(f"{field}.message", shown(message), detail))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", shown(reason), _REASONS))
    return causes


def _validate_conditions(conditions: list[JSON]) -> list[Cause]:
    causes = []
    if len(conditions) > _MOST_CONDITIONS:
        most = _MOST_CONDITIONS
        causes.append(too_many("spec.matchConditions", len(conditions), most))
    names = [each.get("name", "") for each in conditions]
    for number, condition in enumerate(conditions):
        field, name = f"spec.matchConditions[{number}]", names[number]
        if _is_empty(condition, "expression"):
            causes.append(required(f"{field}.expression"))
        if not name:
            causes.append(required(f"{field}.name"))
            continue
        causes += validate_qualified_name(name, f"{field}.name")
        if name in names[:number]:
            causes.append(duplicate(f"{field}.name", shown(name)))
    return causes


def _validate_annotation(annotation: JSON, policy: str, field: str) -> list[Cause]:
    key = annotation.get("key", "")
    causes = validate_qualified_name(f"{policy}/{key}", f"{field}.key")
    if _is_empty(annotation, "valueExpression"):
        detail = "valueExpression is not specified"
        causes.append(required(f"{field}.valueExpression", detail))
    return causes
