"""The claims that have no volume, found by a volume that would fit."""

from collections.abc import Container
from itertools import islice
from typing import Final

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of
from controller_manager.controllers.storage.volumebinder.annotations import (
    BIND_COMPLETED,
)
from controller_manager.controllers.storage.volumebinder.matching import (
    Kind,
    fits,
    kind_of_claim,
    kind_of_volume,
)
from controller_manager.runtime.outcome import SyncError

_MOST_LOOKED_AT: Final = 100
"""Claims among which one is sought that a volume fits: a fifth of a millisecond."""


class WaitingClaims:
    """Claims that take any volume, by the kind that they ask for; the oldest first."""

    def __init__(self) -> None:
        """Start without claims."""
        self._claims: dict[Kind, dict[str, PersistentVolumeClaim]] = {}
        self._kinds: dict[str, Kind] = {}

    def __len__(self) -> int:
        """Return how many claims wait."""
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
        kind, only the oldest ones are looked at: the sync period finds the others.
        """
        found = self._claims.get(kind_of_volume(volume), {})
        others = (each for each in found.items() if each[0] not in but_not)
        for key, claim in islice(others, _MOST_LOOKED_AT):
            if _is_fitting(volume, claim):
                return key
        return None


def _wanted_kind(claim: PersistentVolumeClaim) -> Kind | None:
    """Return the kind of volume that a claim takes any of, if it has none yet."""
    has_one = BIND_COMPLETED in annotations_of(claim.metadata)
    return None if has_one or claim.spec.volume_name else kind_of_claim(claim)


def _is_fitting(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    try:
        return fits(volume, claim)
    except SyncError:
        return False  # the sync of the claim reports it
