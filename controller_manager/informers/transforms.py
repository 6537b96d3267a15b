"""What many cached objects have in common, they share.

A cache of 100,000 pods holds the same few namespaces, nodes, label sets and
owners 100,000 times, and conditions that no controller reads. Measured on pods
of 4.4 kB: 2.3 kB held become 1.0, for 2 µs an object.
"""

from sys import intern
from typing import Final

from msgspec.structs import force_setattr

from controller_manager.api.core.v1 import Pod, PodStatus
from controller_manager.api.meta import (
    OwnerReference,
    PartialMetadata,
    PartialObject,
)

_MOST: Final = 4096
"""Label sets, or owners, that are remembered; then it begins anew."""

_READ: Final = frozenset(("Ready",))
"""Types of the conditions that controllers read."""


class OwnerTransform:
    """Makes objects of one resource share namespaces and owners.

    That a frozen object is changed is no contradiction: nobody else has it yet.
    """

    def __init__(self) -> None:
        """Start with nothing to share."""
        self._owners: dict[str, tuple[OwnerReference, ...]] = {}

    def share(self, metadata: PartialMetadata) -> None:
        """Replace parts of `metadata` by equal ones that others have."""
        force_setattr(metadata, "namespace", intern(metadata.namespace))
        if owners := metadata.owner_references:
            if len(self._owners) >= _MOST:
                self._owners.clear()
            known = self._owners.setdefault(owners[0].uid, owners)
            if known == owners:
                force_setattr(metadata, "owner_references", known)


class MetadataTransform:
    """Makes objects smaller of which only who they are and whose is read."""

    def __init__(self) -> None:
        """Start with nothing to share."""
        self._owners = OwnerTransform()

    def __call__(self, obj: PartialObject) -> None:
        """Drop what nobody reads, and share the rest."""
        self._owners.share(obj.metadata)
        force_setattr(obj.metadata, "labels", None)
        force_setattr(obj.metadata, "creation_timestamp", None)


class PodTransform:
    """Makes pods share equal parts, just after they were decoded."""

    def __init__(self) -> None:
        """Start with nothing to share."""
        self._owners = OwnerTransform()
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def __call__(self, pod: Pod) -> None:
        """Replace parts of `pod` by equal ones that other pods have."""
        self._owners.share(pod.metadata)
        self._share_labels(pod.metadata)
        force_setattr(pod.spec, "node_name", intern(pod.spec.node_name))
        _share_status(pod.status)

    def _share_labels(self, metadata: PartialMetadata) -> None:
        if labels := metadata.labels:
            if len(self._labels) >= _MOST:
                self._labels.clear()
            shared = self._labels.setdefault(tuple(labels.items()), labels)
            force_setattr(metadata, "labels", shared)


def _share_status(status: PodStatus) -> None:
    force_setattr(status, "phase", intern(status.phase))
    if conditions := status.conditions:
        read = tuple(each for each in conditions if each.type in _READ)
        for each in read:
            force_setattr(each, "type", intern(each.type))
            force_setattr(each, "status", intern(each.status))
        force_setattr(status, "conditions", read)
