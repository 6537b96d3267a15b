"""Subsets of Endpoints in their canonical form (pkg/api/v1/endpoints/util.go)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from controller_manager.api.core.endpoints import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)
from controller_manager.control.endpoints.canonical import (
    hash_of_port,
    hash_of_subset,
)

_Key = tuple[str, bool, str]
"""IP, whether there is a target, and the uid of the target: also the order."""

_NO_PORT: Final = EndpointPort(port=-1)
"""Stands for the port of addresses that have none."""


class Offers:
    """Which addresses offer which ports, and whether they are ready.

    Two addresses are the same if their IPs and the uids of their targets are equal.
    What was added first describes an address. An address that was added as not ready
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
        ports_of: defaultdict[frozenset[tuple[_Key, bool]], list[EndpointPort]]
        ports_of = defaultdict(list)
        for port, addresses in self._ready.items():
            ports_of[frozenset(addresses.items())].append(port)
        found = [self._subset(*each) for each in ports_of.items()]
        if len(found) > 1:
            found.sort(key=hash_of_subset)
        return tuple(found)

    def _subset(
        self, offered: frozenset[tuple[_Key, bool]], ports: list[EndpointPort]
    ) -> EndpointSubset:
        ready = sorted(key for key, is_ready in offered if is_ready)
        not_ready = sorted(key for key, is_ready in offered if not is_ready)
        real = [port for port in ports if port.port > 0]
        return EndpointSubset(
            addresses=self._described(ready),
            not_ready_addresses=self._described(not_ready),
            ports=tuple(sorted(real, key=hash_of_port)) or None,
        )

    def _described(self, keys: Iterable[_Key]) -> tuple[EndpointAddress, ...] | None:
        return tuple(self._addresses[key] for key in keys) or None


def repack(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """Return the canonical form of subsets that say the same (RepackSubsets)."""
    offers = Offers()
    for subset in subsets:
        ports = subset.ports or ()
        for address in subset.addresses or ():
            offers.add(address, ports, ready=True)
        for address in subset.not_ready_addresses or ():
            offers.add(address, ports, ready=False)
    return offers.subsets()
