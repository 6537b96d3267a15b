"""Validation of a service's ports (ValidateService in pkg/apis/core/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.ports import (
    NOT_A_PORT,
    PROTOCOLS,
    is_port,
    validate_port,
)
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_qualified_name,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

_KUBELET: Final = 10250


def validate_ports(spec: JSON) -> list[Cause]:
    """Check the ports of a service, each and with the others."""
    ports: list[JSON] = spec.get("ports", [])
    causes: list[Cause] = []
    names: list[str] = []
    for number, port in enumerate(ports):
        field = f"spec.ports[{number}]"
        causes += _validate_name(port, names, field, needs_name=len(ports) > 1)
        causes += _validate_port(port, field)
        if spec.get("type") == "LoadBalancer" and port.get("port") == _KUBELET:
            detail = (
                f"may not expose port {_KUBELET} externally since it is used by kubelet"
            )
            causes.append(invalid(f"{field}.port", shown(_KUBELET), detail))
        if spec.get("type") == "ClusterIP" and port.get("nodePort"):
            detail = "may not be used when `type` is 'ClusterIP'"
            causes.append(forbidden_field(f"{field}.nodePort", detail))
    return [*causes, *_validate_unique(ports)]


def _validate_name(
    port: JSON, names: list[str], field: str, *, needs_name: bool
) -> list[Cause]:
    name = port.get("name", "")
    if not name:
        return [required(f"{field}.name")] if needs_name else []
    causes = validate_label(name, f"{field}.name")
    if name in names:
        causes.append(duplicate(f"{field}.name", shown(name)))
    names.append(name)
    return causes


def _validate_port(port: JSON, field: str) -> list[Cause]:
    causes = []
    if not is_port(number := port.get("port", 0)):
        causes.append(invalid(f"{field}.port", shown(number), NOT_A_PORT))
    protocol = port.get("protocol")
    if protocol not in PROTOCOLS:
        where = f"{field}.protocol"
        causes.append(not_supported(where, shown(protocol), PROTOCOLS))
    causes += validate_port(port.get("targetPort", 0), f"{field}.targetPort")
    if "appProtocol" in port:
        causes += validate_qualified_name(port["appProtocol"], f"{field}.appProtocol")
    return causes


def _validate_unique(ports: list[JSON]) -> list[Cause]:
    """Check that no two ports are the same, by their number or by their node port."""
    causes = []
    seen: set[tuple[str, int]] = set()
    nodes: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        protocol, value = port.get("protocol", ""), port.get("port", 0)
        if (node := port.get("nodePort")) is not None:
            if (protocol, node) in nodes:
                where = f"spec.ports[{number}].nodePort"
                causes.append(duplicate(where, shown(node)))
            nodes.add((protocol, node))
        if (protocol, value) in seen:
            same = shown({"protocol": protocol, "port": value})
            causes.append(duplicate(f"spec.ports[{number}]", same))
        seen.add((protocol, value))
    return causes
