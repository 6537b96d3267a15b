"""MutatingAdmissionPolicy: expressions that change the object of a write."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .expressions import validate_mutations
from .matching import validate_mutable
from .policy_fields import (
    apply_policy_defaults,
    param_kind_text,
    validate_policy_fields,
)

_REINVOCATIONS: Final = ("Never", "IfNeeded")


class MutatingAdmissionPolicyStrategy(Strategy):
    """Fills in the defaults of a policy, and checks its expressions."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Mutations", "integer"),
        Column("ParamKind"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the failure policy and the match constraints."""
        apply_policy_defaults(obj)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the match and the expressions."""
        spec = obj["spec"]
        causes = validate_policy_fields(spec)
        match = spec.get("matchConstraints") or {}
        causes += validate_mutable(match, "spec.matchConstraints")
        causes += validate_mutations(spec)
        policy, field = spec.get("reinvocationPolicy"), "spec.reinvocationPolicy"
        if not policy:
            causes.append(required(field))
        elif policy not in _REINVOCATIONS:
            causes.append(not_supported(field, shown(policy), _REINVOCATIONS))
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        count = len(spec.get("mutations", []))
        return [name_of(obj), count, param_kind_text(spec), age(obj, now)]


KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicies",
    MutatingAdmissionPolicyStrategy(),
)
