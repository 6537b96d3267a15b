"""Validation of endpoint slices (pkg/apis/discovery/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_labels,
    validate_qualified_name,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
    too_many,
)
from controller_manager.devcluster.validation.ip_addresses import (
    is_in_family,
    validate_endpoint_address,
)

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20000
_MOST_ZONE_HINTS: Final = 8


def validate_slice(obj: JSON) -> list[Cause]:
    """Check the address type, the endpoints and the ports of a slice."""
    address_type = obj.get("addressType", "")
    causes = []
    if not address_type:
        causes.append(required("addressType"))
    elif address_type not in _ADDRESS_TYPES:
        value = shown(address_type)
        causes.append(not_supported("addressType", value, _ADDRESS_TYPES))
    return [
        *causes,
        *_validate_endpoints(obj["endpoints"] or [], address_type),
        *_validate_ports(obj["ports"] or []),
    ]


def _validate_endpoints(endpoints: list[JSON], address_type: str) -> list[Cause]:
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    return [
        cause
        for number, endpoint in enumerate(endpoints)
        for cause in _validate_endpoint(endpoint, address_type, f"endpoints[{number}]")
    ]


def _validate_endpoint(endpoint: JSON, address_type: str, field: str) -> list[Cause]:
    addresses = endpoint.get("addresses", [])
    causes = []
    if not addresses:
        detail = "must contain at least 1 address"
        causes.append(required(f"{field}.addresses", detail))
    elif len(addresses) > _MOST_ADDRESSES:
        most = _MOST_ADDRESSES
        causes.append(too_many(f"{field}.addresses", len(addresses), most))
    for number, address in enumerate(addresses):
        where = f"{field}.addresses[{number}]"
        causes += _validate_address(address, address_type, where)
    if "nodeName" in endpoint:
        causes += validate_subdomain(endpoint["nodeName"], f"{field}.nodeName")
    topology = endpoint.get("deprecatedTopology", {})
    causes += validate_labels(topology, f"{field}.deprecatedTopology")
    if "hostname" in endpoint:
        causes += validate_label(endpoint["hostname"], f"{field}.hostname")
    return causes + _validate_hints(endpoint.get("hints", {}), f"{field}.hints")


def _validate_address(address: str, address_type: str, field: str) -> list[Cause]:
    if address_type in ("IPv4", "IPv6"):
        other = is_in_family(address, "IPv6" if address_type == "IPv4" else "IPv4")
        detail = f"must be an {address_type} address"
        causes = [invalid(field, shown(address), detail)] if other else []
        return causes + validate_endpoint_address(address, field)
    if address_type != "FQDN":
        return []
    causes = validate_subdomain(address.removesuffix("."), field)
    if not causes and "." not in address:
        detail = "should be a domain with at least two segments separated by dots"
        causes.append(invalid(field, shown(address), detail))
    return causes


def _validate_hints(hints: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for group in ("forZones", "forNodes"):
        names = [each.get("name", "") for each in hints.get(group, [])]
        where = f"{field}.{group}"
        if len(names) > _MOST_ZONE_HINTS:
            causes.append(too_many(where, len(names), _MOST_ZONE_HINTS))
            continue
        for number, name in enumerate(names):
            at = f"{where}[{number}].name"
            if name in names[:number]:
                causes.append(duplicate(at, shown(name)))
            causes += validate_labels({"name": name}, at)
    return causes


def _validate_ports(ports: list[JSON]) -> list[Cause]:
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    causes: list[Cause] = []
    names: set[str] = set()
    for number, port in enumerate(ports):
        field, name = f"ports[{number}]", port["name"]
        if name:
            causes += validate_label(name, f"{field}.name")
        if name in names:
            causes.append(duplicate(f"{field}.name", shown(name)))
        names.add(name)
        if port["protocol"] not in PROTOCOLS:
            where = f"{field}.protocol"
            causes.append(not_supported(where, shown(port["protocol"]), PROTOCOLS))
        if "appProtocol" in port:
            where = f"{field}.appProtocol"
            causes += validate_qualified_name(port["appProtocol"], where)
    return causes
