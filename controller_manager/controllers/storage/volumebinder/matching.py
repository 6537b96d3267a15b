"""Finds the best volume for a claim (index.go, FindMatchingVolume of pv_helpers.go).

An index has the available volumes by class, by modes and by size, so a claim is
compared with few volumes. Another has the claims that wait for a volume.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import (
    STORAGE,
    PersistentVolumeClaim,
    requested_storage,
)
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of, is_deleting, key_of, labels_of
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.api.selectors import (
    EVERYTHING,
    Selector,
    SelectorError,
    compile_selector,
)
from controller_manager.runtime.outcome import SyncError

from .binding import BIND_COMPLETED, is_available, is_reserved_for, refers_to

_FILESYSTEM: Final = "Filesystem"
"""The volume mode of claims and volumes without a volume mode."""

_MAX_CANDIDATES: Final = 100
"""The most claims that are compared with a volume: a fifth of a millisecond."""

Modes = frozenset[str]


class Kind(NamedTuple):
    """The properties that must be equal in a claim and its volume."""

    storage_class: str
    volume_mode: str
    attributes_class: str


def kind_of_volume(volume: PersistentVolume) -> Kind:
    """Return the kind of a volume."""
    return _kind(volumes.storage_class_of(volume), volume.spec)


def kind_of_claim(claim: PersistentVolumeClaim) -> Kind:
    """Return the kind of volume that a claim asks for."""
    return _kind(claims.storage_class_of(claim), claim.spec)


def _kind(storage_class: str, spec: volumes.VolumeSpec | claims.ClaimSpec) -> Kind:
    mode = spec.volume_mode or _FILESYSTEM
    return Kind(storage_class, mode, spec.volume_attributes_class_name or "")


def size_of(volume: PersistentVolume) -> int:
    """Return the capacity of a volume in billionths of a byte; 0 if it is invalid."""
    return _nanos((volume.spec.capacity or {}).get(STORAGE))


def size_wanted(claim: PersistentVolumeClaim) -> int:
    """Return the storage that a claim requests in billionths of a byte."""
    return _nanos(requested_storage(claim))


def _nanos(amount: str | None) -> int:
    try:
        return 0 if amount is None else parse_quantity(amount).nanos
    except QuantityError:
        return 0


def has_modes(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume has all access modes that a claim asks for."""
    return _modes(claim.spec.access_modes) <= _modes(volume.spec.access_modes)


