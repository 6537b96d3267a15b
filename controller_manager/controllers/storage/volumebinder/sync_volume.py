"""Decides the next action for a volume (syncVolume of pv_controller.go).

All functions are pure.

Reclaims a volume whose claim is gone (reclaimVolume of pv_controller.go).

No plugin of this program deletes or recycles volumes. Volumes of CSI drivers are
deleted by their provisioners. The others fail with an event that says so.
"""

from typing import Final

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of, key_of

from .actions import SETTLED, STATUS, Action, Finished, ReadClaim, Write, warning
from .annotations import MIGRATED_TO, PROVISIONED_BY
from .binding import unbound, volume_in_phase
from .matching import kind_of_claim, kind_of_volume
from .migration import IN_TREE, migrated_volume
from .provision import HOST_PATH, NFS
from .view import FoundClaim

_DELETABLE: Final = "/tmp/"  # noqa: S108 - upstream's deleter looks for it in paths
_TEMPORARY: Final = (
    "host_path deleter is not part of this controller manager: delete the directory "
    "and the volume by hand"
)
_NO_DELETER: Final = "no deletable volume plugin matched"
_NO_RECYCLER: Final = "No recycler plugin found for the volume!"
_LEFT_OUT: Final = (
    "Recycle failed: recyclers of host path and NFS volumes are not part of this "
    "controller manager: clear the volume and its claimRef by hand"
)


def reclaim(volume: PersistentVolume) -> Action:
    """Return the next action for a volume that is released."""
    policy = volume.spec.persistent_volume_reclaim_policy
    if annotations_of(volume.metadata).get(MIGRATED_TO) or policy == volumes.RETAIN:
        return SETTLED
    if policy == volumes.DELETE:
        return _delete(volume)
    if policy == volumes.RECYCLE:
        return _fail(volume, "VolumeFailedRecycle", _recycling_problem(volume))
    message = "Volume has unrecognized PersistentVolumeReclaimPolicy"
    return _fail(volume, "VolumeUnknownReclaimPolicy", message)


def _delete(volume: PersistentVolume) -> Action:
    """Return the action for a released volume with the policy Delete."""
    problem = deletion_problem(volume)
    if not problem:
        return Finished(deletes=True)
    action = _fail(volume, "VolumeFailedDelete", problem)
    return (
        action if isinstance(action, Write) else Finished(deletes=True, problem=problem)
    )


def _fail(volume: PersistentVolume, reason: str, message: str) -> Action:
    """Return the action for a volume that cannot be reclaimed, with one event."""
    failed = volume_in_phase(volume, volumes.FAILED, message)
    if failed is None:
        return SETTLED
    event = warning(volume, reason, message)
    return Write(failed, STATUS, volume=volume.metadata.name, event=event)


def deletion_problem(volume: PersistentVolume) -> str:
    """Return why a volume cannot be deleted, "" if a provisioner deletes it.

    Upstream: findDeletablePlugin.
    """
    annotations = annotations_of(volume.metadata)
    provisioner = annotations.get(PROVISIONED_BY, "")
    spec = volume.spec
    if provisioner and not provisioner.startswith(IN_TREE):
        return ""
    if provisioner == HOST_PATH:
        return _host_path_problem(volume)
    if provisioner == NFS:
        return _NO_DELETER
    if provisioner:
        return f"no volume plugin matched name: {provisioner}"
    if spec.csi is not None:
        return ""
    if spec.host_path is not None:
        return _host_path_problem(volume)
    # Of the other plugins, upstream's binder has only that for NFS, which does not
    # delete. The plugins for local, FC, iSCSI and so on are not part of it.
    why = _NO_DELETER if spec.nfs is not None else "no volume plugin matched"
    name = volume.metadata.name
    return f'error getting deleter volume plugin for volume "{name}": {why}'


def _host_path_problem(volume: PersistentVolume) -> str:
    source = volume.spec.host_path
    path = "" if source is None else source.path
    if _DELETABLE in path:
        return _TEMPORARY
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"


def _recycling_problem(volume: PersistentVolume) -> str:
    spec = volume.spec
    if spec.host_path is None and spec.nfs is None:
        return _NO_RECYCLER
    return _LEFT_OUT


_GIVEN_UP: Final = (volumes.RELEASED, volumes.FAILED)
"""The phases of a volume whose claim was found deleted."""


def decide_volume(volume: PersistentVolume, found: FoundClaim) -> Action:
    """Return the next action for a volume (syncVolume)."""
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


def _in_phase(volume: PersistentVolume, phase: str) -> Action:
    changed = volume_in_phase(volume, phase)
    if changed is None:
        return SETTLED
    return Write(changed, STATUS, volume=volume.metadata.name)


def _released(volume: PersistentVolume) -> Action:
    """Return the action for a volume whose claim is gone.

    A failed volume stays Failed, so that the user sees it.
    """
    if volume.status.phase not in _GIVEN_UP:
        return _in_phase(volume, volumes.RELEASED)
    return reclaim(volume)


def _with_unbound_claim(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> Action:
    """Return the action for a volume whose claim does not name it yet."""
    wanted, offered = kind_of_claim(claim), kind_of_volume(volume)
    if wanted.volume_mode == offered.volume_mode:
        return Finished(claim_to_sync=key_of(claim))
    reason = "VolumeMismatch"
    about_volume = (
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
        f'"{claim.metadata.name}" due to incompatible volumeMode.'
    )
    about_claim = (
        f'Cannot bind PersistentVolume "{volume.metadata.name}" to requested '
        "PersistentVolumeClaim due to incompatible volumeMode."
    )
    events = (
        warning(volume, reason, about_volume),
        warning(claim, reason, about_claim),
    )
    return Finished(events, requeue=True)


def _with_its_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Action:
    """Return the action for a volume whose claim names it.

    A claim that was Lost is found again.
    """
    action = _in_phase(volume, volumes.BOUND)
    if action == SETTLED and claim.status.phase != claims.BOUND:
        return Finished(claim_to_sync=key_of(claim))
    return action


def _with_claim_bound_elsewhere(volume: PersistentVolume) -> Action:
    """Return the action for a volume whose claim has another volume.

    If it was provisioned for the claim, it is released. Otherwise it is unbound.
    """
    is_provisioned = PROVISIONED_BY in annotations_of(volume.metadata)
    policy = volume.spec.persistent_volume_reclaim_policy
    if is_provisioned and policy == volumes.DELETE:
        return _released(volume)
    return Write(unbound(volume), volume=volume.metadata.name)
