"""How many endpoints each zone is to get (getAllocations, utils.go)."""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

OVERLOAD: Final = 0.2
"""How much more traffic than its share an endpoint may get at most."""

_FACTOR: Final = 1 / (1 + OVERLOAD)
_HALF: Final = 0.5


class Allocation(Struct, frozen=True):
    """The endpoints of one zone: how many at least, at most, and best."""

    minimum: int
    maximum: int
    desired: float


class TooFewEndpoints(Exception):  # noqa: N818 - says what is wrong
    """The endpoints cannot be shared among the zones; the message is upstream's."""


def allocations(
    shares: Mapping[str, float] | None, endpoints: int
) -> dict[str, Allocation]:
    """Return the endpoints of each zone, by its share in the CPUs.

    Raises TooFewEndpoints if the shares are not known, or if some zone would get so few
    endpoints that they were overloaded by more than a fifth.
    """
    if shares is None:
        msg = (
            "Insufficient Node information: allocatable CPU or zone not specified on "
            "one or more nodes"
        )
        raise TooFewEndpoints(msg)
    counts = f"({endpoints} endpoints, {len(shares)} zones)"
    if len(shares) > endpoints:
        msg = f"Insufficient number of endpoints {counts}"
        raise TooFewEndpoints(msg)
    minimums = {
        zone: math.ceil(share * endpoints * _FACTOR) for zone, share in shares.items()
    }
    spare = endpoints - sum(minimums.values())
    if spare < 0:
        msg = (
            "Unable to allocate minimum required endpoints to each zone without "
            f"exceeding overload threshold {counts}"
        )
        raise TooFewEndpoints(msg)
    return {
        zone: Allocation(
            minimum, minimum + spare, max(shares[zone] * endpoints, float(minimum))
        )
        for zone, minimum in minimums.items()
    }


def transfers(
    allocated: Mapping[str, int], wanted: Mapping[str, Allocation]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many endpoints zones give to others, and how many they receive.

    One endpoint after the other goes from the zone that has most too many to the one
    that lacks most, as long as that helps (getGivingAndReceivingZones).
    """
    surplus = {
        zone: allocated.get(zone, 0) - each.desired for zone, each in wanted.items()
    }
    lack = {zone: -count for zone, count in surplus.items()}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    while True:
        giver, to_give = _most(surplus)
        receiver, to_receive = _most(lack)
        if (to_give < 1 and to_receive < 1) or min(to_give, to_receive) < _HALF:
            return giving, receiving
        giving[giver] = giving.get(giver, 0) + 1
        receiving[receiver] = receiving.get(receiver, 0) + 1
        surplus[giver] -= 1
        lack[receiver] -= 1


def _most(zones: Mapping[str, float]) -> tuple[str, float]:
    zone = max(sorted(zones), key=zones.__getitem__, default="")
    return zone, zones.get(zone, 0.0)


def is_overloaded(
    allocated: Mapping[str, int], shares: Mapping[str, float] | None
) -> bool:
    """Tell whether hints give some zone too few endpoints (serviceOverloaded)."""
    if not allocated:
        return False
    if shares is None:
        return True
    total = sum(allocated.values())
    return any(
        allocated.get(zone, 0) < math.ceil(total * share * _FACTOR)
        for zone, share in shares.items()
    )
