"""What a deleted range still holds (canDeleteCIDR of servicecidrs_controller.go)."""

from collections.abc import Iterable

from controller_manager.api.meta import is_deleting
from controller_manager.api.networking.v1 import ServiceCIDR
from controller_manager.controllers.network.servicecidr.ranges import (
    Address,
    contains_range,
    holds,
    ranges_of,
)


def successors(
    service_cidr: ServiceCIDR, others: Iterable[ServiceCIDR]
) -> list[ServiceCIDR]:
    """Return the objects that keep addresses when a deleted one goes.

    One that is being deleted itself keeps them if it was deleted later. So of several
    that are deleted at a time, one stays as long as there are addresses.
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


def held_only_here(
    service_cidr: ServiceCIDR,
    others: Iterable[ServiceCIDR],
    addresses: Iterable[Address],
) -> Address | None:
    """Return an address that no other object would hold, `None` if there is none."""
    others = list(others)
    return next(
        (
            each
            for each in addresses
            if holds(service_cidr, each)
            and not any(holds(other, each) for other in others)
        ),
        None,
    )
