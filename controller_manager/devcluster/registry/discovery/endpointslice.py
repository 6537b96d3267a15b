"""EndpointSlice: some of the endpoints of a service."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of

from .endpointslice_validation import SLICE, SLICE_UPDATE

_SHOWN: Final = 3
_UNSET: Final = "<unset>"


class EndpointSliceStrategy(Strategy):
    """The address type is immutable; labels count as content."""

    rules: ClassVar = SLICE
    update_rules: ClassVar = SLICE_UPDATE
    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("AddressType"),
        Column("Ports"),
        Column("Endpoints"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in names and protocols of ports."""
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether an update makes a new generation."""
        labels = [each["metadata"].get("labels", {}) for each in (old, new)]
        return labels[0] != labels[1] or super().changes_generation(old, new)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        ports = [
            str(each.get("port") or each.get("name") or "*")
            for each in obj["ports"] or ()
        ]
        addresses = [
            address for each in obj["endpoints"] or () for address in each["addresses"]
        ]
        return [
            name_of(obj),
            obj["addressType"],
            _first(ports),
            _first(addresses),
            age(obj, now),
        ]


def _first(texts: list[str]) -> str:
    """Return the first few texts, and how many there are besides."""
    listed = ",".join(texts[:_SHOWN])
    more = len(texts) - _SHOWN
    return f"{listed} + {more} more..." if more > 0 else listed or _UNSET


KIND: Final = kind_of("discovery.k8s.io/v1", "endpointslices", EndpointSliceStrategy())
