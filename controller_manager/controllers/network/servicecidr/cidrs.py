"""Ranges and addresses, and their indexes (pkg/api/servicecidr/servicecidr.go).

Upstream checks all addresses of the cluster for each deleted range, repeatedly while
its addresses are released. Here the addresses of a range are found by an index.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from controller_manager.api.meta import PartialObject, is_deleting, labels_of
from controller_manager.api.networking.v1 import ALLOCATOR, MANAGED_BY, ServiceCIDR
from controller_manager.informers.store import Index

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

DELETED: Final = "deleted"


def ranges_of(service_cidr: ServiceCIDR) -> Sequence[Range]:
    """Return the ranges; an invalid text is left out: the API server refuses it."""
    found: list[Range] = []
    for text in service_cidr.spec.cidrs or ():
        with suppress(ValueError):
            found.append(ip_network(text, strict=False))
    return found


def overlap(one: Range, other: Range) -> bool:
    """Tell whether two ranges have an address in common."""
    return one.version == other.version and one.overlaps(other)


def contains_range(outer: Range, inner: Range) -> bool:
    """Tell whether a range contains another, or is the same."""
    return overlap(outer, inner) and outer.prefixlen <= inner.prefixlen


def holds(service_cidr: ServiceCIDR, address: Address) -> bool:
    """Tell whether an address may be allocated from the ranges."""
    return any(_is_allocatable(each, address) for each in ranges_of(service_cidr))


def _is_allocatable(found: Range, address: Address) -> bool:
    """Tell whether an address of a range may be allocated for a service.

    The first address of a range is never allocated, and the last IPv4 address is not
    either.
    """
    if found.version != address.version or address == found.network_address:
        return False
    is_last = address == found.broadcast_address
    return address in found and not (isinstance(address, IPv4Address) and is_last)


def successors(
    service_cidr: ServiceCIDR, others: Iterable[ServiceCIDR]
) -> list[ServiceCIDR]:
    """Return the objects that keep addresses when a deleted object is removed.

    An object that is being deleted keeps them if it was deleted later. So if several
    are deleted at the same time, one stays as long as there are addresses.
    """
    return [
        each
        for each in others
        if each.metadata.uid != service_cidr.metadata.uid
        and (not is_deleting(each) or _deletion(each) > _deletion(service_cidr))
    ]


def _deletion(service_cidr: ServiceCIDR) -> tuple[str, str]:
    metadata = service_cidr.metadata
    return metadata.deletion_timestamp or "", metadata.name


def is_covered(service_cidr: ServiceCIDR, others: Iterable[ServiceCIDR]) -> bool:
    """Tell whether others contain each range as a whole."""
    theirs = [found for each in others for found in ranges_of(each)]
    return all(
        any(contains_range(outer, inner) for outer in theirs)
        for inner in ranges_of(service_cidr)
    )


def uncovered_address(
    service_cidr: ServiceCIDR,
    others: Sequence[ServiceCIDR],
    allocated: Iterable[PartialObject],
) -> Address | None:
    """Return an allocated address that no other object contains, `None` without one."""
    for obj in allocated:
        address = allocated_address(obj)
        if address is None or not holds(service_cidr, address):
            continue
        if not any(holds(one, address) for one in others):
            return address
    return None


def allocated_address(obj: PartialObject) -> Address | None:
    """Return the address of an IPAddress, `None` if the API server did not make it."""
    if labels_of(obj).get(MANAGED_BY) != ALLOCATOR:
        return None
    try:
        return ip_address(obj.metadata.name)
    except ValueError:
        return None


def _deleted(service_cidr: ServiceCIDR) -> Iterable[str]:
    return (DELETED,) if is_deleting(service_cidr) else ()


BY_DELETION: Final = Index(
    "deletion", _deleted, lambda old, new: is_deleting(old) == is_deleting(new)
)
"""Ranges that are being deleted."""
