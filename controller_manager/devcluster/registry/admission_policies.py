"""The kinds of admission policies, and of their bindings.

Upstream: pkg/apis/admissionregistration/validation.
"""

import re
from collections.abc import Iterator, Mapping
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
from controller_manager.devcluster.validation import rules
from controller_manager.devcluster.validation.text import table

from . import admission_webhooks
from .apiextensions.schemas.rules import checked
from .kinds import kind_of, selector_text

# The resources that a policy matches

_storing: Final = rules.member(("*", "CONNECT", "CREATE", "UPDATE"))


def _only_stored(match: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that rules match only operations that store an object."""
    for rule in match.get("resourceRules", ()):
        for operation in rule.get("operations", ()):
            yield from _storing(operation, f"{path}resourceRules.operations")


_SELECTED: Final = table("""
    matchPolicy: enum Equivalent Exact default null
    namespaceSelector, objectSelector: selector
    """)
_NAMED: Final = table("""
    resourceNames[]: path-segment unique
    include admission_webhooks.RULE
    """)
_RESOURCES: Final = table("""
    resourceRules[]:
      include NAMED
    excludeResourceRules[]:
      include NAMED
    """)
_MATCH_DEFAULTS: Final = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules[]": {"scope": "*"},
    "excludeResourceRules[]": {"scope": "*"},
}

# Expressions

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_PATCHES: Final = {
    "ApplyConfiguration": ("applyConfiguration", "Object"),
    "JSONPatch": ("jsonPatch", "list(JSONPatch)"),
}
"""The field of each type of patches, and the type of its expression."""

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_NO_EXPRESSION: Final = "expression is not specified"
_EMPTY: Final = "must be non-empty if specified"


def _mutations(spec: JSON, _: str, __: JSON) -> list[Cause]:
    params = "paramKind" in spec
    causes, known = _validate_variables(spec, params=params)
    names = admission_webhooks.declared(
        params=params, variables=known or None, patches=True
    )
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


def _validations(obj: JSON, _: str, __: JSON) -> list[Cause]:
    spec, policy = obj["spec"], obj["metadata"].get("name", "")
    params, validations = "paramKind" in spec, spec.get("validations", [])
    annotations = spec.get("auditAnnotations", [])
    causes, known = _validate_variables(spec, params=params)
    names = admission_webhooks.declared(params=params, variables=known or None)
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
        names = admission_webhooks.declared(params=params, variables=known)
        causes += _validate_variable(variable, f"spec.variables[{number}]", names)
        _, _, known[variable.get("name", "")] = checked(
            variable.get("expression", ""), names
        )
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
    problem = admission_webhooks.problem_of(obj[name], names, *wanted)
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


# Policies

_POLICY: Final = table("""
    failurePolicy: enum Fail Ignore
    paramKind:
      apiVersion, kind: required
    matchConstraints: required pointer
    matchConstraints:
      include SELECTED
      resourceRules: required
      include RESOURCES
    """)
_POLICY_DEFAULTS: Final = {
    "spec": {"failurePolicy": "Fail", "matchConstraints": _MATCH_DEFAULTS}
}

VALIDATING_POLICIES: Final = kind_of(
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    counts_generations=True,
    defaults=_POLICY_DEFAULTS,
    rules="""
        spec:
          include POLICY admission_webhooks.MATCH_CONDITIONS
        hook validations
        """,
    printer="""
        Name
        Validations integer: count .spec.validations
        ParamKind: {.spec.paramKind.apiVersion}/{.spec.paramKind.kind} or <unset>
        Age
        """,
)
MUTATING_POLICIES: Final = kind_of(
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    counts_generations=True,
    defaults=_POLICY_DEFAULTS,
    rules="""
        spec:
          include POLICY
          matchConstraints:
            hook only_stored
          include admission_webhooks.MATCH_CONDITIONS
          hook mutations
          reinvocationPolicy: required enum Never IfNeeded filled
        """,
    printer="""
        Name
        Mutations integer: count .spec.mutations
        ParamKind: {.spec.paramKind.apiVersion}/{.spec.paramKind.kind} or <unset>
        Age
        """,
)

# Bindings


def _reference(binding: JSON) -> str:
    reference = binding["spec"].get("paramRef")
    if not reference:
        return "<unset>"
    if name := reference.get("name"):
        namespace = reference.get("namespace")
        return f"{namespace}/{name}" if namespace else str(name)
    return selector_text(reference.get("selector"))


def _useful_actions(actions: list[str], _: str) -> Iterator[str]:
    if {"Deny", "Warn"} <= {*actions}:
        yield (
            "must not contain both Deny and Warn (repeating the same validation "
            "failure information in the API response and headers serves no purpose)"
        )


_BINDING: Final = table("""
    policyName: required subdomain
    paramRef:
      name: path-segment
      selector: selector
      name: required at self if lacks selector
        "one of name or selector must be specified"
      when has name and has selector:
        name, selector: forbidden "name and selector are mutually exclusive"
      parameterNotFoundAction: required pointer
      parameterNotFoundAction: enum Deny Allow
    matchResources:
      include SELECTED RESOURCES
    """)
VALIDATING_BINDINGS: Final = kind_of(
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    counts_generations=True,
    defaults={"spec": {"matchResources": _MATCH_DEFAULTS}},
    printer="Name; PolicyName: .spec.policyName; ParamRef: reference; Age",
    rules="""
        spec:
          include BINDING
          validationActions: required "at least one validation action is required"
          validationActions[]: enum Audit Deny Warn unique
          validationActions: useful_actions
        """,
)
MUTATING_BINDINGS: Final = kind_of(
    "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    VALIDATING_BINDINGS.strategy,
    rules="""
        spec:
          include BINDING
          matchResources:
            hook only_stored
        """,
)
