"""What is to be done for a volume (syncVolume of pv_controller.go): pure functions."""

from typing import Final

from msgspec import Struct

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.controllers.storage.volumebinder.annotations import (
    PROVISIONED_BY,
)
from controller_manager.controllers.storage.volumebinder.changes import (
    unbound,
    volume_in_phase,
)
from controller_manager.controllers.storage.volumebinder.matching import (
    kind_of_claim,
    kind_of_volume,
)
from controller_manager.controllers.storage.volumebinder.migration import (
    migrated_volume,
)
from controller_manager.controllers.storage.volumebinder.reclaiming import reclaim
from controller_manager.controllers.storage.volumebinder.steps import (
    SETTLED,
    STATUS,
    ReadClaim,
    Rest,
    Step,
    Write,
    warning,
)

_GIVEN_UP: Final = (volumes.RELEASED, volumes.FAILED)
"""The phases in which the claim of a volume is known to be gone."""


class FoundClaim(Struct, frozen=True):
    """The claim of the name that a volume refers to, if there is one.

    `is_read` says that it comes from the API server and not from the cache.
    """

    claim: PersistentVolumeClaim | None = None
    is_read: bool = False


def decide_volume(volume: PersistentVolume, found: FoundClaim) -> Step:
    """Return the next step for a volume (syncVolume)."""
    name = volume.metadata.name
    if (migrated := migrated_volume(volume)) is not None:
        return Write(migrated, volume=name)
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _in_phase(volume, volumes.AVAILABLE)
    if _must_read(volume, found):
        return ReadClaim(reference.namespace, reference.name)
    claim = found.claim
    if claim is None or claim.metadata.uid != reference.uid:
        return _released(volume)
    if not claim.spec.volume_name:
        return _with_unbound_claim(volume, claim)
    if claim.spec.volume_name == name:
        return _with_its_claim(volume, claim)
    return _with_claim_bound_elsewhere(volume)


def _must_read(volume: PersistentVolume, found: FoundClaim) -> bool:
    """Tell whether the claim must be read from the API server.

    The cache may be older than the binding, which a scheduler or a provisioner may
    have made. A volume must not be reclaimed while its claim lives.
    """
    reference = volume.spec.claim_ref
    if found.is_read or reference is None:
        return False
    if not (reference.namespace and reference.name):
        return False  # no claim can be there
    if found.claim is None:
        return volume.status.phase not in _GIVEN_UP
    return found.claim.metadata.uid != reference.uid


def _in_phase(volume: PersistentVolume, phase: str) -> Step:
    changed = volume_in_phase(volume, phase)
    if changed is None:
        return SETTLED
    return Write(changed, STATUS, volume=volume.metadata.name)


def _released(volume: PersistentVolume) -> Step:
    """Return the step for a volume whose claim is gone.

    A volume that has failed stays so, for the user to see it.
    """
    if volume.status.phase not in _GIVEN_UP:
        return _in_phase(volume, volumes.RELEASED)
    return reclaim(volume)


def _with_unbound_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Step:
    """Return the step for a volume whose claim does not name it yet."""
    wanted, offered = kind_of_claim(claim), kind_of_volume(volume)
    if wanted.volume_mode == offered.volume_mode:
        return Rest(wakes=key_of(claim))
    reason = "VolumeMismatch"
    about_volume = (
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
        f'"{claim.metadata.name}" due to incompatible volumeMode.'
    )
    about_claim = (
        f'Cannot bind PersistentVolume "{volume.metadata.name}" to requested '
        "PersistentVolumeClaim due to incompatible volumeMode."
    )
    notices = (
        warning(volume, reason, about_volume),
        warning(claim, reason, about_claim),
    )
    return Rest(notices, again=True)


def _with_its_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Step:
    """Return the step for a volume whose claim names it.

    A claim that was Lost is found again.
    """
    step = _in_phase(volume, volumes.BOUND)
    if step == SETTLED and claim.status.phase != claims.BOUND:
        return Rest(wakes=key_of(claim))
    return step


def _with_claim_bound_elsewhere(volume: PersistentVolume) -> Step:
    """Return the step for a volume whose claim has another one.

    If it was provisioned for the claim, nobody needs it. Otherwise it is given back.
    """
    is_provisioned = PROVISIONED_BY in annotations_of(volume.metadata)
    policy = volume.spec.persistent_volume_reclaim_policy
    if is_provisioned and policy == volumes.DELETE:
        return _released(volume)
    return Write(unbound(volume), volume=volume.metadata.name)
