"""ResourcePoolStatusRequest: asks how many devices of a driver are available."""

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
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

from .device_validation import validate_pool

_COUNTED: Final = (
    "totalDevices",
    "availableDevices",
    "allocatedDevices",
    "unavailableDevices",
)


def _had_status(_: JSON, old: JSON) -> bool:
    return bool(old.get("status"))


_RULES: Final = table(
    """
    spec:
      driver: driver default empty
      poolName: pool pointer
      limit: range 1 1000
    """,
    validate_pool,
)
_UPDATE: Final = table(
    """
    spec change:
      driver, poolName, limit: immutable
    """
)
_STATUS: Final = table(
    """
    status:
      include CONDITIONS
    """,
    CONDITIONS=CONDITIONS,
)


class ResourcePoolStatusRequestStrategy(Strategy):
    """The spec is immutable, and the status is written once."""

    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    status_rules: ClassVar = _STATUS
    status_update_rules: ClassVar = table(
        "status: immutable if had_status", _had_status
    )
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
