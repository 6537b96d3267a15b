"""Indexes of the addresses in a range, and of the ranges that are being deleted.

Upstream checks all addresses of the cluster for each deleted range, repeatedly while
its addresses are released.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.meta import PartialObject, is_deleting, labels_of
from controller_manager.api.networking.v1 import ALLOCATOR, MANAGED_BY, ServiceCIDR
from controller_manager.informers.indexes import Index

from .cidrs import Address, Range, address_of

DELETED: Final = "deleted"

_BITS: Final = {4: 16, 6: 64}
"""By IP version: the number of last bits in which the addresses of one entry differ."""

_MOST: Final = 256


def allocated_address(obj: PartialObject) -> Address | None:
    """Return the address of an IPAddress, `None` if the API server did not make it."""
    if labels_of(obj).get(MANAGED_BY) != ALLOCATOR:
        return None
    return address_of(obj.metadata.name)


def _entry(address: Address) -> str:
    bits = address.max_prefixlen - _BITS[address.version]
    return f"{address.version}/{int(address) >> bits:x}"


def entries_of(found: Range) -> list[str]:
    """Return the index entries that have all addresses of a range.

    A range of more than 256 times 65,536 addresses uses the entry of its version.
    """
    bits = found.max_prefixlen - _BITS[found.version]
    first = int(found.network_address) >> bits
    last = int(found.broadcast_address) >> bits
    if last - first >= _MOST:
        return [str(found.version)]
    return [f"{found.version}/{each:x}" for each in range(first, last + 1)]


def _entries(obj: PartialObject) -> Iterable[str]:
    address = allocated_address(obj)
    return () if address is None else (_entry(address), str(address.version))


def _deleted(service_cidr: ServiceCIDR) -> Iterable[str]:
    return (DELETED,) if is_deleting(service_cidr) else ()


def _is_as_deleted(old: ServiceCIDR, new: ServiceCIDR) -> bool:
    return is_deleting(old) == is_deleting(new)


BY_ADDRESS: Final = Index("address", _entries)
"""Addresses that the API server has allocated."""

BY_DELETION: Final = Index("deletion", _deleted, _is_as_deleted)
"""Ranges that are being deleted."""
