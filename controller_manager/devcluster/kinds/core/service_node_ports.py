"""The node ports of services (pkg/registry/core/service/portallocator)."""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.devcluster.kinds.core.service_fields import (
    needs_node_ports,
    port_key,
)
from controller_manager.devcluster.server.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]

FIRST: Final = 30000
LAST: Final = 32767
_BAND: Final = 86
"""So many ports at the beginning are given last: users may choose them."""


def node_ports_of(spec: JSON) -> list[int]:
    """Return the node ports of a service, also the one for health checks."""
    ports = [each["nodePort"] for each in spec.get("ports", ()) if each.get("nodePort")]
    if health := spec.get("healthCheckNodePort"):
        ports.append(health)
    return ports


def assign_node_ports(spec: JSON, own: set[int], storage: Storage) -> list[Cause]:
    """Give a node port to each port that needs one; return what is wrong.

    `own` are the ports that the service had before. Ports of different protocols may
    have one node port, if the user says so or they have the same number. What a user
    chooses is respected also where nothing is allocated.
    """
    used = _used_ports(storage) - own
    causes = _refused(spec, used)
    if not needs_node_ports(spec):
        return causes
    taken = used | set(node_ports_of(spec))
    free = _free(taken)
    given: dict[int, int] = {}
    for number, port in enumerate(spec.get("ports", ())):
        if not port.get("nodePort"):
            port["nodePort"] = given.get(port_key(port)[1]) or next(free, 0)
        if not port["nodePort"]:
            where = f"spec.ports[{number}].nodePort"
            detail = "failed to allocate a nodePort: range is full"
            causes.append(invalid(where, "0", detail))
        given.setdefault(port_key(port)[1], port["nodePort"])
    return causes


def assign_health_check_port(spec: JSON, own: set[int], storage: Storage) -> None:
    """Give a service a node port for health checks, unless it has one."""
    if not spec.get("healthCheckNodePort"):
        taken = (_used_ports(storage) - own) | set(node_ports_of(spec))
        spec["healthCheckNodePort"] = next(_free(taken), 0)


def _refused(spec: JSON, used: set[int]) -> list[Cause]:
    """Return what is wrong with the node ports that a user chose."""
    causes = []
    for number, port in enumerate(spec.get("ports", ())):
        chosen = port.get("nodePort", 0)
        where = f"spec.ports[{number}].nodePort"
        if chosen and not FIRST <= chosen <= LAST:
            detail = (
                "provided port is not in the valid range. The range of valid ports "
                f"is {FIRST}-{LAST}"
            )
            causes.append(invalid(where, shown(chosen), detail))
        elif chosen in used:
            detail = "provided port is already allocated"
            causes.append(invalid(where, shown(chosen), detail))
    return causes


def _used_ports(storage: Storage) -> set[int]:
    return {
        port
        for stored in storage.collection("services")
        for port in node_ports_of(stored.obj["spec"])
    }


def _free(taken: set[int]) -> Iterator[int]:
    for port in (*range(FIRST + _BAND, LAST + 1), *range(FIRST, FIRST + _BAND)):
        if port not in taken:
            taken.add(port)
            yield port
