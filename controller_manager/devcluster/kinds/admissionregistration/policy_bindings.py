"""The fields that both kinds of bindings of admission policies have."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import Cause, required
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .matching import apply_match_defaults, validate_match
from .param_references import reference_text, validate_reference


class PolicyBindingStrategy(Strategy):
    """Fills in the match; checks the policy's name, the parameters and the match."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("PolicyName"), Column("ParamRef"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the match constraints."""
        spec = obj.setdefault("spec", {})
        if "matchResources" in spec:
            apply_match_defaults(spec["matchResources"])

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the policy's name, the parameters and the match."""
        spec, causes = obj["spec"], list[Cause]()
        if name := spec.get("policyName"):
            causes += validate_subdomain(name, "spec.policyName")
        else:
            causes.append(required("spec.policyName"))
        if "paramRef" in spec:
            causes += validate_reference(spec["paramRef"], "spec.paramRef")
        if "matchResources" in spec:
            match, field = spec["matchResources"], "spec.matchResources"
            causes += validate_match(match, field, needs_rules=False)
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        reference = reference_text(spec.get("paramRef"))
        return [name_of(obj), spec["policyName"], reference, age(obj, now)]
