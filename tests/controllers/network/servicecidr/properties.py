"""The properties of the service CIDR controller."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.networking.v1 import ALLOCATOR, MANAGED_BY
from tests.controllers.network.servicecidr.workload import RangeUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_RANGES: Final = "servicecidrs"
_FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_MANAGED: Final = ("metadata", "managedFields")


class ServiceCIDRProperties(Properties):
    """It changes finalizer and condition; no used address loses its last range."""

    controller = "service-cidr-controller"
    may_write = (
        AllowedWrite(("patch",), _RANGES, only(("metadata", "finalizers"), _MANAGED)),
        AllowedWrite(
            ("patch",), f"{_RANGES}/status", only(("status", "conditions"), _MANAGED)
        ),
    )
    workload = RangeUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no address is left without a range when a range is released."""
        gone = write.before
        released = write.after is None or not _is_protected(write.after)
        if write.controller != self.controller or gone is None or not released:
            return
        left = [
            each
            for each in self.state.stored(_RANGES)
            if each["metadata"]["uid"] != gone["metadata"]["uid"]
        ]
        for address in self._addresses():
            if _holds(gone, address) and not any(
                _holds(each, address) for each in left
            ):
                yield f"{write}: the address {address} is in no other range"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that ranges are protected and ready, and that deleted ones are gone."""
        del managers
        for each in self.state.stored(_RANGES):
            name = each["metadata"]["name"]
            if "deletionTimestamp" in each["metadata"]:
                yield f"the deleted range {name} stays, and no address is in use"
                continue
            conditions = each.get("status", {}).get("conditions", [])
            if not _is_protected(each):
                yield f"the range {name} has lost its finalizer"
            if [found["status"] for found in conditions] != ["True"]:
                yield f"the range {name} is not ready: {conditions}"

    def _addresses(self) -> list[str]:
        return [
            each["metadata"]["name"]
            for each in self.state.stored("ipaddresses")
            if each["metadata"].get("labels", {}).get(MANAGED_BY) == ALLOCATOR
        ]


def _is_protected(obj: JSON) -> bool:
    return _FINALIZER in obj["metadata"].get("finalizers", [])


def _holds(obj: JSON, text: str) -> bool:
    address = ip_address(text)
    return any(address in ip_network(each) for each in obj["spec"]["cidrs"])


PROPERTIES = ServiceCIDRProperties
