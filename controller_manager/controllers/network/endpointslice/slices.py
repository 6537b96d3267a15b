"""The slices that a service should have, and how the stored ones change; pure.

Upstream: k8s.io/endpointslice: podToEndpoint, getEndpointPorts, setEndpointSliceLabels
(utils.go), reconcileByAddressType and reconcileByPortMapping (reconciler.go).

Endpoints never move from one slice to another, and half-empty slices are never merged:
every slice that changes is sent to every node.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.services import HEADLESS, SERVICES, Service
from controller_manager.api.core.v1 import PODS, Node, ObjectReference, Pod
from controller_manager.api.discovery import v1
from controller_manager.api.meta import controller_reference, is_deleting, labels_of
from controller_manager.api.pods import is_ready
from controller_manager.control.endpoints import pods
from controller_manager.control.endpoints.slice_writes import SliceUsage
from controller_manager.control.endpoints.slices import (
    EndpointKey,
    SliceActions,
    SliceTemplate,
    is_owned,
    is_up_to_date,
    joined,
    key_of_endpoint,
)

MANAGER: Final = "endpointslice-controller.k8s.io"
"""The value of the label ``endpointslice.kubernetes.io/managed-by``."""

ZONE: Final = "topology.kubernetes.io/zone"
"""The label of a node that names its zone."""

_RESERVED: Final = frozenset((HEADLESS, v1.MANAGED_BY, v1.SERVICE_NAME))
"""Labels that slices do not copy from their service."""

Ports = tuple[v1.EndpointPort, ...]
"""The ports of a slice, in the order of their names."""

_CONDITIONS: Final = {
    states: v1.EndpointConditions(*states)
    for states in product((False, True), repeat=3)
}
"""All conditions that an endpoint may have; endpoints share them."""


class Backend(Struct, frozen=True):
    """The endpoint of a pod, for one type of address, and the ports that it serves."""

    ports: Ports
    endpoint: v1.Endpoint


def in_order(ports: Ports | None) -> Ports:
    """Return ports in a fixed order, so that equal sets of ports compare equal."""
    return tuple(
        sorted(
            ports or (),
            key=lambda each: (
                each.name or "",
                each.port or 0,
                each.protocol or "",
                each.app_protocol or "",
            ),
        )
    )


class ServicePorts:
    """The ports of a service on its pods."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._same: Ports | None = None
        """The ports of every pod, if they do not depend on the pod."""

    def of(self, pod: Pod) -> Ports:
        """Return the ports of the service on a pod, in order."""
        if self._same is None:
            ports = in_order(pods.endpoint_ports(self._service, pod))
            if pods.depends_on_pod(self._service):
                return ports
            self._same = ports
        return self._same


def endpoint_of(
    service: Service, pod: Pod, node: Node | None, address_type: str
) -> v1.Endpoint | None:
    """Return the endpoint of a pod; `None` if it has no address of this type."""
    addresses = pods.addresses_of(pod, address_type)
    if not addresses:
        return None
    metadata = pod.metadata
    ready = pods.takes_traffic(pod, service)
    return v1.Endpoint(
        addresses=addresses,
        conditions=_CONDITIONS[ready, is_ready(pod), is_deleting(pod)],
        hostname=pod.spec.hostname if pods.has_hostname(pod, service) else None,
        target_ref=ObjectReference(
            PODS.kind, metadata.namespace, metadata.name, metadata.uid
        ),
        node_name=pod.spec.node_name or None,
        zone=zone_of(node) or None,
    )


def zone_of(node: Node | None) -> str:
    """Return the zone of a node, empty if it is not known."""
    return "" if node is None else labels_of(node).get(ZONE, "")


def is_managed(each: v1.EndpointSlice) -> bool:
    """Tell whether this controller manages a slice."""
    return labels_of(each).get(v1.MANAGED_BY) == MANAGER


