"""ResourceClaim: devices that pods ask for; nothing here allocates them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.field_values import IMMUTABLE
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class ResourceClaimStrategy(Strategy):
    """Fills in how many devices are wanted; the spec never changes."""

    columns: ClassVar = (NAME, Column("State"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the allocation mode and the number of devices."""
        devices = obj.setdefault("spec", {}).setdefault("devices", {})
        for wanted in _wanted(devices):
            mode = wanted.setdefault("allocationMode", "ExactCount")
            if mode == "ExactCount":
                wanted.setdefault("count", 1)
        obj.setdefault("status", {})

    def validate_update(self, old: JSON, new: JSON) -> list[Cause]:
        """Check that the spec does not change."""
        if old["spec"] == new["spec"]:
            return []
        return [invalid("spec", shown(new["spec"]), IMMUTABLE)]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        status = obj.get("status", {})
        states = ["allocated"] if status.get("allocation") else ["pending"]
        states += ["reserved"] if status.get("reservedFor") else []
        return [name_of(obj), ",".join(states), age(obj, now)]


def _wanted(devices: JSON) -> Iterator[JSON]:
    """Yield what each request asks for, with all alternatives."""
    for request in devices.get("requests", ()):
        if "exactly" in request:
            yield request["exactly"]
        yield from request.get("firstAvailable", ())


KIND: Final = Kind(
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims",
    model="ResourceV1ResourceClaim",
    subresources=(status_of("ResourceClaim"),),
    strategy=ResourceClaimStrategy(),
)
