"""The slices that Endpoints should have, and how the stored ones change; pure.

Upstream: reconcile of endpointslicemirroring (reconciler.go, reconciler_helpers.go). A
subset has one slice for each of its address types, so it rarely needs more than two:
only ports of the same name need slices of their own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core import services as core
from controller_manager.api.discovery import v1
from controller_manager.api.meta import (
    OwnerReference,
    annotations_of,
    controller_reference,
    labels_of,
)
from controller_manager.control.endpoints.pods import parse_address
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.control.endpoints.slices import (
    EndpointKey,
    SliceActions,
    SliceTemplate,
    is_owned,
    is_up_to_date,
    joined,
    key_of_endpoint,
    recycled,
)
from controller_manager.control.endpoints.subsets import repack

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
"""The value of the label `MANAGED_BY` of mirrored slices."""

_NOT_COPIED: Final = frozenset(
    (core.LAST_CHANGE_TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration")
)
"""Annotations of Endpoints that their slices do not get."""


class Totals(Struct, frozen=True):
    """The numbers of endpoints that are added, updated and removed."""

    added: int = 0
    updated: int = 0
    removed: int = 0


class Group(Struct, frozen=True):
    """The common properties of the endpoints of a slice: address type and ports.

    The order of the ports does not matter.
    """

    address_type: str
    ports: frozenset[v1.EndpointPort]


class Desired(Struct, frozen=True):
    """The endpoints by group; a group may have none.

    `ports` has the ports of the groups in the order of the Endpoints. `invalid` has the
    addresses that are not valid. `skipped` is the number of all addresses that are left
    out, because they are not valid or exceed the limit.
    """

    endpoints: Mapping[Group, Mapping[EndpointKey, v1.Endpoint]]
    ports: Mapping[Group, tuple[v1.EndpointPort, ...]]
    invalid: tuple[str, ...] = ()
    skipped: int = 0


def desired_endpoints(subsets: Iterable[core.EndpointSubset], limit: int) -> Desired:
    """Return the endpoints of subsets, at most `limit` per subset, ready ones first.

    The limit applies to both address types together.
    """
    found: dict[Group, dict[EndpointKey, v1.Endpoint]] = {}
    ports_of: dict[Group, tuple[v1.EndpointPort, ...]] = {}
    invalid: list[str] = []
    skipped = 0
    for subset in repack(subsets):
        groups: defaultdict[str, list[Group]] = defaultdict(list)
        for ports in _without_equal_names(map(_port, subset.ports or ())):
            for address_type in (v1.IPV4, v1.IPV6):
                group = Group(address_type, frozenset(ports))
                groups[address_type].append(group)
                found.setdefault(group, {})
                ports_of.setdefault(group, ports)
        left = limit
        ready_ones, others = subset.addresses or (), subset.not_ready_addresses or ()
        for number, address in enumerate((*ready_ones, *others)):
            if not left:
                skipped += 1
                continue
            parsed = parse_address(address.ip)
            if parsed is None:
                invalid.append(address.ip)
                continue
            is_ready = number < len(ready_ones)
            endpoint = _endpoint(address, parsed.text, ready=is_ready)
            for group in groups[parsed.type]:
                found[group][key_of_endpoint(endpoint)] = endpoint
            left -= 1
    return Desired(found, ports_of, tuple(invalid), skipped + len(invalid))


def _without_equal_names(
    ports: Iterable[v1.EndpointPort],
) -> list[tuple[v1.EndpointPort, ...]]:
    """Part the ports so that no part has two of one name; most have one part.

    An address may be in two subsets, which have a port of one name each. The canonical
    form of the subsets joins them, and the API server accepts no slice with two ports
    of one name: upstream mirrors nothing of such Endpoints.
    """
    parts: list[list[v1.EndpointPort]] = [[]]
    known: Counter[str | None] = Counter()
    for port in ports:
        # Endpoints may have 30,000 ports: compare none of them with all others.
        if known[port.name] == len(parts):
            parts.append([])
        parts[known[port.name]].append(port)
        known[port.name] += 1
    return [tuple(part) for part in parts]


def _endpoint(address: core.EndpointAddress, text: str, *, ready: bool) -> v1.Endpoint:
    """Return an endpoint; of its conditions only ready is set (addressToEndpoint)."""
    return v1.Endpoint(
        addresses=(text,),
        conditions=v1.EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
        node_name=address.node_name,
    )


def _port(port: core.EndpointPort) -> v1.EndpointPort:
    return v1.EndpointPort(
        name=port.name,
        protocol=port.protocol,
        port=port.port,
        app_protocol=port.app_protocol,
    )


class Plan(Struct, frozen=True):
    """The writes of a sync, and the numbers for metrics and events."""

    changes: SliceActions
    desired: Desired
    totals: Totals
    usage: tuple[SliceUsage, ...]


def plan(
    endpoints: core.Endpoints, slices: Sequence[v1.EndpointSlice], limit: int
) -> Plan:
    """Return the writes that make the slices mirror the Endpoints.

    `limit` is the largest number of addresses of a subset. If one slice would be
    deleted and one with the same address type created, the slice is updated instead,
    unless an endpoint would be missing meanwhile. Slices of former Endpoints of the
    same name are deleted: they are garbage.
    """
    desired = desired_endpoints(endpoints.subsets or (), limit)
    template = _template(endpoints)
    existing = _by_group(each for each in slices if is_owned(each, template.owner))
    parts: dict[Group, SliceActions] = {}
    totals: list[Totals] = []
    for group, wanted in desired.endpoints.items():
        ports, known = desired.ports[group], existing.get(group, ())
        made = replace(template, address_type=group.address_type, ports=ports)
        parts[group], counted = _changed(known, wanted, made)
        totals.append(counted)
    unwanted = [
        each
        for each in slices
        if not is_owned(each, template.owner) or _group_of(each) not in parts
    ]
    changes = recycled_without_gaps(
        joined(parts.values(), unwanted), slices, template.owner
    )
    return Plan(
        _annotated(changes, template.annotations),
        desired,
        Totals(
            added=sum(each.added for each in totals),
            updated=sum(each.updated for each in totals),
            removed=sum(each.removed for each in totals),
        ),
        tuple(
            SliceUsage(
                len(desired.endpoints[group]),
                len(existing.get(group, ())) + len(each.create) - len(each.delete),
            )
            for group, each in parts.items()
        ),
    )


def _template(endpoints: core.Endpoints) -> SliceTemplate:
    """Return the metadata of the slices of Endpoints, without type and ports."""
    own = {v1.SERVICE_NAME: endpoints.metadata.name, v1.MANAGED_BY: MANAGER}
    annotations = {
        name: value
        for name, value in annotations_of(endpoints.metadata).items()
        if name not in _NOT_COPIED
    }
    return SliceTemplate(
        namespace=endpoints.metadata.namespace,
        owner=controller_reference(endpoints, core.ENDPOINTS),
        labels={**labels_of(endpoints), **own},
        address_type="",
        ports=(),
        annotations=annotations,
    )


def _group_of(existing: v1.EndpointSlice) -> Group:
    return Group(existing.address_type, frozenset(existing.ports or ()))


def _by_group(
    slices: Iterable[v1.EndpointSlice],
) -> Mapping[Group, Sequence[v1.EndpointSlice]]:
    found: defaultdict[Group, list[v1.EndpointSlice]] = defaultdict(list)
    for each in sorted(slices, key=_age):
        found[_group_of(each)].append(each)
    return found


def _age(existing: v1.EndpointSlice) -> tuple[str, str]:
    metadata = existing.metadata
    return metadata.creation_timestamp or "", metadata.name


def _changed(
    existing: Sequence[v1.EndpointSlice],
    wanted: Mapping[EndpointKey, v1.Endpoint],
    template: SliceTemplate,
) -> tuple[SliceActions, Totals]:
    """Return the writes of the slices of a group; only the oldest slice stays."""
    if not wanted:
        lost = sum(len(each.endpoints or ()) for each in existing)
        return SliceActions(delete=tuple(existing)), Totals(removed=lost)
    endpoints = tuple(wanted.values())
    if not existing:
        new = template.make(endpoints)
        return SliceActions(create=(new,)), Totals(added=len(wanted))
    first, *surplus = existing
    totals = _totals(first, wanted)
    is_right = totals == Totals() and template.has_metadata(first)
    update = () if is_right else (template.refill(first, endpoints),)
    return SliceActions(update=update, delete=tuple(surplus)), totals


def _totals(
    existing: v1.EndpointSlice, wanted: Mapping[EndpointKey, v1.Endpoint]
) -> Totals:
    updated = removed = 0
    for endpoint in existing.endpoints or ():
        desired = wanted.get(key_of_endpoint(endpoint))
        if desired is None:
            removed += 1
        elif not is_up_to_date(endpoint, desired):
            updated += 1
    kept = len(existing.endpoints or ()) - removed
    return Totals(added=len(wanted) - kept, updated=updated, removed=removed)


def _annotated(
    changes: SliceActions, annotations: dict[str, str] | None
) -> SliceActions:
    """Return the actions with exactly these annotations in the updated slices.

    Otherwise a slice that is used again would keep annotations that the Endpoints do
    not have.
    """
    update = tuple(
        replace(each, metadata=replace(each.metadata, annotations=annotations))
        for each in changes.update
    )
    return replace(changes, update=update)


_Offer = tuple[str, EndpointKey, v1.EndpointPort]
"""An address type, an endpoint and one of its ports."""


def recycled_without_gaps(
    changes: SliceActions, existing: Sequence[v1.EndpointSlice], owner: OwnerReference
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
    changes: SliceActions, existing: Sequence[v1.EndpointSlice]
) -> tuple[v1.EndpointSlice, ...] | None:
    """Return the updates in an order without gaps, `None` if there is none.

    An update that would leave a gap waits until another update brings the missing
    offer. So each update is checked once for each offer that it waits for.
    """
    gaps = _Gaps(changes, existing)
    ready = list(range(len(changes.update)))
    waiting: defaultdict[_Offer, list[int]] = defaultdict(list)
    order: list[v1.EndpointSlice] = []
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
        self, changes: SliceActions, existing: Sequence[v1.EndpointSlice]
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

    def first(self, update: v1.EndpointSlice) -> _Offer | None:
        """Return an offer of the final state that would be missing after an update."""
        lost = self._stored[update.metadata.name] - _offers(update)
        found = (each for each in lost if each in self._final)
        return next((each for each in found if self._count[each] == 1), None)

    def close(self, update: v1.EndpointSlice) -> set[_Offer]:
        """Apply an update to the counts; return the new offers of its slice."""
        name, offers = update.metadata.name, _offers(update)
        self._count.subtract(self._stored[name])
        self._count.update(offers)
        came = offers - self._stored[name]
        self._stored[name] = offers
        return came


def _offers(each: v1.EndpointSlice) -> set[_Offer]:
    return {
        (each.address_type, key_of_endpoint(endpoint), port)
        for endpoint in each.endpoints or ()
        for port in each.ports or ()
    }
