"""Uses slices again for other ports, if no endpoint is missing meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from msgspec.structs import replace

from controller_manager.api.discovery.v1 import EndpointPort, EndpointSlice
from controller_manager.api.meta import OwnerReference
from controller_manager.control.endpoints.slices.actions import SliceActions, recycled
from controller_manager.control.endpoints.slices.identity import (
    EndpointKey,
    key_of_endpoint,
)

_Offer = tuple[str, EndpointKey, EndpointPort]
"""An address type, an endpoint and one of its ports."""


def recycled_without_gaps(
    changes: SliceActions, existing: Sequence[EndpointSlice], owner: OwnerReference
) -> SliceActions:
    """Return actions that update a slice instead of deleting it and creating another.

    The updates are in an order in which no endpoint is missing between two updates that
    exists before and after all of them. If no such order exists, no slice is used
    again: slices are created before others are deleted.
    """
    found = recycled(changes, owner)
    if len(found.update) == len(changes.update):
        return changes
    order = _order_without_gaps(found, existing)
    return changes if order is None else replace(found, update=order)


def _order_without_gaps(
    changes: SliceActions, existing: Sequence[EndpointSlice]
) -> tuple[EndpointSlice, ...] | None:
    """Return the updates in an order without gaps, `None` if there is none.

    An update that would leave a gap waits until another update brings the missing
    offer. So each update is checked once for each offer that it waits for.
    """
    gaps = _Gaps(changes, existing)
    ready, waiting = (
        list(range(len(changes.update))),
        defaultdict[_Offer, list[int]](list),
    )
    order: list[EndpointSlice] = []
    while ready:
        number = heappop(ready)
        update = changes.update[number]
        if (missing := gaps.first(update)) is not None:
            waiting[missing].append(number)
            continue
        order.append(update)
        for offer in gaps.close(update):
            for each in waiting.pop(offer, ()):
                heappush(ready, each)
    return tuple(order) if len(order) == len(changes.update) else None


class _Gaps:
    """Counts the slices that have each offer, while slices are updated in turn."""

    def __init__(
        self, changes: SliceActions, existing: Sequence[EndpointSlice]
    ) -> None:
        gone = {each.metadata.name for each in changes.delete}
        self._stored = {each.metadata.name: _offers(each) for each in existing}
        self._count = Counter(
            offer
            for offers in (*self._stored.values(), *map(_offers, changes.create))
            for offer in offers
        )
        after = {name: each for name, each in self._stored.items() if name not in gone}
        after.update((each.metadata.name, _offers(each)) for each in changes.update)
        self._final = {offer for offers in after.values() for offer in offers}
        for each in changes.create:
            self._final |= _offers(each)

    def first(self, update: EndpointSlice) -> _Offer | None:
        """Return an offer of the final state that would be missing after an update."""
        lost = self._stored[update.metadata.name] - _offers(update)
        found = (each for each in lost if each in self._final)
        return next((each for each in found if self._count[each] == 1), None)

    def close(self, update: EndpointSlice) -> set[_Offer]:
        """Apply an update to the counts; return the new offers of its slice."""
        name, offers = update.metadata.name, _offers(update)
        self._count.subtract(self._stored[name])
        self._count.update(offers)
        came = offers - self._stored[name]
        self._stored[name] = offers
        return came


def _offers(each: EndpointSlice) -> set[_Offer]:
    return {
        (each.address_type, key_of_endpoint(endpoint), port)
        for endpoint in each.endpoints or ()
        for port in each.ports or ()
    }
