"""At most 1,000 addresses in one Endpoints object (truncateEndpoints)."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.endpoints import EndpointAddress, EndpointSubset

CAPACITY: Final = 1000
"""The most addresses of all subsets together; one in two subsets counts twice."""


def truncate(
    subsets: tuple[EndpointSubset, ...],
) -> tuple[tuple[EndpointSubset, ...], bool]:
    """Return subsets with at most `CAPACITY` addresses, and whether some are left out.

    Ready addresses stay first. If they do not all fit, each subset keeps its share of
    them; otherwise each keeps its share of those that are not ready. Shares are rounded
    up, so the last subset may keep less. A subset that keeps no address is left out:
    the API server would refuse it.
    """
    ready = sum(len(each.addresses or ()) for each in subsets)
    not_ready = sum(len(each.not_ready_addresses or ()) for each in subsets)
    if ready + not_ready <= CAPACITY:
        return subsets, False
    if ready > CAPACITY:
        addresses = _shares([each.addresses or () for each in subsets], CAPACITY)
        kept = [
            replace(each, addresses=some, not_ready_addresses=None)
            for each, some in zip(subsets, addresses, strict=True)
        ]
    else:
        room = CAPACITY - ready
        addresses = _shares([each.not_ready_addresses or () for each in subsets], room)
        kept = [
            replace(each, not_ready_addresses=some)
            for each, some in zip(subsets, addresses, strict=True)
        ]
    return tuple(each for each in kept if _has_addresses(each)), True


def _shares(
    lists: Sequence[tuple[EndpointAddress, ...]], room: int
) -> list[tuple[EndpointAddress, ...] | None]:
    """Return the first addresses of each list, as many as fit in all.

    Example: lists of 700 and 500 addresses for 1,000 places keep 584 (583.3 rounded
    up) and 416.
    """
    total, left = sum(map(len, lists)), room
    kept: list[tuple[EndpointAddress, ...] | None] = []
    for each in lists:
        # The order of the operations is upstream's: floats round the same way.
        share = min(math.ceil(len(each) / total * room), left)
        kept.append(each[:share] or None)
        left -= min(share, len(each))
    return kept


def _has_addresses(subset: EndpointSubset) -> bool:
    return bool(subset.addresses or subset.not_ready_addresses)
