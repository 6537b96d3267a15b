"""The admission plugin DenyServiceExternalIPs."""

from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import object_of, refused


class DenyServiceExternalIPs(Plugin):
    """Refuses external addresses that a service did not have before."""

    name: ClassVar = "DenyServiceExternalIPs"
    targets: ClassVar = frozenset((("", "services", ""),))
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def validate(self, write: Write) -> None:
        """Raise Refusal for a new address."""
        before = _addresses(write.old) if write.old else set()
        if _addresses(object_of(write)) - before:
            raise refused(write, "Use of external IPs is denied by admission control")


def _addresses(service: JSON) -> set[str]:
    return set(service.get("spec", {}).get("externalIPs") or ())
