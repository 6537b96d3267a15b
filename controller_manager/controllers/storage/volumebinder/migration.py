"""In-tree plugins that CSI drivers have replaced (pv_controller_base.go).

Their migration cannot be switched off any more.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core import volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import annotations_of
from controller_manager.control.csi_migration import DRIVERS

from .annotations import (
    BETA_STORAGE_PROVISIONER,
    EXTERNAL_FINALIZER,
    IN_TREE_FINALIZER,
    MIGRATED_TO,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
)
from .binding import with_annotations

IN_TREE: Final = "kubernetes.io/"
"""The beginning of the names of plugins that are, or were, parts of Kubernetes."""


def migrated_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
    """Return a claim whose annotation names the driver of its provisioner.

    It is `None` if the annotation is right.
    """
    annotations = annotations_of(claim.metadata)
    provisioner = annotations.get(
        STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER)
    )
    change = migration_of(annotations, provisioner)
    if not change:
        return None
    return replace(claim, metadata=with_annotations(claim.metadata, change))


def migrated_volume(volume: PersistentVolume) -> PersistentVolume | None:
    """Return a volume with the annotation and the finalizers that its plugin needs.

    It is `None` if the volume has them already. Only provisioned volumes need them.
    """
    metadata = volume.metadata
    annotations = annotations_of(metadata)
    provisioner = annotations.get(PROVISIONED_BY)
    if provisioner is None:
        return None
    change = migration_of(annotations, provisioner)
    before = metadata.finalizers or ()
    finalizers = _finalizers(
        before, provisioner, volume.spec.persistent_volume_reclaim_policy
    )
    if not change and finalizers == before:
        return None
    changed = with_annotations(metadata, change)
    return replace(volume, metadata=replace(changed, finalizers=finalizers or None))


def migration_of(
    annotations: Mapping[str, str], provisioner: str | None
) -> dict[str, str | None]:
    """Return the change of the annotation that names the driver of a provisioner.

    Upstream: updateMigrationAnnotations.
    """
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

    If the policy is to delete the volume, a finalizer keeps the object until the
    in-tree plugin has deleted the volume.
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
