"""ValidatingAdmissionPolicy: is stored, and never evaluated.

Its expressions are CEL. They are checked as texts only: nothing here parses CEL.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.admissionregistration.matching import (
    apply_match_defaults,
    validate_match,
)
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.names import validate_qualified_name
from controller_manager.devcluster.server.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]

_FAILURE_POLICIES: Final = ("Fail", "Ignore")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")


class ValidatingAdmissionPolicyStrategy(Strategy):
    """Fills in the failure policy and the match."""

    counts_generations: ClassVar = True
    models: ClassVar = (
        "V1AuditAnnotation",
        "V1ExpressionWarning",
        "V1MatchCondition",
        "V1MatchResources",
        "V1NamedRule",
        "V1ParamKind",
        "V1TypeChecking",
        "V1Validation",
        "V1Variable",
    )
    columns: ClassVar = (
        NAME,
        Column("Validations", "integer"),
        Column("ParamKind"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in what is not given."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if "matchConstraints" in spec:
            apply_match_defaults(spec["matchConstraints"])
        obj.setdefault("status", {})

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check all but the expressions."""
        spec = obj["spec"]
        causes = []
        if spec["failurePolicy"] not in _FAILURE_POLICIES:
            value = shown(spec["failurePolicy"])
            causes.append(not_supported("spec.failurePolicy", value, _FAILURE_POLICIES))
        causes += _validate_param_kind(spec.get("paramKind"))
        match, field = spec.get("matchConstraints"), "spec.matchConstraints"
        if match is None:
            causes.append(required(field))
        else:
            causes += validate_match(match, field, needs_rules=True)
        return causes + _validate_expressions(spec)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        kind = spec.get("paramKind")
        shown_kind = f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"
        count = len(spec.get("validations", []))
        return [name_of(obj), count, shown_kind, age(obj, now)]


def _validate_param_kind(kind: JSON | None) -> list[Cause]:
    if kind is None:
        return []
    return [
        required(f"spec.paramKind.{name}")
        for name in ("apiVersion", "kind")
        if not kind.get(name)
    ]


def _validate_expressions(spec: JSON) -> list[Cause]:
    validations = spec.get("validations", [])
    annotations = spec.get("auditAnnotations", [])
    causes: list[Cause] = []
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        causes = [
            required(f"spec.{name}", detail)
            for name in ("validations", "auditAnnotations")
        ]
    for number, validation in enumerate(validations):
        causes += _validate_validation(validation, f"spec.validations[{number}]")
    for name, text in (("matchConditions", "expression"), ("variables", "expression")):
        causes += _validate_named(spec.get(name, []), f"spec.{name}", text)
    keys = [each.get("key", "") for each in annotations]
    for number, annotation in enumerate(annotations):
        field = f"spec.auditAnnotations[{number}]"
        key = annotation.get("key", "")
        causes += validate_qualified_name(key, f"{field}.key")
        if key in keys[:number]:
            causes.append(duplicate(f"{field}.key", shown(key)))
        if not annotation.get("valueExpression", "").strip():
            detail = "valueExpression is not specified"
            causes.append(required(f"{field}.valueExpression", detail))
    return causes


def _validate_validation(validation: JSON, field: str) -> list[Cause]:
    causes = []
    if not validation.get("expression", "").strip():
        detail = "expression is not specified"
        causes.append(required(f"{field}.expression", detail))
    if "message" in validation:
        message = validation["message"]
        if not message.strip():
            detail = "message must be non-empty if specified"
            causes.append(invalid(f"{field}.message", shown(message), detail))
        elif "\n" in message.strip():
            detail = "message must not contain line breaks"
            causes.append(invalid(f"{field}.message", shown(message), detail))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        causes.append(not_supported(f"{field}.reason", shown(reason), _REASONS))
    return causes


def _validate_named(items: list[JSON], field: str, text: str) -> list[Cause]:
    """Check the names and texts of match conditions or variables."""
    causes = []
    names = [each.get("name", "") for each in items]
    for number, item in enumerate(items):
        where, name = f"{field}[{number}]", names[number]
        if not name:
            causes.append(required(f"{where}.name"))
        elif name in names[:number]:
            causes.append(duplicate(f"{where}.name", shown(name)))
        if not item.get(text, "").strip():
            causes.append(required(f"{where}.{text}"))
    return causes


KIND: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    namespaced=False,
    model="V1ValidatingAdmissionPolicy",
    categories=("api-extensions",),
    subresources=(status_of("ValidatingAdmissionPolicy"),),
    strategy=ValidatingAdmissionPolicyStrategy(),
)
