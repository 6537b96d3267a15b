"""Decides how the slices of one address type of a service change.

Upstream: reconcileByAddressType of k8s.io/endpointslice (reconciler.go), and
setEndpointSliceLabels.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.services import HEADLESS, SERVICES, Service
from controller_manager.api.discovery.v1 import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from controller_manager.api.meta import OwnerReference, labels_of
from controller_manager.api.owners import controller_reference
from controller_manager.control.endpoints.addresses import is_headless
from controller_manager.control.endpoints.slices.actions import SliceActions, combined
from controller_manager.control.endpoints.slices.identity import (
    EndpointKey,
    key_of_endpoint,
)
from controller_manager.control.endpoints.slices.packing import (
    Packing,
    SliceUsage,
    pack,
)
from controller_manager.control.endpoints.slices.template import SliceTemplate, is_owned

from .desired import Backend, Ports, in_order

MANAGER: Final = "endpointslice-controller.k8s.io"
"""The value of the label ``endpointslice.kubernetes.io/managed-by``."""

_RESERVED: Final = frozenset((HEADLESS, MANAGED_BY, SERVICE_NAME))
"""Labels that slices do not copy from their service."""


def slice_labels(service: Service) -> dict[str, str]:
    """Return the labels of the slices of a service: its own, and the reserved ones."""
    labels = {
        key: value for key, value in labels_of(service).items() if key not in _RESERVED
    }
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


class SliceMetadata(Struct, frozen=True):
    """The common metadata of the slices of a service."""

    namespace: str
    owner: OwnerReference
    labels: dict[str, str]

    @classmethod
    def of(cls, service: Service) -> "SliceMetadata":
        """Return the metadata of the slices of a service, which owns them."""
        return cls(
            service.metadata.namespace,
            controller_reference(service, SERVICES.api_version, SERVICES.kind),
            slice_labels(service),
        )

    def template(
        self, address_type: str, ports: tuple[EndpointPort, ...]
    ) -> SliceTemplate:
        """Return the template of the slices of one address type and set of ports."""
        return SliceTemplate(
            self.namespace, self.owner, self.labels, address_type, ports
        )


class AddressTypeView(Struct, frozen=True):
    """The slices of one address type, and the backends of the changed pods.

    `settled` are slices that are right; the backends in them are not in `backends`.
    """

    address_type: str
    slices: tuple[EndpointSlice, ...]
    settled: tuple[EndpointSlice, ...]
    backends: tuple[Backend, ...]


class AddressTypePlan(Struct, frozen=True):
    """The changes of the slices of one address type, without hints."""

    address_type: str
    changes: SliceActions
    usage: tuple[SliceUsage, ...]
    added: int
    removed: int


class _Group(Struct):
    """Slices and backends with the same ports."""

    slices: list[EndpointSlice]
    settled: list[EndpointSlice]
    desired: dict[EndpointKey, Endpoint]

    @property
    def count(self) -> int:
        """The number of endpoints that the slices should have."""
        settled = sum(len(each.endpoints or ()) for each in self.settled)
        return len(self.desired) + settled


def decide(
    view: AddressTypeView, metadata: SliceMetadata, limit: int
) -> AddressTypePlan:
    """Return how slices change, so that they have the endpoints of the backends.

    `limit` is the largest number of endpoints of a slice. Slices of a former service of
    the same name are deleted, and so are slices with ports that no backend has. If no
    slice is left, an empty one is created, the placeholder.
    """
    owned = [each for each in view.slices if is_owned(each, metadata.owner)]
    foreign = [each for each in view.slices if not is_owned(each, metadata.owner)]
    groups = _groups(owned, view.settled, view.backends)
    wanted = {ports: group for ports, group in groups.items() if group.count}
    packings = {
        ports: pack(
            group.slices,
            group.desired,
            metadata.template(view.address_type, ports),
            limit,
            group.settled,
        )
        for ports, group in wanted.items()
    }
    unwanted = [
        each
        for ports, group in groups.items()
        if ports not in wanted
        for each in group.slices
    ]
    changes = combined(packings.values(), [*foreign, *unwanted])
    return AddressTypePlan(
        view.address_type,
        _with_placeholder(changes, metadata, view.address_type),
        _usage(wanted, packings) or (SliceUsage(0, 1),),
        added=sum(each.added for each in packings.values()),
        removed=sum(each.removed for each in packings.values()),
    )


def _groups(
    owned: Iterable[EndpointSlice],
    settled: Iterable[EndpointSlice],
    backends: Iterable[Backend],
) -> dict[Ports, _Group]:
    groups: dict[Ports, _Group] = {}

    def group(ports: Ports) -> _Group:
        if ports not in groups:
            groups[ports] = _Group([], [], {})
        return groups[ports]

    for each in owned:
        group(in_order(each.ports)).slices.append(each)
    for each in settled:
        group(in_order(each.ports)).settled.append(each)
    for backend in backends:
        desired = group(backend.ports).desired
        desired[key_of_endpoint(backend.endpoint)] = backend.endpoint
    return groups


def _with_placeholder(
    changes: SliceActions, metadata: SliceMetadata, address_type: str
) -> SliceActions:
    """Return actions that leave at least one slice: clients see that it is complete."""
    if changes.create or changes.update or changes.unchanged:
        return changes
    placeholder = metadata.template(address_type, ()).make(())
    match changes.delete:
        case (only,) if _is_same_placeholder(only, placeholder, metadata):
            return replace(changes, delete=(), unchanged=(only,))
    return replace(changes, create=(placeholder,))


def _is_same_placeholder(
    existing: EndpointSlice, placeholder: EndpointSlice, metadata: SliceMetadata
) -> bool:
    return (
        not existing.endpoints
        and not existing.ports
        and (existing.metadata.labels or {}) == placeholder.metadata.labels
        and is_owned(existing, metadata.owner)
    )


def _usage(
    wanted: Mapping[Ports, _Group], packings: Mapping[Ports, Packing]
) -> tuple[SliceUsage, ...]:
    return tuple(
        SliceUsage(group.count, _kept(packings[ports]))
        for ports, group in wanted.items()
    )


def _kept(packing: Packing) -> int:
    return len(packing.create) + len(packing.update) + len(packing.unchanged)


def only_of(
    slices: Sequence[EndpointSlice], address_type: str
) -> tuple[EndpointSlice, ...]:
    """Return the slices of one address type."""
    return tuple(each for each in slices if each.address_type == address_type)
