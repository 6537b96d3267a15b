"""VolumeAttributesClass: attributes that volumes of a driver can have."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.storage_validation import (
    validate_parameters,
    validate_provisioner,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    required,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)


class VolumeAttributesClassStrategy(Strategy):
    """The driver and the parameters never change."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("DriverName"), AGE)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the driver and the parameters."""
        parameters = obj.get("parameters") or {}
        causes = validate_provisioner(obj["driverName"], "driverName")
        causes += validate_parameters(parameters, "parameters")
        if not parameters:
            why = "must contain at least one key/value pair"
            causes.append(required("parameters", why))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that driver and parameters stay."""
        return [
            forbidden_field(name, f"updates to {name} are forbidden.")
            for name in ("driverName", "parameters")
            if old.get(name) != new.get(name)
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj["driverName"], age(obj, now)]


KIND: Final = kind_of(
    "storage.k8s.io/v1", "volumeattributesclasses", VolumeAttributesClassStrategy()
)
