"""The endpoints that the slices of Endpoints should have (reconciler_helpers.go)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from controller_manager.api.core import endpoints as core
from controller_manager.api.discovery.v1 import (
    IPV4,
    IPV6,
    Endpoint,
    EndpointConditions,
    EndpointPort,
)
from controller_manager.control.endpoints.pods import parse_address
from controller_manager.control.endpoints.slices import (
    EndpointKey,
    key_of_endpoint,
)
from controller_manager.control.endpoints.subsets import repack


class Group(Struct, frozen=True):
    """The common properties of the endpoints of a slice: address type and ports.

    The order of the ports does not matter.
    """

    address_type: str
    ports: frozenset[EndpointPort]


class Desired(Struct, frozen=True):
    """The endpoints by group; a group may have none.

    `ports` has the ports of the groups in the order of the Endpoints. `invalid` has the
    addresses that are not valid. `skipped` is the number of all addresses that are left
    out, because they are not valid or exceed the limit.
    """

    endpoints: Mapping[Group, Mapping[EndpointKey, Endpoint]]
    ports: Mapping[Group, tuple[EndpointPort, ...]]
    invalid: tuple[str, ...] = ()
    skipped: int = 0


def desired_endpoints(subsets: Iterable[core.EndpointSubset], limit: int) -> Desired:
    """Return the endpoints of subsets, at most `limit` per subset, ready ones first.

    The limit applies to both address types together.
    """
    found: dict[Group, dict[EndpointKey, Endpoint]] = {}
    ports_of: dict[Group, tuple[EndpointPort, ...]] = {}
    invalid: list[str] = []
    skipped = 0
    for subset in repack(subsets):
        groups: defaultdict[str, list[Group]] = defaultdict(list)
        for ports in _without_equal_names(map(_port, subset.ports or ())):
            for address_type in (IPV4, IPV6):
                group = Group(address_type, frozenset(ports))
                groups[address_type].append(group)
                found.setdefault(group, {})
                ports_of.setdefault(group, ports)
        left = limit
        for address, ready in _addresses(subset):
            if not left:
                skipped += 1
                continue
            parsed = parse_address(address.ip)
            if parsed is None:
                invalid.append(address.ip)
                continue
            endpoint = _endpoint(address, parsed.text, ready=ready)
            for group in groups[parsed.type]:
                found[group][key_of_endpoint(endpoint)] = endpoint
            left -= 1
    return Desired(found, ports_of, tuple(invalid), skipped + len(invalid))


def _without_equal_names(
    ports: Iterable[EndpointPort],
) -> list[tuple[EndpointPort, ...]]:
    """Part the ports so that no part has two of one name; most have one part.

    An address may be in two subsets, which have a port of one name each. The canonical
    form of the subsets joins them, and the API server accepts no slice with two ports
    of one name: upstream mirrors nothing of such Endpoints.
    """
    parts: list[list[EndpointPort]] = [[]]
    known: Counter[str | None] = Counter()
    for port in ports:
        # Endpoints may have 30,000 ports: compare none of them with all others.
        if known[port.name] == len(parts):
            parts.append([])
        parts[known[port.name]].append(port)
        known[port.name] += 1
    return [tuple(part) for part in parts]


def _addresses(
    subset: core.EndpointSubset,
) -> Iterable[tuple[core.EndpointAddress, bool]]:
    """Yield the addresses, and whether they are ready."""
    for each in subset.addresses or ():
        yield each, True
    for each in subset.not_ready_addresses or ():
        yield each, False


def _endpoint(address: core.EndpointAddress, text: str, *, ready: bool) -> Endpoint:
    """Return an endpoint; of its conditions only ready is set (addressToEndpoint)."""
    return Endpoint(
        addresses=(text,),
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
        node_name=address.node_name,
    )


def _port(port: core.EndpointPort) -> EndpointPort:
    return EndpointPort(
        name=port.name,
        protocol=port.protocol,
        port=port.port,
        app_protocol=port.app_protocol,
    )
