"""Subsets of Endpoints in their canonical form (pkg/api/v1/endpoints/util.go)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.core.endpoints import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)

from .canonical import hash_of_port, hash_of_subset

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
