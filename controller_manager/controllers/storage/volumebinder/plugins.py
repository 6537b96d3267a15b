"""The plugins that provision, delete and recycle volumes: pure functions.

No plugin of this program does so: provisioners of CSI drivers do, and the controller
writes annotations for them. In-tree plugins that CSI drivers have replaced are migrated
(pv_controller_base.go).
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core import volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of
from controller_manager.control.csi_migration import DRIVERS

from .binding import (
    BETA_STORAGE_PROVISIONER,
    EXTERNAL_FINALIZER,
    IN_TREE_FINALIZER,
    MIGRATED_TO,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
    with_annotations,
)

IN_TREE: Final = "kubernetes.io/"
"""The beginning of the names of plugins that are, or were, parts of Kubernetes."""

HOST_PATH: Final = "kubernetes.io/host-path"
NFS: Final = "kubernetes.io/nfs"
"""The plugins of upstream's binder; that for NFS only recycles."""

_DELETABLE: Final = "/tmp/"  # noqa: S108 - upstream's deleter looks for it in paths
_NO_DELETER: Final = "no deletable volume plugin matched"


def migrated_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
    """Return a claim whose annotation names the driver of its provisioner."""
    annotations = annotations_of(claim.metadata)
    provisioner = annotations.get(
        STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER)
    )
    change = migration_of(annotations, provisioner)
    if not change:
        return None
    return replace(claim, metadata=with_annotations(claim.metadata, change))


def migrated_volume(volume: PersistentVolume) -> PersistentVolume | None:
    """Return a provisioned volume with the annotation and finalizers that it lacks."""
    metadata = volume.metadata
    annotations = annotations_of(metadata)
    provisioner = annotations.get(PROVISIONED_BY)
    if provisioner is None:
        return None
    change = migration_of(annotations, provisioner)
    before = metadata.finalizers or ()
    policy = volume.spec.persistent_volume_reclaim_policy
    finalizers = _finalizers(before, provisioner, policy)
    if not change and finalizers == before:
        return None
    changed = with_annotations(metadata, change)
    return replace(volume, metadata=replace(changed, finalizers=finalizers or None))


def migration_of(
    annotations: Mapping[str, str], provisioner: str | None
) -> dict[str, str | None]:
    """Return the change of the driver's annotation (updateMigrationAnnotations)."""
    if provisioner is None:
        return {}
    driver = DRIVERS.get(provisioner)
    named = annotations.get(MIGRATED_TO)
    if driver is not None:
        return {} if named == driver else {MIGRATED_TO: driver}
    return {MIGRATED_TO: None} if named else {}


def _finalizers(
    before: tuple[str, ...], provisioner: str, policy: str
) -> tuple[str, ...]:
    """Return the finalizers of a provisioned volume (modifyDeletionFinalizers).

    One keeps an object until the in-tree plugin has deleted the volume.
    """
    if provisioner in DRIVERS:
        return tuple(each for each in before if each != IN_TREE_FINALIZER)
    if not provisioner.startswith(IN_TREE):
        return before
    kept = tuple(each for each in before if each != EXTERNAL_FINALIZER)
    if policy == volumes.DELETE:
        return kept if IN_TREE_FINALIZER in kept else (*kept, IN_TREE_FINALIZER)
    if policy in (volumes.RETAIN, volumes.RECYCLE):
        return tuple(each for each in kept if each != IN_TREE_FINALIZER)
    return kept


def provisioning_problem(provisioner: str) -> str:
    """Return why a provisioner makes no volumes, "" for an external one."""
    if provisioner == HOST_PATH:
        return (
            f"volume plugin {HOST_PATH} does not provision volumes in this controller "
            "manager; use a class with an external provisioner"
        )
    if provisioner == NFS:
        return "no provisionable volume plugin matched"
    if provisioner.startswith(IN_TREE):
        return f"no volume plugin matched name: {provisioner}"
    return ""


def claim_asking(
    claim: PersistentVolumeClaim, provisioner: str
) -> PersistentVolumeClaim | None:
    """Return a claim that asks an external provisioner (setClaimProvisioner)."""
    if annotations_of(claim.metadata).get(STORAGE_PROVISIONER) == provisioner:
        return None
    asked = with_annotations(
        claim.metadata,
        {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner},
    )
    change = migration_of(annotations_of(asked), provisioner)
    return replace(claim, metadata=with_annotations(asked, change))


def deletion_problem(volume: PersistentVolume) -> str:
    """Return why a volume cannot be deleted (findDeletablePlugin), "" if it can."""
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
        return (
            "host_path deleter is not part of this controller manager: delete the "
            "directory and the volume by hand"
        )
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"


def recycling_problem(volume: PersistentVolume) -> str:
    """Return why a volume cannot be recycled."""
    spec = volume.spec
    if spec.host_path is None and spec.nfs is None:
        return "No recycler plugin found for the volume!"
    return (
        "Recycle failed: recyclers of host path and NFS volumes are not part of this "
        "controller manager: clear the volume and its claimRef by hand"
    )