def slice_labels(service: Service) -> dict[str, str]:
    """Return the labels of the slices of a service: its own, and the reserved ones."""
    own = {v1.SERVICE_NAME: service.metadata.name, v1.MANAGED_BY: MANAGER}
    if pods.is_headless(service):
        own[HEADLESS] = ""
    copied = labels_of(service).items()
    return {key: value for key, value in copied if key not in _RESERVED} | own


def template_of(service: Service, address_type: str) -> SliceTemplate:
    """Return the template of the slices of a service that have no ports yet."""
    owner = controller_reference(service, SERVICES)
    namespace, labels = service.metadata.namespace, slice_labels(service)
    return SliceTemplate(namespace, owner, labels, address_type, ())


class Plan(Struct, frozen=True):
    """How slices change, without hints, and the numbers for metrics.

    `added` and `removed` are numbers of endpoints; `usage` has an entry for each set of
    ports.
    """

    changes: SliceActions
    usage: tuple[SliceUsage, ...]
    added: int
    removed: int


class _Group(Struct):
    """Slices and backends with the same ports."""

    slices: list[v1.EndpointSlice]
    settled: list[v1.EndpointSlice]
    desired: dict[EndpointKey, v1.Endpoint]


def plan(
    template: SliceTemplate,
    slices: Iterable[v1.EndpointSlice],
    settled: Iterable[v1.EndpointSlice],
    backends: Iterable[Backend],
    limit: int,
) -> Plan:
    """Return how the slices of one address type change, to have all backends.

    `settled` are slices that are right; the backends in them are not in `backends`.
    `limit` is the largest number of endpoints of a slice. Slices of a former service of
    the same name are deleted, and so are slices with ports that no backend has. If no
    slice is left, an empty one is created, the placeholder.
    """
    slices = tuple(slices)
    owned = [each for each in slices if is_owned(each, template.owner)]
    parts: list[Plan] = []
    unwanted = [each for each in slices if not is_owned(each, template.owner)]
    for ports, group in _groups(owned, settled, backends).items():
        if group.desired or group.settled:
            of_ports = replace(template, ports=ports)
            parts.append(
                pack(group.slices, group.desired, of_ports, limit, group.settled)
            )
        else:
            unwanted += group.slices
    changes = joined((each.changes for each in parts), unwanted)
    return Plan(
        _with_placeholder(changes, template),
        tuple(one for each in parts for one in each.usage) or (SliceUsage(0, 1),),
        added=sum(each.added for each in parts),
        removed=sum(each.removed for each in parts),
    )


def _groups(
    owned: Iterable[v1.EndpointSlice],
    settled: Iterable[v1.EndpointSlice],
    backends: Iterable[Backend],
) -> dict[Ports, _Group]:
    groups: defaultdict[Ports, _Group] = defaultdict(lambda: _Group([], [], {}))
    for each in owned:
        groups[in_order(each.ports)].slices.append(each)
    for each in settled:
        groups[in_order(each.ports)].settled.append(each)
    for backend in backends:
        desired = groups[backend.ports].desired
        desired[key_of_endpoint(backend.endpoint)] = backend.endpoint
    return groups


def _with_placeholder(changes: SliceActions, template: SliceTemplate) -> SliceActions:
    """Return actions that leave at least one slice: clients see that it is complete."""
    if changes.left:
        return changes
    match changes.delete:
        case (only,) if not only.endpoints and not only.ports:
            if template.has_metadata(only) and is_owned(only, template.owner):
                return replace(changes, delete=(), unchanged=(only,))
    return replace(changes, create=(template.make(()),))


class _Draft(Struct):
    """A slice, and the endpoints that it is to have."""

    existing: v1.EndpointSlice
    endpoints: Sequence[v1.Endpoint]
    has_changed: bool = False
    lost: int = 0


