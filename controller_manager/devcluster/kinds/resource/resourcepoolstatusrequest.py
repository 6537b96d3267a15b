"""ResourcePoolStatusRequest: asks how many devices of a driver are available."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.condition_validation import validate_conditions
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    validate_unchanged,
)

from .device_validation import validate_driver, validate_pool

_HIGHEST_LIMIT: Final = 1000
_COUNTED: Final = (
    "totalDevices",
    "availableDevices",
    "allocatedDevices",
    "unavailableDevices",
)


class ResourcePoolStatusRequestStrategy(Strategy):
    """The spec is immutable, and the status is written once."""

    columns: ClassVar = (
        NAME,
        Column("Driver"),
        Column("Total", "integer"),
        Column("Available", "integer"),
        Column("Allocated", "integer"),
        Column("Unavailable", "integer"),
        Column("Errors", "integer"),
        AGE,
    )

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the driver, the pool and the limit."""
        spec = obj["spec"]
        causes = list(validate_driver(spec["driver"], "spec.driver"))
        if (pool := spec.get("poolName")) is not None:
            causes += validate_pool(pool, "spec.poolName")
        if not 1 <= (limit := spec.get("limit", 1)) <= _HIGHEST_LIMIT:
            why = f"must be between 1 and {_HIGHEST_LIMIT}, inclusive"
            causes.append(invalid("spec.limit", shown(limit), why))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec does not change."""
        fields = ("driver", "poolName", "limit")
        return validate_unchanged(old["spec"], new["spec"], "spec", *fields)

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the conditions."""
        conditions = obj.get("status", {}).get("conditions", ())
        return list(validate_conditions(conditions, "status.conditions"))

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the status does not change."""
        before, after = old.get("status"), new.get("status")
        if not before or before == after:
            return ()
        return (invalid("status", shown(after), IMMUTABLE),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table, with sums over the pools."""
        pools = obj.get("status", {}).get("pools", ())
        sums = [sum(each.get(name, 0) for each in pools) for name in _COUNTED]
        errors = sum("validationError" in each for each in pools)
        driver = obj["spec"]["driver"]
        return [name_of(obj), driver, *sums, errors, age(obj, now)]


KIND: Final = kind_of(
    "resource.k8s.io/v1alpha3",
    "resourcepoolstatusrequests",
    ResourcePoolStatusRequestStrategy(),
)
