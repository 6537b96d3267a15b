"""ValidatingAdmissionPolicy: expressions that check the object of a write."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .expressions import validate_expressions
from .policy_fields import (
    apply_policy_defaults,
    param_kind_text,
    validate_policy_fields,
)


class ValidatingAdmissionPolicyStrategy(Strategy):
    """Fills in the defaults of a policy, and checks its expressions."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Validations", "integer"),
        Column("ParamKind"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the failure policy and the match constraints."""
        apply_policy_defaults(obj)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the match and the expressions."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        return validate_policy_fields(spec) + validate_expressions(spec, name)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        count = len(spec.get("validations", []))
        return [name_of(obj), count, param_kind_text(spec), age(obj, now)]


KIND: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicies",
    ValidatingAdmissionPolicyStrategy(),
)
