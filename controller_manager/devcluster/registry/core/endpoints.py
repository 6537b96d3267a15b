"""Endpoints: the addresses of a service's pods."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.validation.text import table

_SHOWN: Final = 3


def _no_addresses(subset: JSON, _: JSON) -> bool:
    return not (subset.get("addresses") or subset.get("notReadyAddresses"))


def _many_ports(_: JSON, subset: JSON) -> bool:
    return len(subset["ports"]) > 1


_ADDRESS: Final = table(
    """
    hostname: label
    nodeName: subdomain pointer
    ip: endpoint-address default empty
    """
)
_ENDPOINTS: Final = table(
    """
    subsets[]:
      self: required if no_addresses "must specify `addresses` or `notReadyAddresses`"
      addresses[]:
        include ADDRESS
      notReadyAddresses[]:
        include ADDRESS
      ports[]:
        name: label
        name: required if many_ports
        port: port default 0
        protocol: enum SCTP TCP UDP default null
        appProtocol: qualified pointer
    """,
    _no_addresses,
    _many_ports,
    ADDRESS=_ADDRESS,
)


class EndpointsStrategy(Strategy):
    """Shows the first addresses, and the number of the others."""

    rules: ClassVar = _ENDPOINTS
    columns: ClassVar = (NAME, Column("Endpoints"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the protocols."""
        for subset in obj.get("subsets", ()):
            for port in subset.get("ports", ()):
                port.setdefault("protocol", "TCP")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        found = [text for each in obj.get("subsets", ()) for text in _addresses(each)]
        text = ",".join(found[:_SHOWN]) or NONE
        if len(found) > _SHOWN:
            text += f" + {len(found) - _SHOWN} more..."
        return [name_of(obj), text, age(obj, now)]


def _addresses(subset: JSON) -> list[str]:
    """Return the ready addresses of a subset, with each of its ports."""
    addresses = [each["ip"] for each in subset.get("addresses", ())]
    if not subset.get("ports"):
        return addresses
    return [
        f"[{address}]:{port['port']}" if ":" in address else f"{address}:{port['port']}"
        for port in subset["ports"]
        for address in addresses
    ]


KIND: Final = kind_of(
    "v1",
    "endpoints",
    EndpointsStrategy(),
    deprecation=(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ),
)
