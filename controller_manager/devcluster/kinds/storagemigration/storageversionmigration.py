"""StorageVersionMigration: asks to rewrite all objects of a resource."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.condition_validation import validate_conditions
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column
from controller_manager.devcluster.validation.field_values import validate_unchanged

_ENDS: Final = ("Succeeded", "Failed")


class StorageVersionMigrationStrategy(Strategy):
    """The resource is immutable, and so is the final condition."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Resource"), Column("Status"))

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that there is a resource."""
        if obj["spec"]["resource"].get("resource"):
            return ()
        return (required("spec.resource.resource", "resource is required"),)

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the resource does not change."""
        return validate_unchanged(old["spec"], new["spec"], "spec", "resource")

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the conditions: a migration cannot both succeed and fail."""
        conditions = obj["status"].get("conditions", ())
        causes = list(validate_conditions(conditions, "status.conditions"))
        if all(_is_true(conditions, each) for each in _ENDS):
            why = "Both success and failed conditions cannot be true at the same time"
            causes.append(invalid("status.conditions", shown(conditions), why))
        return causes

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that a set version and a true final condition do not change."""
        causes = []
        before, after = old["status"], new["status"]
        known, version = (each.get("resourceVersion", "") for each in (before, after))
        if version and not version.isdecimal():
            why = "resource version must be a number"
            causes.append(invalid("status.resourceVersion", shown(version), why))
        if known and known != version:
            why = "resourceVersion cannot be updated"
            causes.append(invalid("status.resourceVersion", shown(version), why))
        for end in _ENDS:
            was = _is_true(before.get("conditions", ()), end)
            if was and not _is_true(after.get("conditions", ()), end):
                why = f"{end} condition cannot be set to false once it is true"
                field = "status.conditions"
                causes.append(invalid(field, shown(after.get("conditions")), why))
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table: the last condition that is true counts."""
        del now
        resource = obj["spec"]["resource"]
        name = ".".join(
            each for each in (resource.get("resource"), resource.get("group")) if each
        )
        conditions = obj["status"].get("conditions", ())
        states = ("Succeeded", "Failed", "Running")
        state = next((each for each in states if _is_true(conditions, each)), "")
        return [name_of(obj), name, state]


def _is_true(conditions: Sequence[JSON], name: str) -> bool:
    return any(
        each.get("type") == name and each.get("status") == "True" for each in conditions
    )


KIND: Final = kind_of(
    "storagemigration.k8s.io/v1beta1",
    "storageversionmigrations",
    StorageVersionMigrationStrategy(),
)
