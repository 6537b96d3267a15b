"""Validation of an admission policy's expressions.

Upstream: pkg/apis/admissionregistration/validation.
"""

import re
from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.cel.types import Type
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)

from .compilation import declared, problem_of, type_of
from .match_conditions import validate_conditions

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_PATCHES: Final = {
    "ApplyConfiguration": ("applyConfiguration", "Object"),
    "JSONPatch": ("jsonPatch", "list(JSONPatch)"),
}
"""The field of each type of patches, and the type of its expression."""

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_NO_EXPRESSION: Final = "expression is not specified"
_EMPTY: Final = "must be non-empty if specified"


def validate_mutations(spec: JSON) -> list[Cause]:
    """Check the expressions in the spec of a MutatingAdmissionPolicy.

    Upstream: validateMutatingAdmissionPolicySpec.
    """
    params, conditions = "paramKind" in spec, spec.get("matchConditions", [])
    causes = validate_conditions(conditions, "spec.matchConditions", params=params)
    found, known = _validate_variables(spec, params=params)
    causes += found
    names = declared(params=params, variables=known or None, patches=True)
    mutations = spec.get("mutations", [])
    if not mutations:
        detail = "mutations must contain at least one item"
        causes.append(required("spec.mutations", detail))
    for number, mutation in enumerate(mutations):
        causes += _validate_mutation(mutation, f"spec.mutations[{number}]", names)
    return causes


def _validate_mutation(
    mutation: JSON, field: str, names: Mapping[str, Type]
) -> list[Cause]:
    kind = mutation.get("patchType")
    if not kind:
        return [required(f"{field}.patchType")]
    if kind not in _PATCHES:
        where = f"{field}.patchType"
        return [not_supported(where, shown(kind), tuple(_PATCHES))]
    causes, (own, wanted) = [], _PATCHES[kind]
    patch = mutation.get(own)
    if patch is None:
        detail = f"must be specified when patchType is {kind}"
        causes.append(required(f"{field}.{own}", detail))
    elif _is_empty(patch, "expression"):
        causes.append(required(f"{field}.{own}.expression"))
    else:
        causes += _compiled(patch, "expression", f"{field}.{own}", names, wanted)
    for other, (name, _) in _PATCHES.items():
        if other != kind and name in mutation:
            detail = f"must not be specified when patchType is {kind}"
            value = shown(mutation[name])
            causes.append(invalid(f"{field}.{name}", value, detail))
    return causes


def validate_expressions(spec: JSON, policy: str) -> list[Cause]:
    """Check the expressions of the ValidatingAdmissionPolicy named `policy`."""
    params, validations = "paramKind" in spec, spec.get("validations", [])
    annotations = spec.get("auditAnnotations", [])
    conditions = spec.get("matchConditions", [])
    causes = validate_conditions(conditions, "spec.matchConditions", params=params)
    found, known = _validate_variables(spec, params=params)
    causes += found
    names = declared(params=params, variables=known or None)
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        causes += [
            required(f"spec.{name}", detail)
            for name in ("validations", "auditAnnotations")
        ]
    for number, validation in enumerate(validations):
        field = f"spec.validations[{number}]"
        causes += _validate_validation(validation, field, names)
    keys = [each.get("key", "") for each in annotations]
    for number, annotation in enumerate(annotations):
        field = f"spec.auditAnnotations[{number}]"
        causes += _validate_annotation(annotation, policy, field, names)
        if keys[number] in keys[:number]:
            causes.append(duplicate(f"{field}.key", shown(keys[number])))
    return causes


def _is_empty(obj: JSON, name: str) -> bool:
    return not obj.get(name, "").strip()


def _validate_variables(
    spec: JSON, *, params: bool
) -> tuple[list[Cause], dict[str, Type]]:
    """Check the variables; return their errors and their types."""
    causes, known = list[Cause](), dict[str, Type]()
    for number, variable in enumerate(spec.get("variables", [])):
        names = declared(params=params, variables=known)
        causes += _validate_variable(variable, f"spec.variables[{number}]", names)
        known[variable.get("name", "")] = type_of(variable.get("expression", ""), names)
    return causes, known


def _validate_variable(
    variable: JSON, field: str, names: Mapping[str, Type]
) -> list[Cause]:
    causes, name = [], variable.get("name", "")
    if _is_empty(variable, "name"):
        causes.append(required(f"{field}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name):
        detail = "name is not a valid CEL identifier"
        causes.append(invalid(f"{field}.name", shown(name), detail))
    if _is_empty(variable, "expression"):
        causes.append(required(f"{field}.expression", _NO_EXPRESSION))
    else:
        causes += _compiled(variable, "expression", field, names)
    return causes


def _compiled(
    obj: JSON, name: str, field: str, names: Mapping[str, Type], *wanted: str
) -> list[Cause]:
    problem = problem_of(obj[name], names, *wanted)
    return [invalid(f"{field}.{name}", shown(obj[name]), problem)] if problem else []


def _validate_validation(
    validation: JSON, field: str, names: Mapping[str, Type]
) -> list[Cause]:
    causes = []
    if _is_empty(validation, "expression"):
        causes.append(required(f"{field}.expression", _NO_EXPRESSION))
    else:
        causes += _compiled(validation, "expression", field, names, "bool")
    if not _is_empty(validation, "messageExpression"):
        without = {k: v for k, v in names.items() if k != "authorizer"}
        causes += _compiled(validation, "messageExpression", field, without, "string")
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


def _validate_annotation(
    annotation: JSON, policy: str, field: str, names: Mapping[str, Type]
) -> list[Cause]:
    key = annotation.get("key", "")
    causes = validate_qualified_name(f"{policy}/{key}", f"{field}.key")
    if _is_empty(annotation, "valueExpression"):
        detail = "valueExpression is not specified"
        causes.append(required(f"{field}.valueExpression", detail))
    else:
        wanted = ("string", "null_type")
        causes += _compiled(annotation, "valueExpression", field, names, *wanted)
    return causes
