"""Validation of Endpoints (validateEndpointSubsets in pkg/apis/core/validation)."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_qualified_name,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import (
    validate_endpoint_address,
)
from controller_manager.devcluster.validation.ports import (
    NOT_A_PORT,
    PROTOCOLS,
    is_port,
)


def validate_subsets(subsets: list[JSON]) -> list[Cause]:
    """Check the addresses and the ports of each subset."""
    return [
        cause
        for number, subset in enumerate(subsets)
        for cause in _validate_subset(subset, f"subsets[{number}]")
    ]


def _validate_subset(subset: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    kinds = ("addresses", "notReadyAddresses")
    if not any(subset.get(name) for name in kinds):
        detail = "must specify `addresses` or `notReadyAddresses`"
        causes.append(required(field, detail))
    for name in kinds:
        for number, address in enumerate(subset.get(name, ())):
            causes += _validate_address(address, f"{field}.{name}[{number}]")
    ports = subset.get("ports", [])
    for number, port in enumerate(ports):
        where = f"{field}.ports[{number}]"
        causes += _validate_port(port, where, needs_name=len(ports) > 1)
    return causes


def _validate_address(address: JSON, field: str) -> list[Cause]:
    causes = []
    if hostname := address.get("hostname"):
        causes += validate_label(hostname, f"{field}.hostname")
    if "nodeName" in address:
        causes += validate_subdomain(address["nodeName"], f"{field}.nodeName")
    return causes + validate_endpoint_address(address.get("ip", ""), f"{field}.ip")


def _validate_port(port: JSON, field: str, *, needs_name: bool) -> list[Cause]:
    causes = []
    if name := port.get("name"):
        causes += validate_label(name, f"{field}.name")
    elif needs_name:
        causes.append(required(f"{field}.name"))
    number = port.get("port", 0)
    if not is_port(number):
        causes.append(invalid(f"{field}.port", shown(number), NOT_A_PORT))
    protocol = port.get("protocol")
    if protocol not in PROTOCOLS:
        where = f"{field}.protocol"
        causes.append(not_supported(where, shown(protocol), PROTOCOLS))
    if "appProtocol" in port:
        causes += validate_qualified_name(port["appProtocol"], f"{field}.appProtocol")
    return causes
