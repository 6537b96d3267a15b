"""Decides how the slices of Endpoints change (reconcile of endpointslicemirroring).

A subset has one slice for each of its address types, so it rarely needs more than two:
only ports of the same name need slices of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from controller_manager.control.endpoints.slices.actions import SliceActions
from controller_manager.control.endpoints.slices.identity import (
    EndpointKey,
    is_up_to_date,
    key_of_endpoint,
)
from controller_manager.control.endpoints.slices.packing import SliceUsage
from controller_manager.control.endpoints.slices.template import SliceTemplate, is_owned

from .desired import Desired, Group, desired_endpoints
from .recycling import recycled_without_gaps

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
