"""Reclaims a volume whose claim is gone (reclaimVolume of pv_controller.go).

No plugin of this program deletes or recycles volumes. Volumes of CSI drivers are
deleted by their provisioners. The others fail with an event that says so.
"""

from typing import Final

from controller_manager.api.core import volumes
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of

from .actions import SETTLED, STATUS, Action, Finished, Write, warning
from .annotations import MIGRATED_TO, PROVISIONED_BY
from .binding import volume_in_phase
from .migration import IN_TREE
from .provision import HOST_PATH, NFS

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
