"""Asks a provisioner for a volume (provisionClaim of pv_controller.go).

No plugin of this program provisions volumes. The controller writes annotations to the
claim, for an external provisioner.
"""

from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.claims import PersistentVolumeClaim, storage_class_of
from controller_manager.api.meta import annotations_of
from controller_manager.control.csi_migration import DRIVERS

from .actions import Action, Finished, Write, normal, warning
from .annotations import BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER
from .binding import with_annotations
from .migration import IN_TREE, migration_of
from .view import ClusterView

FAILED: Final = "ProvisioningFailed"
"""The reason of the event."""

HOST_PATH: Final = "kubernetes.io/host-path"
NFS: Final = "kubernetes.io/nfs"
"""The plugins of upstream's binder; that for NFS only recycles."""


def provision(claim: PersistentVolumeClaim, view: ClusterView) -> Action:
    """Return the next action for a claim with a class that no volume fits."""
    if not view.provisions:
        return Finished(requeue=True)
    name = storage_class_of(claim)
    storage_class = view.storage_class(name)
    if storage_class is None:
        return _failed(claim, f'storageclass.storage.k8s.io "{name}" not found')
    provisioner = DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
    if provisioner == HOST_PATH:
        return _failed(
            claim,
            f"volume plugin {HOST_PATH} does not provision volumes in this controller "
            "manager; use a class with an external provisioner",
        )
    if provisioner == NFS:
        return _failed(claim, "no provisionable volume plugin matched")
    if provisioner.startswith(IN_TREE):
        return _failed(claim, f"no volume plugin matched name: {provisioner}")
    return _ask(claim, provisioner)


def _failed(claim: PersistentVolumeClaim, problem: str) -> Action:
    return Finished((warning(claim, FAILED, problem),), requeue=True)


def _ask(claim: PersistentVolumeClaim, provisioner: str) -> Action:
    """Return the action that asks an external provisioner (setClaimProvisioner)."""
    if annotations_of(claim.metadata).get(STORAGE_PROVISIONER) != provisioner:
        asked = with_annotations(
            claim.metadata,
            {
                BETA_STORAGE_PROVISIONER: provisioner,
                STORAGE_PROVISIONER: provisioner,
            },
        )
        change = migration_of(annotations_of(asked), provisioner)
        asked = with_annotations(asked, change)
        changed = replace(claim, metadata=asked)
        return Write(changed, refused=FAILED, provisioner=provisioner)
    message = (
        "Waiting for a volume to be created either by the external provisioner "
        f"'{provisioner}' or manually by the system administrator. If volume creation "
        "is delayed, please verify that the provisioner is running and correctly "
        "registered."
    )
    event = normal(claim, "ExternalProvisioning", message)
    return Finished((event,), requeue=True, provisioner=provisioner)
