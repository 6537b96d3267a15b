"""The node ports of services (pkg/registry/core/service/storage/alloc.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.storage import Storage

from .fields import AllocationError, needs_node_ports

FIRST: Final = 30000
LAST: Final = 32767
_BAND: Final = 86
"""The number of ports at the beginning that are allocated last: users choose these."""

_OUT_OF_RANGE: Final = (
    "provided port is not in the valid range. The range of valid ports is "
    f"{FIRST}-{LAST}"
)
_TAKEN: Final = "provided port is already allocated"


class NodePorts:
    """The node ports that one write of a service may use."""

    def __init__(self, own: set[int], storage: Storage) -> None:
        """Take the ports that the service had before; read those of other services."""
        self._own = own
        self._taken = _used_ports(storage) | own
        self._free = self._unused()

    def check(self, port: int) -> str:
        """Take a port that a user chose; return the error, "" if it has none."""
        if not FIRST <= port <= LAST:
            return _OUT_OF_RANGE
        if port in self._taken and port not in self._own:
            return _TAKEN
        self._taken.add(port)
        return ""

    def next(self) -> int:
        """Take a free port; raises AllocationError if there is none."""
        port = next(self._free, None)
        if port is None:
            msg = "failed to allocate a nodePort: range is full"
            raise AllocationError(msg)
        return port

    def _unused(self) -> Iterator[int]:
        for port in (*range(FIRST + _BAND, LAST + 1), *range(FIRST, FIRST + _BAND)):
            if port not in self._taken:
                self._taken.add(port)
                yield port


def node_ports_of(spec: JSON) -> list[int]:
    """Return the node ports of a service, also the one for health checks."""
    ports = [each["nodePort"] for each in spec.get("ports", ()) if each.get("nodePort")]
    if health := spec.get("healthCheckNodePort"):
        ports.append(health)
    return ports


def assign_new(spec: JSON, node_ports: NodePorts) -> list[Cause]:
    """Give node ports to a new service; return the errors.

    Ports with the same number and another protocol have the same node port. A port that
    a user chose is kept also if the service gets no node ports. Raises AllocationError.
    """
    ports, causes = spec.get("ports", []), []
    given: dict[int, int] = {}
    for number, port in enumerate(ports):
        chosen, value = port.get("nodePort", 0), port.get("port", 0)
        if not chosen and not needs_node_ports(spec):
            continue
        if value in given and chosen in (0, given[value]):
            port["nodePort"] = given[value]
            continue
        chosen = chosen if value in given else _requested(value, ports)
        if chosen and (wrong := node_ports.check(chosen)):
            where = f"spec.ports[{number}].nodePort"
            causes.append(invalid(where, shown(chosen), wrong))
        port["nodePort"] = chosen or node_ports.next()
        given.setdefault(value, port["nodePort"])
    return causes


def assign_changed(spec: JSON, node_ports: NodePorts) -> list[Cause]:
    """Give node ports to the ports of a changed service that need one.

    Returns the errors in ports that a user chose. Raises AllocationError.
    """
    causes, seen = [], set()
    for number, port in enumerate(spec.get("ports", [])):
        chosen = port.get("nodePort", 0)
        if not chosen and needs_node_ports(spec):
            port["nodePort"] = node_ports.next()
        if not chosen or chosen in seen:
            continue  # ports of two protocols may have one
        seen.add(chosen)
        if wrong := node_ports.check(chosen):
            where = f"spec.ports[{number}].nodePort"
            causes.append(invalid(where, shown(chosen), wrong))
    return causes


def _requested(value: int, ports: list[JSON]) -> int:
    """Return the node port that a user chose for a port with that number, or 0."""
    chosen = [each.get("nodePort", 0) for each in ports if each.get("port") == value]
    return next(filter(None, chosen), 0)


def _used_ports(storage: Storage) -> set[int]:
    return {
        port
        for stored in storage.collection("services")
        for port in node_ports_of(stored.obj["spec"])
    }
