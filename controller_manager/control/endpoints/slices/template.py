"""The common metadata of the slices of one owner, address type and set of ports."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.services import LAST_CHANGE_TRIGGER_TIME
from controller_manager.api.discovery.v1 import (
    ENDPOINT_SLICES,
    Endpoint,
    EndpointPort,
    EndpointSlice,
)
from controller_manager.api.meta import ObjectMeta, OwnerReference, annotations_of

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
    ports: tuple[EndpointPort, ...]
    annotations: dict[str, str] | None = None

    def make(self, endpoints: tuple[Endpoint, ...]) -> EndpointSlice:
        """Return a new slice, without a name (newEndpointSlice)."""
        metadata = ObjectMeta(
            namespace=self.namespace,
            generate_name=_prefix(self.owner.name),
            labels=self.labels,
            annotations=self.annotations or None,
            owner_references=(self.owner,),
        )
        return EndpointSlice(
            api_version=ENDPOINT_SLICES.api_version,
            kind=ENDPOINT_SLICES.kind,
            metadata=metadata,
            address_type=self.address_type,
            endpoints=endpoints,
            ports=self.ports,
        )

    def has_metadata(self, existing: EndpointSlice) -> bool:
        """Tell whether a slice has the labels and annotations of this template."""
        metadata = existing.metadata
        if (metadata.labels or {}) != self.labels:
            return False
        return (
            self.annotations is None
            or _without_trigger_time(annotations_of(metadata)) == self.annotations
        )

    def refill(
        self, existing: EndpointSlice, endpoints: tuple[Endpoint, ...]
    ) -> EndpointSlice:
        """Return a slice with other endpoints, and this template's labels."""
        annotations = existing.metadata.annotations
        if self.annotations is not None:
            annotations = self.annotations
        metadata = replace(
            existing.metadata, labels=self.labels, annotations=annotations
        )
        return replace(existing, metadata=metadata, endpoints=endpoints)


def is_owned(existing: EndpointSlice, owner: OwnerReference) -> bool:
    """Tell whether a slice belongs to this owner, by its uid (ownedBy)."""
    return any(
        each.uid == owner.uid
        and each.kind == owner.kind
        and each.api_version == owner.api_version
        for each in existing.metadata.owner_references or ()
    )


def with_trigger_time(existing: EndpointSlice, time: str) -> EndpointSlice:
    """Return a slice with the trigger time as an annotation, without one if empty."""
    annotations = _without_trigger_time(annotations_of(existing.metadata))
    if time:
        annotations[LAST_CHANGE_TRIGGER_TIME] = time
    metadata = replace(existing.metadata, annotations=annotations or None)
    return replace(existing, metadata=metadata)


def _without_trigger_time(annotations: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in annotations.items()
        if key != LAST_CHANGE_TRIGGER_TIME
    }


def _prefix(owner: str) -> str:
    """Return the start of generated names, with a dash if that is not too long."""
    return f"{owner}-" if len(owner) <= _LONGEST_PREFIX else owner
