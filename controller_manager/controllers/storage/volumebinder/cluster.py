"""What decisions about a claim read of the cluster, as a value or as the caches."""

from collections.abc import Sequence
from typing import Protocol

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.storage.v1 import StorageClass


class Cluster(Protocol):
    """Answers from memory; nothing that a decision calls waits or changes anything."""

    @property
    def provisions(self) -> bool:
        """Whether provisioning is on (``--enable-dynamic-provisioning``)."""

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume."""

    def best_volume(
        self, claim: PersistentVolumeClaim, *, only_reserved: bool
    ) -> PersistentVolume | None:
        """Return the volume that fits a claim best.

        With `only_reserved`, it is one that is reserved for the claim, or none.
        """

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""

    def default_class(self) -> StorageClass | None:
        """Return the default storage class; the newest one if there are several."""

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> Sequence[str]:
        """Return the names of the pods that use a claim and have no node yet."""
