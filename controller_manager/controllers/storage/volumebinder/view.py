"""The objects that the decisions of one sync read from the caches.

Locks of volumes, and the claims that are getting them.

Upstream has one worker for claims and one for volumes. Here several claims are bound at
a time, so that one slow request does not delay all others.

Indexes of claims and storage classes, and the claims that wait for a volume.
"""

import asyncio
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, Protocol

from msgspec import Struct

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, ObjectReference, Pod
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PersistentVolume,
    storage_class_of,
)
from controller_manager.api.meta import annotations_of, is_deleting, key_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.storage.v1 import (
    STORAGE_CLASSES,
    WAIT_FOR_FIRST_CONSUMER,
    StorageClass,
)
from controller_manager.control.pods_by_claim import PODS_BY_CLAIM
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from .annotations import BIND_COMPLETED
from .assume_cache import AssumeCache
from .matching import Kind, VolumeIndex, fits, kind_of_claim, kind_of_volume
from .metrics import Counts
from .options import VolumeBinderOptions


def _volume_name(claim: PersistentVolumeClaim) -> Iterable[str]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()


def _has_same_volume(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    return old.spec.volume_name == new.spec.volume_name


CLAIMS_BY_VOLUME: Final = Index("volume", _volume_name, _has_same_volume)
"""Claims by the name of the volume that they have or ask for."""


TRUE: Final = "true"


def _is_default(storage_class: StorageClass) -> Iterable[str]:
    """Return ``true`` for a default class (IsDefaultAnnotation)."""
    found = storage_class.metadata.annotations
    is_marked = found is not None and TRUE in (found.is_default, found.beta_is_default)
    return (TRUE,) if is_marked else ()


def _has_same_marks(old: StorageClass, new: StorageClass) -> bool:
    return old.metadata.annotations == new.metadata.annotations


DEFAULT_CLASSES: Final = Index("default", _is_default, _has_same_marks)
"""Default storage classes, by the value `TRUE`."""

_MAX_CANDIDATES: Final = 100
"""The most claims that are compared with a volume: a fifth of a millisecond."""


class WaitingClaims:
    """Claims that accept any volume, by the requested kind; the oldest first."""

    def __init__(self) -> None:
        """Start without claims."""
        self._claims: dict[Kind, dict[str, PersistentVolumeClaim]] = {}
        self._kinds: dict[str, Kind] = {}

    def __len__(self) -> int:
        """Return the number of claims that wait."""
        return len(self._kinds)

    def put(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """Take the newest version of a claim, `None` if it is gone."""
        kind = _wanted_kind(claim) if claim is not None else None
        old = self._kinds.get(key)
        if old is not None and old != kind:
            del self._kinds[key], self._claims[old][key]
            if not self._claims[old]:
                del self._claims[old]
        if kind is not None and claim is not None:
            self._kinds[key] = kind
            self._claims.setdefault(kind, {})[key] = claim

    def one_for(self, volume: PersistentVolume, but_not: Container[str]) -> str | None:
        """Return the key of a claim that an available volume fits.

        The claims in `but_not` do not count. If many claims ask for volumes of this
        kind, only the oldest ones are compared: the others are synced after the sync
        period.
        """
        found = self._claims.get(kind_of_volume(volume), {})
        others = (each for each in found.items() if each[0] not in but_not)
        for key, claim in islice(others, _MAX_CANDIDATES):
            if _is_fitting(volume, claim):
                return key
        return None


def _wanted_kind(claim: PersistentVolumeClaim) -> Kind | None:
    """Return the kind of volume that a claim accepts, `None` if it has a volume."""
    has_one = BIND_COMPLETED in annotations_of(claim.metadata)
    return None if has_one or claim.spec.volume_name else kind_of_claim(claim)


def _is_fitting(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    try:
        return fits(volume, claim)
    except SyncError:
        return False  # the sync of the claim reports it


class VolumeLocks:
    """Locks of volumes by name.

    A sync locks a volume before it changes the volume, and then decides again. While
    the sync of a claim has the lock of a volume, or waits for it, no other claim
    chooses the volume.
    """

    def __init__(self) -> None:
        """Start without locks."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._claims: dict[str, str] = {}

    def __len__(self) -> int:
        """Return the number of locked volumes."""
        return len(self._locks)

    def is_taken(self, volume: str, claim: str) -> bool:
        """Tell whether a claim other than `claim` is getting a volume."""
        return self._claims.get(volume, claim) != claim

    @asynccontextmanager
    async def lock(self, volume: str, claim: str = "") -> AsyncIterator[None]:
        """Lock a volume, for a claim if its key is given."""
        lock = self._locks.setdefault(volume, asyncio.Lock())
        self._waiting[volume] = self._waiting.get(volume, 0) + 1
        takes = bool(claim) and volume not in self._claims
        if takes:
            self._claims[volume] = claim
        try:
            async with lock:
                yield
        finally:
            if takes:
                del self._claims[volume]
            self._waiting[volume] -= 1
            if not self._waiting[volume]:
                del self._waiting[volume], self._locks[volume]


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
