"""Endpoint slices of one owner, as values: their metadata, endpoints and writes.

Upstream: k8s.io/endpointslice (utils.go) and reconciler_helpers.go of mirroring.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.services import LAST_CHANGE_TRIGGER_TIME
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.discovery import v1
from controller_manager.api.meta import (
    ObjectMeta,
    OwnerReference,
    annotations_of,
    labels_of,
)
from controller_manager.informers.store import Index


def service_key_of(each: v1.EndpointSlice) -> str:
    """Return the key of the service that the label of a slice names, "" without it."""
    name = labels_of(each).get(v1.SERVICE_NAME, "")
    return f"{each.metadata.namespace}/{name}" if name else ""


def _service_keys(each: v1.EndpointSlice) -> Iterable[str]:
    return (key,) if (key := service_key_of(each)) else ()


def _has_same_labels(old: v1.EndpointSlice, new: v1.EndpointSlice) -> bool:
    return old.metadata.labels == new.metadata.labels


BY_SERVICE: Final = Index("service", _service_keys, _has_same_labels)
"""Slices by the key of their service, also slices of other managers."""


EndpointKey = tuple[tuple[str, ...], str, str, str]
"""The addresses of an endpoint, its host name, and its target's namespace and name."""


def key_of_endpoint(endpoint: v1.Endpoint) -> EndpointKey:
    """Return the key of an endpoint; two versions of one endpoint have the same key.

    So a change of readiness, node or zone is an update in place.
    """
    addresses = endpoint.addresses or ()
    if len(addresses) > 1:
        addresses = tuple(sorted(addresses))
    target = endpoint.target_ref
    namespace, name = ("", "") if target is None else (target.namespace, target.name)
    return addresses, endpoint.hostname or "", namespace, name


def is_up_to_date(existing: v1.Endpoint, desired: v1.Endpoint) -> bool:
    """Tell whether an endpoint equals the desired one, except for its hints."""
    return (
        existing.conditions == desired.conditions
        and existing.node_name == desired.node_name
        and existing.zone == desired.zone
        and _is_same_target(existing.target_ref, desired.target_ref)
    )


def _is_same_target(one: ObjectReference | None, two: ObjectReference | None) -> bool:
    if one is None or two is None or one == two:
        return one == two
    # Each update of a pod changes its resource version.
    return replace(one, resource_version="") == replace(two, resource_version="")


_LONGEST_PREFIX: Final = 253 - 1
"""The longest service name that leaves room for a dash: names have 253 characters."""


class SliceTemplate(Struct, frozen=True):
    """The metadata, address type and ports of slices.

    `labels` are all labels of a slice. `annotations` are all annotations besides the
    trigger time; `None` leaves those of a slice as they are.
    """

    namespace: str
    owner: OwnerReference
    labels: dict[str, str]
    address_type: str
    ports: tuple[v1.EndpointPort, ...]
    annotations: dict[str, str] | None = None

    def make(self, endpoints: tuple[v1.Endpoint, ...]) -> v1.EndpointSlice:
        """Return a new slice, without a name (newEndpointSlice)."""
        owner = self.owner.name
        metadata = ObjectMeta(
            namespace=self.namespace,
            generate_name=owner if len(owner) > _LONGEST_PREFIX else f"{owner}-",
            labels=self.labels,
            annotations=self.annotations or None,
            owner_references=(self.owner,),
        )
        return v1.EndpointSlice(
            api_version=v1.ENDPOINT_SLICES.api_version,
            kind=v1.ENDPOINT_SLICES.kind,
            metadata=metadata,
            address_type=self.address_type,
            endpoints=endpoints,
            ports=self.ports,
        )

    def has_metadata(self, existing: v1.EndpointSlice) -> bool:
        """Tell whether a slice has the labels and annotations of this template."""
        annotations = _without_trigger_time(annotations_of(existing.metadata))
        return labels_of(existing) == self.labels and (
            self.annotations is None or annotations == self.annotations
        )

    def refill(
        self, existing: v1.EndpointSlice, endpoints: tuple[v1.Endpoint, ...]
    ) -> v1.EndpointSlice:
        """Return a slice with other endpoints, and this template's labels."""
        metadata = replace(existing.metadata, labels=self.labels)
        if self.annotations is not None:
            metadata = replace(metadata, annotations=self.annotations)
        return replace(existing, metadata=metadata, endpoints=endpoints)


def is_owned(existing: v1.EndpointSlice, owner: OwnerReference) -> bool:
    """Tell whether a slice belongs to this owner, by its uid (ownedBy)."""
    return any(
        each.uid == owner.uid
        and each.kind == owner.kind
        and each.api_version == owner.api_version
        for each in existing.metadata.owner_references or ()
    )


def with_trigger_time(existing: v1.EndpointSlice, time: str) -> v1.EndpointSlice:
    """Return a slice with the trigger time as an annotation, without one if empty."""
    annotations = _without_trigger_time(annotations_of(existing.metadata))
    if time:
        annotations[LAST_CHANGE_TRIGGER_TIME] = time
    metadata = replace(existing.metadata, annotations=annotations or None)
    return replace(existing, metadata=metadata)


def _without_trigger_time(annotations: Mapping[str, str]) -> dict[str, str]:
    kept = dict(annotations)
    kept.pop(LAST_CHANGE_TRIGGER_TIME, None)
    return kept


class SliceActions(Struct, frozen=True):
    """The writes of slices of a sync, and the slices that stay as they are."""

    create: tuple[v1.EndpointSlice, ...] = ()
    update: tuple[v1.EndpointSlice, ...] = ()
    delete: tuple[v1.EndpointSlice, ...] = ()
    unchanged: tuple[v1.EndpointSlice, ...] = ()

    @property
    def count(self) -> int:
        """The number of slices that are written."""
        return len(self.create) + len(self.update) + len(self.delete)

    @property
    def left(self) -> int:
        """The number of slices that exist after the writes."""
        return len(self.create) + len(self.update) + len(self.unchanged)


def joined(
    parts: Iterable[SliceActions], unwanted: Sequence[v1.EndpointSlice] = ()
) -> SliceActions:
    """Return all actions together; unwanted slices are deleted."""
    found = (*parts, SliceActions(delete=tuple(unwanted)))
    return SliceActions(
        create=tuple(one for each in found for one in each.create),
        update=tuple(one for each in found for one in each.update),
        delete=tuple(one for each in found for one in each.delete),
        unchanged=tuple(one for each in found for one in each.unchanged),
    )


def recycled(changes: SliceActions, owner: OwnerReference) -> SliceActions:
    """Return actions that update a slice instead of deleting it and creating another.

    Only slices of this owner are used again, and only for the same address type, which
    cannot change. The garbage collector deletes a slice of another owner soon
    (finalize).
    """
    create = list(changes.create)
    update, delete = list(changes.update), []
    for each in changes.delete:
        fits = create and each.address_type == create[-1].address_type
        if fits and is_owned(each, owner):
            new = create.pop()
            annotations = new.metadata.annotations or each.metadata.annotations
            metadata = replace(
                each.metadata, labels=new.metadata.labels, annotations=annotations
            )
            update.append(
                replace(
                    each, metadata=metadata, endpoints=new.endpoints, ports=new.ports
                )
            )
        else:
            delete.append(each)
    return replace(
        changes, create=tuple(create), update=tuple(update), delete=tuple(delete)
    )
