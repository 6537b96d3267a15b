"""VolumeAttributesClass: attributes that volumes of a driver can have."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.text import table

from .validation import validate_parameters, validate_provisioner

_RULES: Final = table(
    """
    driverName: provisioner default empty
    parameters: parameters
    parameters: required "must contain at least one key/value pair"
    """,
    validate_provisioner,
    validate_parameters,
)
_UPDATE: Final = table(
    """
    driverName: kept "updates to driverName are forbidden."
    parameters: kept "updates to parameters are forbidden."
    """
)


class VolumeAttributesClassStrategy(Strategy):
    """The driver and the parameters never change."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("DriverName"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj["driverName"], age(obj, now)]


KIND: Final = kind_of(
    "storage.k8s.io/v1", "volumeattributesclasses", VolumeAttributesClassStrategy()
)
