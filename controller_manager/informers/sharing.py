"""Parts that cached objects of one resource share: namespaces and owners."""

from sys import intern
from typing import Final

from msgspec.structs import force_setattr

from controller_manager.api.meta import OwnerReference, PartialMetadata

MAX_REMEMBERED: Final = 4096
"""The number of parts of one sort that are remembered before all are forgotten."""


class OwnerTransform:
    """Makes objects of one resource share namespaces and owners.

    It changes frozen objects. This is safe because no other code has them yet.
    """

    def __init__(self) -> None:
        """Start without remembered owners."""
        self._owners: dict[str, tuple[OwnerReference, ...]] = {}

    def share(self, metadata: PartialMetadata) -> None:
        """Replace parts of `metadata` by equal parts of earlier objects."""
        force_setattr(metadata, "namespace", intern(metadata.namespace))
        if owners := metadata.owner_references:
            if len(self._owners) >= MAX_REMEMBERED:
                self._owners.clear()
            known = self._owners.setdefault(owners[0].uid, owners)
            if known == owners:
                force_setattr(metadata, "owner_references", known)
