"""Indexes of claims and storage classes, and the claims that wait for a volume."""

from collections.abc import Container, Iterable
from itertools import islice
from typing import Final

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of
from controller_manager.api.storage.v1 import StorageClass
from controller_manager.informers.indexes import Index
from controller_manager.runtime.outcome import SyncError

from .annotations import BIND_COMPLETED
from .matching import Kind, fits, kind_of_claim, kind_of_volume


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
