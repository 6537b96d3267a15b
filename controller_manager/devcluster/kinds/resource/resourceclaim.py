"""ResourceClaim: devices that pods ask for."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    shown,
    too_many,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import IMMUTABLE

from .claim_defaults import default_devices

_MAX_USERS: Final = 256
_NOT_ALLOCATED: Final = "may not be specified when `allocated` is not set"


class ResourceClaimStrategy(Strategy):
    """Fills in how many devices are wanted; the spec never changes."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("State"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the allocation mode and the number of devices."""
        default_devices(obj.setdefault("spec", {}))

    def validate_update(self, old: JSON, new: JSON) -> list[Cause]:
        """Check that the spec does not change."""
        if old["spec"] == new["spec"]:
            return []
        return [invalid("spec", shown(new["spec"]), IMMUTABLE)]

    def validate_status(self, obj: JSON) -> list[Cause]:
        """Check that only an allocated claim is reserved, and once for each user."""
        status, field = obj["status"], "status.reservedFor"
        users = [each.get("uid", "") for each in status.get("reservedFor", ())]
        causes = [
            duplicate(f"{field}[{number}]", shown(uid))
            for number, uid in enumerate(users)
            if uid in users[:number]
        ]
        if len(users) > _MAX_USERS:
            causes.append(too_many(field, len(users), _MAX_USERS))
        if users and not status.get("allocation"):
            causes.append(forbidden_field(field, _NOT_ALLOCATED))
        return causes

    def validate_status_update(self, old: JSON, new: JSON) -> list[Cause]:
        """Check that an allocation does not change until it is removed."""
        before, after = (each["status"].get("allocation") for each in (old, new))
        if not before or not after or before == after:
            return []
        return [invalid("status.allocation", shown(after), IMMUTABLE)]

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
