"""Decides how the slices of Endpoints change (reconcile of endpointslicemirroring).

A subset has one slice for each of its address types, so it rarely needs more than two:
only ports of the same name need slices of their own.

Uses slices again for other ports, if no endpoint is missing meanwhile.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.endpoints import ENDPOINTS, Endpoints
from controller_manager.api.core.services import LAST_CHANGE_TRIGGER_TIME
from controller_manager.api.discovery.v1 import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from controller_manager.api.meta import OwnerReference, annotations_of, labels_of
from controller_manager.api.owners import controller_reference
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.control.endpoints.slices import (
    EndpointKey,
    SliceActions,
    SliceTemplate,
    is_owned,
    is_up_to_date,
    key_of_endpoint,
    recycled,
)

from .desired import Desired, Group, desired_endpoints

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


MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
"""The value of the label `MANAGED_BY` of mirrored slices."""

_NOT_COPIED: Final = frozenset(
    (LAST_CHANGE_TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")
)
"""Annotations of Endpoints that their slices do not get."""


class View(Struct, frozen=True):
    """Endpoints, the slices that mirror them, and the limit of addresses of a subset.

    The slices are those that this controller manages.
    """

    endpoints: Endpoints
    slices: tuple[EndpointSlice, ...]
    limit: int


class Totals(Struct, frozen=True):
    """The numbers of endpoints that are added, updated and removed."""

    added: int = 0
    updated: int = 0
    removed: int = 0


class Decision(Struct, frozen=True):
    """The actions of a sync, and the numbers for metrics and events."""

    changes: SliceActions
    desired: Desired
    totals: Totals
    usage: tuple[SliceUsage, ...]


class _GroupChange(Struct, frozen=True):
    """The writes of the slices of one group."""

    totals: Totals = Totals()
    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()


def decide(view: View) -> Decision:
    """Return the writes that make the slices mirror the Endpoints.

    If one slice would be deleted and one with the same address type created, the slice
    is updated instead, unless an endpoint would be missing meanwhile. Slices of former
    Endpoints of the same name are deleted: they are garbage.
    """
    endpoints, owner = view.endpoints, _owner(view.endpoints)
    desired = desired_endpoints(endpoints.subsets or (), view.limit)
    existing = _by_group(each for each in view.slices if is_owned(each, owner))
    changes = {
        group: _changed(
            existing.get(group, ()), wanted, _template(endpoints, group, desired.ports)
        )
        for group, wanted in desired.endpoints.items()
    }
    unwanted = [
        each
        for each in view.slices
        if not is_owned(each, owner) or _group_of(each) not in changes
    ]
    return Decision(
        _annotated(
            recycled_without_gaps(
                _joined(changes.values(), unwanted), view.slices, owner
            ),
            _annotations(endpoints),
        ),
        desired,
        _sum(each.totals for each in changes.values()),
        tuple(
            SliceUsage(
                len(desired.endpoints[group]),
                len(existing.get(group, ())) + len(each.create) - len(each.delete),
            )
            for group, each in changes.items()
        ),
    )


def _joined(
    changes: Collection[_GroupChange], unwanted: Sequence[EndpointSlice]
) -> SliceActions:
    return SliceActions(
        create=tuple(one for each in changes for one in each.create),
        update=tuple(one for each in changes for one in each.update),
        delete=(*(one for each in changes for one in each.delete), *unwanted),
    )


def _group_of(existing: EndpointSlice) -> Group:
    return Group(existing.address_type, frozenset(existing.ports or ()))


def _by_group(
    slices: Iterable[EndpointSlice],
) -> Mapping[Group, Sequence[EndpointSlice]]:
    found: defaultdict[Group, list[EndpointSlice]] = defaultdict(list)
    for each in sorted(slices, key=_age):
        found[_group_of(each)].append(each)
    return found


def _age(existing: EndpointSlice) -> tuple[str, str]:
    metadata = existing.metadata
    return metadata.creation_timestamp or "", metadata.name


def _changed(
    existing: Sequence[EndpointSlice],
    wanted: Mapping[EndpointKey, Endpoint],
    template: SliceTemplate,
) -> _GroupChange:
    """Return the writes of the slices of a group; only the oldest slice stays."""
    if not wanted:
        lost = sum(len(each.endpoints or ()) for each in existing)
        return _GroupChange(Totals(removed=lost), delete=tuple(existing))
    endpoints = tuple(wanted.values())
    if not existing:
        new = template.make(endpoints)
        return _GroupChange(Totals(added=len(wanted)), create=(new,))
    first, *surplus = existing
    totals = _totals(first, wanted)
    is_right = totals == Totals() and template.has_metadata(first)
    return _GroupChange(
        totals,
        update=() if is_right else (template.refill(first, endpoints),),
        delete=tuple(surplus),
    )


def _totals(existing: EndpointSlice, wanted: Mapping[EndpointKey, Endpoint]) -> Totals:
    updated = removed = 0
    for endpoint in existing.endpoints or ():
        desired = wanted.get(key_of_endpoint(endpoint))
        if desired is None:
            removed += 1
        elif not is_up_to_date(endpoint, desired):
            updated += 1
    kept = len(existing.endpoints or ()) - removed
    return Totals(added=len(wanted) - kept, updated=updated, removed=removed)


def _sum(parts: Iterable[Totals]) -> Totals:
    found = list(parts)
    return Totals(
        added=sum(each.added for each in found),
        updated=sum(each.updated for each in found),
        removed=sum(each.removed for each in found),
    )


def _template(
    endpoints: Endpoints,
    group: Group,
    ports: Mapping[Group, tuple[EndpointPort, ...]],
) -> SliceTemplate:
    return SliceTemplate(
        namespace=endpoints.metadata.namespace,
        owner=_owner(endpoints),
        labels=_labels(endpoints),
        address_type=group.address_type,
        ports=ports[group],
        annotations=_annotations(endpoints),
    )


def _owner(endpoints: Endpoints) -> OwnerReference:
    return controller_reference(endpoints, ENDPOINTS.api_version, ENDPOINTS.kind)


def _labels(endpoints: Endpoints) -> dict[str, str]:
    own = {SERVICE_NAME: endpoints.metadata.name, MANAGED_BY: MANAGER}
    return {**labels_of(endpoints), **own}


def _annotations(endpoints: Endpoints) -> dict[str, str]:
    return {
        name: value
        for name, value in annotations_of(endpoints.metadata).items()
        if name not in _NOT_COPIED
    }


def _annotated(changes: SliceActions, annotations: dict[str, str]) -> SliceActions:
    """Return the actions with exactly these annotations in the updated slices.

    Otherwise a slice that is used again would keep annotations that the Endpoints do
    not have.
    """
    update = tuple(
        replace(each, metadata=replace(each.metadata, annotations=annotations))
        for each in changes.update
    )
    return replace(changes, update=update)
