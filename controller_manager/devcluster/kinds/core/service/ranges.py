"""The ranges of service addresses, and the free addresses in them.

As upstream's allocator does, it relies on the stored ServiceCIDRs and IPAddresses
(pkg/registry/core/service/ipallocator/cidrallocator.go).
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.ip_addresses import (
    Address,
    family_of,
    parse_address,
)

from .fields import AllocationError

Range = IPv4Network | IPv6Network

DEFAULT_RANGE: Final = "10.96.0.0/12"
"""The default range of service addresses, which is kubeadm's."""

CIDRS: Final = "servicecidrs.networking.k8s.io"
ADDRESSES: Final = "ipaddresses.networking.k8s.io"
DEFAULT_CIDR: Final = "kubernetes"
"""The name of the ServiceCIDR that the API server creates."""

_LEAST_BAND: Final = 16
_MOST_BAND: Final = 256


def ranges_of(storage: Storage) -> list[Range]:
    """Return the ranges of all ServiceCIDRs not being deleted, the default's first."""
    found = [
        stored.obj
        for stored in storage.collection(CIDRS)
        if "deletionTimestamp" not in stored.obj["metadata"]
    ]
    found.sort(key=lambda obj: obj["metadata"]["name"] != DEFAULT_CIDR)
    return [ip_network(text) for obj in found for text in obj["spec"]["cidrs"]]


def families_of(storage: Storage) -> list[str]:
    """Return the address families of services, the default one first."""
    families = [f"IPv{each.version}" for each in ranges_of(storage)]
    return list(dict.fromkeys(families)) or ["IPv4"]


def allocate(storage: Storage, family: str) -> str:
    """Return a free address of a family; raises AllocationError.

    As upstream does, it returns the first addresses of a range last: users choose them.
    """
    for each in ranges_of(storage):
        if f"IPv{each.version}" == family:
            address = _free_in(each, storage)
            if address is not None:
                return address
    msg = "failed to allocate a serviceIP: range is full"
    raise AllocationError(msg)


def why_not_free(storage: Storage, text: str) -> str:
    """Return why a new service cannot have an address, "" if it can."""
    address = parse_address(text)
    assert address is not None  # noqa: S101 - its form has been checked
    same = [each for each in ranges_of(storage) if each.version == address.version]
    if not any(address in each for each in same):
        ranges = ", ".join(map(str, same))
        return (
            f"failed to allocate IP {text}: provided IP is not in the valid range. "
            f"The range of valid IPs is {ranges}"
        )
    if storage.collection(ADDRESSES).get(("", str(address))) is not None:
        return f"failed to allocate IP {text}: provided IP is already allocated"
    return ""


def ip_address_of(address: Address, namespace: str, name: str) -> JSON:
    """Return the IPAddress that assigns an address to a service."""
    parent = {"resource": "services", "namespace": namespace, "name": name}
    labels = {
        "ipaddress.kubernetes.io/ip-family": family_of(address),
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    metadata = {"name": str(address), "labels": labels}
    return {"metadata": metadata, "spec": {"parentRef": parent}}


def note_taken(storage: Storage, address: str) -> None:
    """Move on to the next address after a service got this one.

    A write may be attempted several times: only a stored write moves on.
    """
    for each in ranges_of(storage):
        if parse_address(address) in each and _free_in(each, storage) == address:
            storage.next_number(_turn_of(each))


def _turn_of(each: Range) -> str:
    return f"addresses of {each}"


def _free_in(each: Range, storage: Storage) -> str | None:
    """Return the next address of a range that is free.

    Addresses are taken in turn, so that one that was released is not taken at once.
    The same address is returned until it is taken.
    """
    used = storage.collection(ADDRESSES)
    # Neither the address of the network nor, for IPv4, that of broadcasts.
    size = each.num_addresses - (2 if each.version == 4 else 1)
    if size <= 0:
        return None
    band = min(max(_LEAST_BAND, each.num_addresses // 16), _MOST_BAND, size - 1)
    start = storage.last_numbers[_turn_of(each)]
    upper = size - band
    for number in range(min(upper, len(used) + 1)):
        address = each[1 + band + (start + number) % upper]
        if used.get(("", str(address))) is None:
            return str(address)
    for number in range(band):
        address = each[1 + number]
        if used.get(("", str(address))) is None:
            return str(address)
    return None
