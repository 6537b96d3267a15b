"""Uses slices again for other ports, if nothing is missing meanwhile."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from controller_manager.api.discovery.v1 import EndpointPort, EndpointSlice
from controller_manager.api.meta import OwnerReference
from controller_manager.control.endpoints.slices.changes import Changes, recycled
from controller_manager.control.endpoints.slices.identity import (
    EndpointKey,
    key_of_endpoint,
)

_Offer = tuple[str, EndpointKey, EndpointPort]
"""An address type, an endpoint and one of its ports."""


def recycled_without_gaps(
    changes: Changes, existing: Sequence[EndpointSlice], owner: OwnerReference
) -> Changes:
    """Return changes that update a slice where one would be deleted and one created.

    The updates are in an order in which no endpoint is missing between two of them that
    is there before and after all. If there is none, nothing is used again: slices are
    created before others are deleted.
    """
    found = recycled(changes, owner)
    if len(found.update) == len(changes.update):
        return changes
    order = _order_without_gaps(found, existing)
    return changes if order is None else replace(found, update=order)


def _order_without_gaps(
    changes: Changes, existing: Sequence[EndpointSlice]
) -> tuple[EndpointSlice, ...] | None:
    """Return the updates in such an order, `None` if there is none."""
    gone = {each.metadata.name for each in changes.delete}
    stored = {each.metadata.name: _offers((each,)) for each in existing}
    final = _offers((*changes.create, *changes.update)).union(
        *(
            offers
            for name, offers in stored.items()
            if name not in gone
            and name not in {each.metadata.name for each in changes.update}
        )
    )
    stored[""] = _offers(changes.create)
    left, order = list(changes.update), []
    while left:
        following = next((each for each in left if _fits(each, stored, final)), None)
        if following is None:
            return None
        left.remove(following)
        order.append(following)
        stored[following.metadata.name] = _offers((following,))
    return tuple(order)


def _fits(
    update: EndpointSlice, stored: dict[str, set[_Offer]], final: set[_Offer]
) -> bool:
    """Tell whether nothing that stays is missing after an update."""
    name = update.metadata.name
    others = (offers for each, offers in stored.items() if each != name)
    return (stored[name] & final) <= _offers((update,)).union(*others)


def _offers(slices: Iterable[EndpointSlice]) -> set[_Offer]:
    return {
        (each.address_type, key_of_endpoint(endpoint), port)
        for each in slices
        for endpoint in each.endpoints or ()
        for port in each.ports or ()
    }
