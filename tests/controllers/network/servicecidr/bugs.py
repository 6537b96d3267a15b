"""Deliberate bugs of the protection of ranges."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.networking.v1 import ServiceCIDR
from controller_manager.controllers.network.servicecidr import cidrs, controller
from controller_manager.controllers.network.servicecidr.cidrs import Address
from controller_manager.controllers.network.servicecidr.controller import (
    ServiceCIDRReconciler,
)
from tests.simulation.planted import Bug

_TWINS: Final = "twin-ranges-deleted-together"


async def _believe_the_cache(
    _: ServiceCIDRReconciler, __: ServiceCIDR
) -> Address | None:
    return None


def _rely_on_any_other(
    service_cidr: ServiceCIDR, others: Iterable[ServiceCIDR]
) -> list[ServiceCIDR]:
    """Rely also on ranges that are being deleted, as upstream does."""
    uid = service_cidr.metadata.uid
    return [each for each in others if each.metadata.uid != uid]


BUGS: Final[Mapping[str, Bug]] = {
    "release ranges by what the cache shows": Bug(
        0,
        ServiceCIDRReconciler,
        "_read_blocking_address",
        _believe_the_cache,
        "address-that-the-cache-lacks",
    ),
    "rely on a range that goes, too": Bug(
        0, cidrs, "successors", _rely_on_any_other, _TWINS
    ),
    "release a range at once": Bug(0, controller, "GRACE_PERIOD", 0.0, _TWINS),
    "miss that an address is free": Bug(
        0,
        ServiceCIDRReconciler,
        "watches",
        ServiceCIDRReconciler.watches[:2],
        _TWINS,
    ),
}