def _modes(access_modes: tuple[str, ...] | None) -> Modes:
    return frozenset(access_modes or ())


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why a claim cannot have the volume it names (checkVolumeSatisfyClaim)."""
    offered, wanted = kind_of_volume(volume), kind_of_claim(claim)
    if is_deleting(volume):
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if size_of(volume) < size_wanted(claim):
        return "requested PV is too small"
    if offered.storage_class != wanted.storage_class:
        return "storageClassName does not match"
    if offered.attributes_class != wanted.attributes_class:
        return "volumeAttributesClassName does not match"
    if offered.volume_mode != wanted.volume_mode:
        return "incompatible volumeMode"
    if not has_modes(volume, claim):
        return "incompatible accessMode"
    return ""


def _may_have_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim may have its reserved volume, of any class and labels."""
    offered, wanted = kind_of_volume(volume), kind_of_claim(claim)
    return (
        is_reserved_for(volume, claim)
        and not is_deleting(volume)
        and offered[1:] == wanted[1:]
        and size_of(volume) >= size_wanted(claim)
        and has_modes(volume, claim)
    )


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether an available volume fits; SyncError for an invalid selector."""
    return (
        kind_of_volume(volume) == kind_of_claim(claim)
        and size_of(volume) >= size_wanted(claim)
        and has_modes(volume, claim)
        and _selector_of(claim).matches(labels_of(volume))
    )


class VolumeIndex:
    """The available volumes by kind, modes and size, and the reserved ones by claim."""

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._available: dict[Kind, dict[Modes, list[tuple[int, str]]]] = {}
        self._reserved: dict[str, dict[str, None]] = {}
        """The volumes that refer to a claim, by the key of the claim."""

    def put(self, name: str, volume: PersistentVolume | None) -> None:
        """Take the newest version of a volume, `None` if it is gone."""
        if (old := self._volumes.pop(name, None)) is not None:
            self._remove(old)
        if volume is not None:
            self._volumes[name] = volume
            self._insert(volume)

    def _insert(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        if key := volumes.claim_key(volume):
            self._reserved.setdefault(key, {})[name] = None
        elif is_available(volume):
            groups = self._available.setdefault(kind_of_volume(volume), {})
            modes = _modes(volume.spec.access_modes)
            insort(groups.setdefault(modes, []), (size_of(volume), name))

    def _remove(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        if key := volumes.claim_key(volume):
            del self._reserved[key][name]
            if not self._reserved[key]:
                del self._reserved[key]
        elif is_available(volume):
            kind, modes = kind_of_volume(volume), _modes(volume.spec.access_modes)
            groups = self._available[kind]
            entries = groups[modes]
            del entries[bisect_left(entries, (size_of(volume), name))]
            if not entries:
                del groups[modes]
            if not groups:
                del self._available[kind]

    def referring_to(self, claim: str) -> Sequence[str]:
        """Return the names of the volumes that refer to the claim of a key."""
        return tuple(self._reserved.get(claim, ()))

    def reserved_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the best volume that is reserved for a claim and that it may have.

        One that refers to the uid of the claim comes first: its binding has begun.
        """

        def rank(volume: PersistentVolume) -> tuple[bool, int, int, str]:
            modes, size = _modes(volume.spec.access_modes), size_of(volume)
            is_bound = refers_to(volume, claim)
            return not is_bound, len(modes), size, volume.metadata.name

        reserved = (self._volumes[name] for name in self.referring_to(key_of(claim)))
        found = (each for each in reserved if _may_have_reserved(each, claim))
        return min(found, key=rank, default=None)

    def smallest(
        self, claim: PersistentVolumeClaim, is_taken: Callable[[str], bool]
    ) -> PersistentVolume | None:
        """Return the smallest available volume that fits, with the fewest modes.

        Few modes are better than a small size. SyncError for an invalid selector.
        """
        selector = _selector_of(claim)
        for name in self._fitting(claim):
            volume = self._volumes[name]
            if not is_taken(name) and selector.matches(labels_of(volume)):
                return volume
        return None

    def _fitting(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        """Yield the available volumes that are large enough, the best one first."""
        wanted = _modes(claim.spec.access_modes)
        groups = self._available.get(kind_of_claim(claim), {})
        matching = [each for each in groups if wanted <= each]
        least = (size_wanted(claim), "")
        for modes in sorted(matching, key=lambda each: (len(each), sorted(each))):
            entries = groups[modes]
            for index in range(bisect_left(entries, least), len(entries)):
                yield entries[index][1]


class WaitingClaims:
    """Claims that accept any volume, by the requested kind; the oldest first."""

    def __init__(self) -> None:
        self._claims: dict[Kind, dict[str, PersistentVolumeClaim]] = {}
        self._kinds: dict[str, Kind] = {}

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
        """Return the key of a claim that an available volume fits, none of `but_not`.

        Only the oldest claims are compared: others are synced after the sync period.
        """
        found = self._claims.get(kind_of_volume(volume), {})
        others = (each for each in found.items() if each[0] not in but_not)
        for key, claim in islice(others, _MAX_CANDIDATES):
            with suppress(SyncError):  # the sync of the claim reports it
                if fits(volume, claim):
                    return key
        return None


def _wanted_kind(claim: PersistentVolumeClaim) -> Kind | None:
    has_one = BIND_COMPLETED in annotations_of(claim.metadata)
    return None if has_one or claim.spec.volume_name else kind_of_claim(claim)


def _selector_of(claim: PersistentVolumeClaim) -> Selector:
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return compile_selector(claim.spec.selector)
    except SelectorError as error:
        msg = f"error creating label selector for claim {key_of(claim)}: {error}"
        raise SyncError(msg) from error
