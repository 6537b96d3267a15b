"""Validation of a service's ports (ValidateService in pkg/apis/core/validation)."""

import re
from typing import Any, Final

from controller_manager.devcluster.server.names import (
    validate_label,
    validate_qualified_name,
)
from controller_manager.devcluster.server.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

JSON = dict[str, Any]

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
NOT_A_PORT: Final = "must be between 1 and 65535, inclusive"
_MOST: Final = 65535
_LONGEST_NAME: Final = 15
_KUBELET: Final = 10250
_PORT_NAME: Final = re.compile(r"(?=[a-z0-9-]*[a-z])[a-z0-9]+(-[a-z0-9]+)*")


def is_port(number: int) -> bool:
    """Tell whether a number is that of a port."""
    return 0 < number <= _MOST


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
    causes += _validate_target(port.get("targetPort", 0), f"{field}.targetPort")
    if "appProtocol" in port:
        causes += validate_qualified_name(port["appProtocol"], f"{field}.appProtocol")
    return causes


def _validate_target(target: Any, field: str) -> list[Cause]:
    """Check that a target port is the number of a port, or may be a port's name."""
    if isinstance(target, int):
        return [] if is_port(target) else [invalid(field, shown(target), NOT_A_PORT)]
    causes = []
    if len(target) > _LONGEST_NAME:
        detail = f"must be no more than {_LONGEST_NAME} characters"
        causes.append(invalid(field, shown(target), detail))
    if not _PORT_NAME.fullmatch(target):
        detail = (
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-), "
            "at least one letter, and no hyphen at the ends or beside another"
        )
        causes.append(invalid(field, shown(target), detail))
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
