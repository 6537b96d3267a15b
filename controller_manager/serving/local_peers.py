"""The peers on this machine, and the node of this pod.

The kubelet probes from there. Its probes must get an answer while strangers use up the
handshakes of all peers together: a manager whose probes fail is restarted.
"""

import os
import socket
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

IPAddress = IPv4Address | IPv6Address

HOST_IPS: Final = "HOST_IPS"
"""The environment variable with the addresses of the node, separated by commas.

A manifest takes them from the pod's field ``status.hostIPs``.
"""

_ROUTES: Final = Path("/proc/net")
_ZEROS: Final = "0" * 32
"""The address ``::`` as the route table of IPv6 has it."""

_DISCARD: Final = 9
"""The port to which a socket is connected that sends nothing."""


def address_of(text: str) -> IPAddress:
    """Return an IP address; an IPv4 address that is mapped to IPv6 is one of IPv4."""
    found = ip_address(text)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def node_addresses(
    environment: Mapping[str, str] = os.environ, routes: Path = _ROUTES
) -> frozenset[IPAddress]:
    """Return the addresses from which the node may connect to this pod.

    It uses its own address, or that of its end of the pod's network, which is the
    pod's default gateway. `routes` is the directory of the kernel's route tables.
    """
    given = environment.get(HOST_IPS, "").split(",")
    return frozenset((*_valid(given), *_gateways(routes)))


def _valid(texts: Iterable[str]) -> Iterator[IPAddress]:
    for text in texts:
        try:
            yield address_of(text.strip())
        except ValueError:
            continue  # empty, or not an address: it is no peer


def _gateways(routes: Path) -> Iterator[IPAddress]:
    """Yield the default gateways of the route tables of IPv4 and IPv6."""
    for line in _lines(routes / "route"):
        match line.split():
            # The kernel writes numbers in the order of bytes of the machine.
            case [_, "00000000", gateway, *_] if gateway != "00000000":
                yield IPv4Address(struct.pack("=I", int(gateway, 16)))
    for line in _lines(routes / "ipv6_route"):
        match line.split():
            case [target, "00", _, _, gateway, *_] if target == _ZEROS != gateway:
                yield IPv6Address(int(gateway, 16))


def _lines(table: Path) -> list[str]:
    """Return the lines of a table; none on a machine without it."""
    try:
        return table.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return []


class LocalPeers:
    """Tells the peers on this machine, and the node of this pod, from all others."""

    def __init__(self, node: Collection[IPAddress] = ()) -> None:
        """Take the addresses of the node of this pod, see `node_addresses`."""
        self._node = frozenset(node)

    def has(self, peer: str, own: str) -> bool:
        """Tell whether `peer` is local; `own` is the address that it connected to."""
        found, end = address_of(peer), address_of(own)
        if found == end or found.is_loopback or end.is_loopback:
            return True
        return _without_scope(found) in self._node or _is_assigned(found)


def _without_scope(address: IPAddress) -> IPAddress:
    return ip_address(str(address).partition("%")[0])


def _is_assigned(address: IPAddress) -> bool:
    """Tell whether an interface of this machine has the address.

    The kernel connects a socket to such an address from the same address. Nothing is
    sent. A list of the interfaces would have to be read anew for each connection.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as unused:
            unused.connect((str(address), _DISCARD))
            return address_of(unused.getsockname()[0]) == address
    except OSError:
        return False