def pack(
    existing: Sequence[v1.EndpointSlice],
    desired: Mapping[EndpointKey, v1.Endpoint],
    template: SliceTemplate,
    limit: int,
    settled: Sequence[v1.EndpointSlice] = (),
) -> Plan:
    """Return the changes by which slices with the same ports get the desired endpoints.

    `limit` is the largest number of endpoints of a slice. `settled` are slices that are
    known to have the template's metadata and only desired endpoints, all of them up to
    date; `desired` must not have their endpoints. Endpoints that no slice has yet go,
    in this order:

    1. into slices that change anyway, the fullest first;
    2. all of them into one other slice: the one that they fill best;
    3. into new slices.

    A slice without endpoints is deleted, even if a user emptied it.
    """
    missing = dict(desired)
    drafts = [_draft(each, missing, template) for each in existing]
    drafts += [_Draft(each, each.endpoints or ()) for each in settled]
    added = len(missing)
    _fill_changed(drafts, missing, limit)
    created = _place(drafts, missing, limit)
    filled = [each for each in drafts if each.endpoints]
    changes = SliceActions(
        create=tuple(template.make(each) for each in created),
        update=tuple(
            template.refill(each.existing, tuple(each.endpoints))
            for each in filled
            if each.has_changed
        ),
        delete=tuple(each.existing for each in drafts if not each.endpoints),
        unchanged=tuple(each.existing for each in filled if not each.has_changed),
    )
    count = len(desired) + sum(len(each.endpoints or ()) for each in settled)
    removed = sum(each.lost for each in drafts)
    return Plan(changes, (SliceUsage(count, changes.left),), added, removed)


def _draft(
    existing: v1.EndpointSlice,
    missing: dict[EndpointKey, v1.Endpoint],
    template: SliceTemplate,
) -> _Draft:
    kept: list[v1.Endpoint] = []
    has_changed = not template.has_metadata(existing)
    before = existing.endpoints or ()
    for endpoint in before:
        wanted = missing.pop(key_of_endpoint(endpoint), None)
        if wanted is not None:
            kept.append(wanted)
            has_changed = has_changed or not is_up_to_date(endpoint, wanted)
    lost = len(before) - len(kept)
    return _Draft(existing, kept, has_changed or lost > 0, lost)


def _fill_changed(
    drafts: Sequence[_Draft], missing: dict[EndpointKey, v1.Endpoint], limit: int
) -> None:
    """Put missing endpoints into slices that change anyway, the fullest first.

    A slice that has lost all its endpoints gets no others.
    """
    changed = (
        each
        for each in drafts
        if each.has_changed and (each.endpoints or not each.lost)
    )
    for draft in sorted(changed, key=lambda each: -len(each.endpoints)):
        room = limit - len(draft.endpoints)
        draft.endpoints = (*draft.endpoints, *_take(missing, room))


def _place(
    drafts: Sequence[_Draft], missing: dict[EndpointKey, v1.Endpoint], limit: int
) -> list[tuple[v1.Endpoint, ...]]:
    """Put the other endpoints into slices; return those for new slices.

    As many as fill a slice go into a new one. The rest goes into the unchanged slice
    that it fills best (getSliceToFill), or into a new one.
    """
    created: list[tuple[v1.Endpoint, ...]] = []
    while len(missing) >= limit:
        created.append(_take(missing, limit))
    if count := len(missing):
        quiet = [each for each in drafts if not each.has_changed]
        room = [each for each in quiet if len(each.endpoints) + count <= limit]
        if not room:
            return [*created, _take(missing, limit)]
        draft = max(room, key=lambda each: len(each.endpoints))
        draft.endpoints = (*draft.endpoints, *_take(missing, count))
        draft.has_changed = True
    return created


def _take(
    missing: dict[EndpointKey, v1.Endpoint], count: int
) -> tuple[v1.Endpoint, ...]:
    keys = list(islice(missing, max(count, 0)))
    return tuple(missing.pop(key) for key in keys)
