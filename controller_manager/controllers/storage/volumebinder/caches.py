"""What the binder keeps in memory: volumes, claims, classes and pods, with indexes."""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

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
from controller_manager.controllers.storage.volumebinder.assumed import AssumedObjects
from controller_manager.controllers.storage.volumebinder.holds import Holds
from controller_manager.controllers.storage.volumebinder.matching import VolumeIndex
from controller_manager.controllers.storage.volumebinder.metrics import Census
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.controllers.storage.volumebinder.volume_steps import FoundClaim
from controller_manager.controllers.storage.volumebinder.waiting import WaitingClaims
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext


def _volume_name(claim: PersistentVolumeClaim) -> Iterable[str]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()


def _has_same_volume(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    return old.spec.volume_name == new.spec.volume_name


CLAIMS_BY_VOLUME: Final = Index("volume", _volume_name, _has_same_volume)
"""Claims by the name of the volume that they have or ask for."""


_YES: Final = "true"


def _is_default(storage_class: StorageClass) -> Iterable[str]:
    """Return ``true`` for a default class (IsDefaultAnnotation)."""
    found = storage_class.metadata.annotations
    is_marked = found is not None and _YES in (found.is_default, found.beta_is_default)
    return (_YES,) if is_marked else ()


def _has_same_marks(old: StorageClass, new: StorageClass) -> bool:
    return old.metadata.annotations == new.metadata.annotations


_DEFAULT_CLASSES: Final = Index("default", _is_default, _has_same_marks)


class Caches:
    """The answers that decisions need (`cluster.Cluster`)."""

    def __init__(self, context: ControllerContext, census: Census) -> None:
        """Watch volumes, claims, classes and pods."""
        self.holds = Holds()
        self.index = VolumeIndex()
        self.waiting = WaitingClaims()
        self.volumes: AssumedObjects[PersistentVolume] = AssumedObjects(
            context.informers.informer(PERSISTENT_VOLUMES),
            (self.index.put, census.volume),
        )
        self.claims: AssumedObjects[PersistentVolumeClaim] = AssumedObjects(
            context.informers.informer(CLAIMS), (self.waiting.put, census.claim)
        )
        self._options = context.config.of(VolumeBinderOptions)
        self._claims = context.lister(CLAIMS, CLAIMS_BY_VOLUME)
        self._volumes = context.lister(PERSISTENT_VOLUMES)
        self._classes = context.lister(STORAGE_CLASSES, _DEFAULT_CLASSES)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)

    @property
    def provisions(self) -> bool:
        """Whether provisioning is on."""
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
        return self.index.smallest(claim, lambda name: self.holds.is_taken(name, key))

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class."""
        return self._classes.by_key(name)

    def default_class(self) -> StorageClass | None:
        """Return the newest of the default classes; of two, the first by name."""
        found = sorted(
            self._classes.by_index(_DEFAULT_CLASSES, _YES),
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
        """Return what is known of the claim that a volume refers to."""
        if reference is None:
            return FoundClaim()
        key = f"{reference.namespace}/{reference.name}"
        return FoundClaim(self.claims.get(key))

    def claims_naming(self, volume: str) -> Sequence[PersistentVolumeClaim]:
        """Return the claims that have a volume, or ask for it."""
        return self._claims.by_index(CLAIMS_BY_VOLUME, volume)

    def claim_waiting_for(
        self, volume: PersistentVolume, but_not: Container[str]
    ) -> str | None:
        """Return the key of a claim that an available volume fits; not in `but_not`."""
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
