"""ResourceClaim: devices that pods ask for."""

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

from .claim_defaults import default_devices


def _not_allocated(status: JSON, _: JSON) -> bool:
    return not status.get("allocation")


def _both_allocated(status: JSON, old: JSON) -> bool:
    return bool(status.get("allocation") and old.get("allocation"))


_STATUS: Final = table(
    """
    status:
      reservedFor[]:
        uid: unique pointer at self
      reservedFor: most 256
      reservedFor: forbidden filled if not_allocated
        "may not be specified when `allocated` is not set"
    """,
    _not_allocated,
)
_STATUS_UPDATE: Final = table(
    """
    status change:
      allocation: immutable if both_allocated
    """,
    _both_allocated,
)


class ResourceClaimStrategy(Strategy):
    """Fills in how many devices are wanted; the spec never changes."""

    returns_deleted: ClassVar = True
    update_rules: ClassVar = table("spec: immutable")
    status_rules: ClassVar = _STATUS
    status_update_rules: ClassVar = _STATUS_UPDATE
    columns: ClassVar = (NAME, Column("State"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the allocation mode and the number of devices."""
        default_devices(obj.setdefault("spec", {}))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        status, is_deleted = obj["status"], "deletionTimestamp" in obj["metadata"]
        states = ["deleted"] if is_deleted else []
        if status.get("allocation"):
            states.append("allocated")
            states += ["reserved"] if status.get("reservedFor") else []
        elif not is_deleted:
            states.append("pending")
        return [name_of(obj), ",".join(states), age(obj, now)]


KIND: Final = kind_of("resource.k8s.io/v1", "resourceclaims", ResourceClaimStrategy())
