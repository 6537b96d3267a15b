"""The objects that the decisions of one sync read from the caches."""

from collections.abc import Container, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, ObjectReference, Pod
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PersistentVolume,
    storage_class_of,
)
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.storage.v1 import (
    STORAGE_CLASSES,
    WAIT_FOR_FIRST_CONSUMER,
    StorageClass,
)
from controller_manager.control.pods_by_claim import PODS_BY_CLAIM
from controller_manager.runtime.context import ControllerContext

from .assume_cache import AssumeCache
from .indexes import CLAIMS_BY_VOLUME, DEFAULT_CLASSES, TRUE, WaitingClaims
from .locks import VolumeLocks
from .matching import VolumeIndex
from .metrics import Counts
from .options import VolumeBinderOptions


class FoundClaim(Struct, frozen=True):
    """The claim with the name that a volume refers to, `None` if there is none.

    `is_read` says that the API server has answered this, and not the cache.
    """

    claim: PersistentVolumeClaim | None = None
    is_read: bool = False


class ClusterView(Protocol):
    """The objects that decisions read; no function waits or changes an object."""

    @property
    def provisions(self) -> bool:
        """True if provisioning is on (``--enable-dynamic-provisioning``)."""

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume."""

    def best_volume(
        self, claim: PersistentVolumeClaim, *, only_reserved: bool
    ) -> PersistentVolume | None:
        """Return the volume that fits a claim best.

        With `only_reserved`, other volumes than those reserved for the claim do not
        count.
        """

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""

    def default_class(self) -> StorageClass | None:
        """Return the default storage class; the newest one if there are several."""

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> Sequence[str]:
        """Return the names of the pods that use a claim and have no node yet."""


class Caches:
    """The `ClusterView` of the caches, with own writes that the watch has not shown."""

    def __init__(self, context: ControllerContext, counts: Counts) -> None:
        """Watch volumes, claims, classes and pods."""
        self.locks = VolumeLocks()
        self.index = VolumeIndex()
        self.waiting = WaitingClaims()
        self.volumes: AssumeCache[PersistentVolume] = AssumeCache(
            context.informers.informer(PERSISTENT_VOLUMES),
            (self.index.put, counts.volume),
        )
        self.claims: AssumeCache[PersistentVolumeClaim] = AssumeCache(
            context.informers.informer(CLAIMS), (self.waiting.put, counts.claim)
        )
        self._options = context.config.of(VolumeBinderOptions)
        self._claims = context.lister(CLAIMS, CLAIMS_BY_VOLUME)
        self._volumes = context.lister(PERSISTENT_VOLUMES)
        self._classes = context.lister(STORAGE_CLASSES, DEFAULT_CLASSES)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)

    @property
    def provisions(self) -> bool:
        """True if provisioning is on."""
        return self._options.provisions

    def volume(self, name: str) -> PersistentVolume | None:
        """Return the newest version of a volume."""
        return self.volumes.get(name)

    def best_volume(
        self, claim: PersistentVolumeClaim, *, only_reserved: bool
    ) -> PersistentVolume | None:
        """Return the volume that fits a claim best."""
        reserved = self.index.reserved_for(claim)
        if reserved is not None or only_reserved:
            return reserved
        key = key_of(claim)
        return self.index.smallest(claim, lambda name: self.locks.is_taken(name, key))

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""
        return self._classes.by_key(name)

    def default_class(self) -> StorageClass | None:
        """Return the newest default class; of equally new ones, the first by name."""
        found = sorted(
            self._classes.by_index(DEFAULT_CLASSES, TRUE),
            key=lambda each: each.metadata.name,
        )
        return max(
            found, key=lambda each: each.metadata.creation_timestamp or "", default=None
        )

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> Sequence[str]:
        """Return the names of the pods that use a claim and have no node yet."""
        return [
            pod.metadata.name
            for pod in self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
            if _is_unscheduled(pod)
        ]

    def found_claim(self, reference: ObjectReference | None) -> FoundClaim:
        """Return the cached claim that a volume refers to."""
        if reference is None:
            return FoundClaim()
        key = f"{reference.namespace}/{reference.name}"
        return FoundClaim(self.claims.get(key))

    def claims_naming(self, volume: str) -> Sequence[PersistentVolumeClaim]:
        """Return the claims that have a volume, or ask for it by name."""
        return self._claims.by_index(CLAIMS_BY_VOLUME, volume)

    def claim_waiting_for(
        self, volume: PersistentVolume, but_not: Container[str]
    ) -> str | None:
        """Return the key of a claim that an available volume fits, `None` for none.

        The claims in `but_not` do not count.
        """
        found = self._classes.by_key(storage_class_of(volume))
        if found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None  # the scheduler gives these volumes away
        return self.waiting.one_for(volume, but_not)

    def keys_of_claims(self) -> Sequence[str]:
        """Return the keys of all claims."""
        return self._claims.keys()

    def names_of_volumes(self) -> Iterator[str]:
        """Yield the names of all volumes."""
        yield from self._volumes.keys()


def _is_unscheduled(pod: Pod) -> bool:
    return not (pod.spec.node_name or is_deleting(pod) or is_terminal(pod))
