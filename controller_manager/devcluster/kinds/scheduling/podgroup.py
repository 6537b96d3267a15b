"""PodGroup: pods of a group; this scheduler does not schedule them together."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.kinds.condition_validation import validate_conditions
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.validation.field_values import validate_unchanged

from .policy import validate_scheduling_policy


class PodGroupStrategy(NameAndAge):
    """The spec never changes."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the mode of disruptions."""
        obj.setdefault("spec", {}).setdefault("disruptionMode", "Pod")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that the group has one scheduling policy."""
        return validate_scheduling_policy(
            obj["spec"]["schedulingPolicy"], "spec.schedulingPolicy"
        )

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec does not change."""
        return validate_unchanged(
            old["spec"], new["spec"], "spec", *sorted({*old["spec"], *new["spec"]})
        )

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the conditions."""
        conditions = obj["status"].get("conditions", ())
        return list(validate_conditions(conditions, "status.conditions"))


KIND: Final = kind_of("scheduling.k8s.io/v1alpha2", "podgroups", PodGroupStrategy())
