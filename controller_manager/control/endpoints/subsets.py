"""Subsets of Endpoints in their canonical form (pkg/api/v1/endpoints/util.go).

The canonical order of ports and subsets: the order of their hashes.

Upstream sorts by the MD5 of the Go values, as the library spew prints them. So the
Endpoints of both managers have the same order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from typing import Final

from controller_manager.api.core.services import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)
from controller_manager.api.core.v1 import ObjectReference


def hash_of_port(port: EndpointPort) -> bytes:
    """Return the hash by which the ports of a subset are sorted (portsByHash)."""
    return _md5(f"(v1.EndpointPort){_port(port)}")


def hash_of_subset(subset: EndpointSubset) -> bytes:
    """Return the hash by which subsets are sorted (subsetsByHash)."""
    ready = _list(map(_address, subset.addresses or ()))
    not_ready = _list(map(_address, subset.not_ready_addresses or ()))
    ports = _list(map(_port, subset.ports or ()))
    return _md5(
        f"(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){ready} "
        f"NotReadyAddresses:([]v1.EndpointAddress){not_ready} "
        f"Ports:([]v1.EndpointPort){ports}}}"
    )


def _md5(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()


def _list(entries: Iterable[str]) -> str:
    """Return a list; an empty one is nil in Go, since nothing was appended to it."""
    text = " ".join(entries)
    return f"[{text}]" if text else "<nil>"


def _pointer(value: str | None) -> str:
    return f"(*string){'<nil>' if value is None else value}"


def _port(port: EndpointPort) -> str:
    return (
        f"{{Name:(string){port.name} Port:(int32){port.port} "
        f"Protocol:(v1.Protocol){port.protocol} "
        f"AppProtocol:{_pointer(port.app_protocol)}}}"
    )


def _address(address: EndpointAddress) -> str:
    return (
        f"{{IP:(string){address.ip} Hostname:(string){address.hostname} "
        f"NodeName:{_pointer(address.node_name)} "
        f"TargetRef:(*v1.ObjectReference){_reference(address.target_ref)}}}"
    )


def _reference(reference: ObjectReference | None) -> str:
    if reference is None:
        return "<nil>"
    return (
        f"{{Kind:(string){reference.kind} Namespace:(string){reference.namespace} "
        f"Name:(string){reference.name} UID:(types.UID){reference.uid} "
        f"APIVersion:(string){reference.api_version} "
        f"ResourceVersion:(string){reference.resource_version} "
        f"FieldPath:(string){reference.field_path}}}"
    )


_Key = tuple[str, bool, str]
"""IP, whether there is a target, and the uid of the target: also the order."""

_NO_PORT: Final = EndpointPort(port=-1)
"""Stands for the port of addresses that have none."""


class Offers:
    """The ports of addresses, and the readiness of each address for each port.

    Two addresses are the same if their IPs and the uids of their targets are equal; the
    first of them that was added is used. An address that was added once as not ready
    for a port is not ready for it.
    """

    def __init__(self) -> None:
        """Begin without any address."""
        self._addresses: dict[_Key, EndpointAddress] = {}
        self._ready: defaultdict[EndpointPort, dict[_Key, bool]] = defaultdict(dict)

    def add(
        self, address: EndpointAddress, ports: Sequence[EndpointPort], *, ready: bool
    ) -> None:
        """Add an address with its ports; it may have none."""
        target = address.target_ref
        key = (address.ip, target is not None, "" if target is None else target.uid)
        self._addresses.setdefault(key, address)
        for port in ports or (_NO_PORT,):
            known = self._ready[port]
            known[key] = ready and known.get(key, True)

    def subsets(self) -> tuple[EndpointSubset, ...]:
        """Return as few subsets as possible, in the canonical order.

        Ports with the same addresses share a subset. Addresses are sorted by IP and
        uid, ports and subsets by their hashes.
        """
        groups: list[tuple[dict[_Key, bool], list[EndpointPort]]] = []
        for port, addresses in self._ready.items():
            for known, ports in groups:
                if addresses == known:
                    ports.append(port)
                    break
            else:
                groups.append((addresses, [port]))
        found = [self._subset(offered, sharing) for offered, sharing in groups]
        if len(found) > 1:
            found.sort(key=hash_of_subset)
        return tuple(found)

    def _subset(
        self, offered: dict[_Key, bool], ports: list[EndpointPort]
    ) -> EndpointSubset:
        real = [port for port in ports if port.port > 0]
        return EndpointSubset(
            addresses=self._described(offered, ready=True),
            not_ready_addresses=self._described(offered, ready=False),
            ports=tuple(sorted(real, key=hash_of_port)) or None,
        )

    def _described(
        self, offered: Mapping[_Key, bool], *, ready: bool
    ) -> tuple[EndpointAddress, ...] | None:
        """Return the addresses that are ready, or those that are not, in order."""
        keys = sorted(key for key, is_ready in offered.items() if is_ready is ready)
        return tuple(self._addresses[key] for key in keys) or None


def repack(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """Return the canonical form of subsets (RepackSubsets)."""
    offers = Offers()
    for subset in subsets:
        ports = subset.ports or ()
        for address in subset.addresses or ():
            offers.add(address, ports, ready=True)
        for address in subset.not_ready_addresses or ():
            offers.add(address, ports, ready=False)
    return offers.subsets()
