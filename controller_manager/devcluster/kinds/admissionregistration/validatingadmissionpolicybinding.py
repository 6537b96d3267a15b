"""ValidatingAdmissionPolicyBinding: where a policy holds, and what it does."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.admissionregistration.matching import (
    apply_match_defaults,
    validate_match,
)
from controller_manager.devcluster.kinds.admissionregistration.param_references import (
    reference_text,
    validate_reference,
)
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.names import (
    validate_subdomain,
)
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

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure "
    "information in the API response and headers serves no purpose)"
)


class ValidatingAdmissionPolicyBindingStrategy(Strategy):
    """Fills in the match."""

    counts_generations: ClassVar = True
    models: ClassVar = ("V1MatchResources", "V1NamedRule", "V1ParamRef")
    columns: ClassVar = (NAME, Column("PolicyName"), Column("ParamRef"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in what is not given."""
        spec = obj.setdefault("spec", {})
        if "matchResources" in spec:
            apply_match_defaults(spec["matchResources"])

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the policy's name, the parameters, the match and the actions."""
        spec = obj["spec"]
        causes: list[Cause] = []
        if name := spec.get("policyName"):
            causes += validate_subdomain(name, "spec.policyName")
        else:
            causes.append(required("spec.policyName"))
        if "paramRef" in spec:
            causes += validate_reference(spec["paramRef"], "spec.paramRef")
        if "matchResources" in spec:
            match, field = spec["matchResources"], "spec.matchResources"
            causes += validate_match(match, field, needs_rules=False)
        return causes + _validate_actions(spec.get("validationActions", []))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        return [
            name_of(obj),
            spec["policyName"],
            reference_text(spec.get("paramRef")),
            age(obj, now),
        ]


def _validate_actions(actions: list[str]) -> list[Cause]:
    field = "spec.validationActions"
    if not actions:
        return [required(field, "at least one validation action is required")]
    causes = []
    for number, action in enumerate(actions):
        where = f"{field}[{number}]"
        if action not in _ACTIONS:
            causes.append(not_supported(where, shown(action), _ACTIONS))
        if action in actions[:number]:
            causes.append(duplicate(where, shown(action)))
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid(field, shown(actions), _DENY_AND_WARN))
    return causes


KIND: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
    model="V1ValidatingAdmissionPolicyBinding",
    categories=("api-extensions",),
    strategy=ValidatingAdmissionPolicyBindingStrategy(),
)
