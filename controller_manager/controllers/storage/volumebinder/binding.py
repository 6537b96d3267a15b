"""Binds claims and volumes: pure functions that return the object to write.

They return `None` if the object needs no change. Upstream: pv_helpers.go, and bind,
unbindVolume, updateVolumePhase and updateClaimStatus of pv_controller.go.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import CLAIMS, STORAGE, PersistentVolumeClaim
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.core.volumes import PRE_RESIZE_CAPACITY, PersistentVolume
from controller_manager.api.json_objects import with_fields
from controller_manager.api.meta import ObjectMeta, annotations_of
from controller_manager.api.quantity import QuantityError, parse_quantity
from controller_manager.runtime.outcome import SyncError

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Of a claim that was bound once; such a claim is never bound again."""

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Of a claim or a volume that did not name the other object before it was bound."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""Of a volume: the provisioner that has made it for its claim."""

MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
"""The CSI driver that does the work of an in-tree plugin."""

STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""Of a claim: the provisioner that has to make a volume for it."""

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
"""The former name of this annotation; the controller writes both."""

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Of a claim: the node that the scheduler has chosen for the first consumer."""

YES: Final = "yes"

IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
"""Of a volume that an in-tree plugin has to delete before the object."""

EXTERNAL_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Of a volume that an external provisioner has to delete before the object."""


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume names a claim, with its uid or with none.

    Upstream: IsVolumeBoundToClaim.
    """
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    wanted = claim.metadata
    return (
        reference.name == wanted.name
        and reference.namespace == wanted.namespace
        and reference.uid in ("", wanted.uid)
    )


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume's reference names exactly this claim, with its uid."""
    reference = volume.spec.claim_ref
    return (
        is_reserved_for(volume, claim)
        and reference is not None
        and (reference.uid == claim.metadata.uid)
    )


def with_annotations(
    metadata: ObjectMeta, changes: Mapping[str, str | None]
) -> ObjectMeta:
    """Return metadata with some annotations set, or removed where it is `None`."""
    changed: dict[str, str | None] = {**annotations_of(metadata), **changes}
    kept = {key: value for key, value in changed.items() if value is not None}
    return replace(metadata, annotations=kept or None)


def is_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Tell whether no write of a binding is missing; may raise SyncError."""
    return (
        volume_bound_to(volume, claim) is None
        and volume_in_phase(volume, volumes.BOUND) is None
        and claim_bound_to(claim, volume) is None
        and claim_of_volume(claim, volume) is None
    )


def volume_bound_to(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> PersistentVolume | None:
    """Return a volume that refers to a claim (GetBindVolumeToClaim)."""
    if refers_to(volume, claim):
        return None
    metadata = volume.metadata
    is_marked = BOUND_BY_CONTROLLER in annotations_of(metadata)
    if not is_marked and not is_reserved_for(volume, claim):
        metadata = with_annotations(metadata, {BOUND_BY_CONTROLLER: YES})
    bound = claim.metadata
    reference = ObjectReference(
        kind=CLAIMS.kind,
        namespace=bound.namespace,
        name=bound.name,
        uid=bound.uid,
        api_version=CLAIMS.api_version,
        resource_version=bound.resource_version,
    )
    spec = with_fields(volume.raw_spec, {"claimRef": reference})
    return replace(volume, metadata=metadata, raw_spec=spec)


def claim_bound_to(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> PersistentVolumeClaim | None:
    """Return a claim that names a volume and is marked as bound (bindClaimToVolume)."""
    annotations = annotations_of(claim.metadata)
    changes: dict[str, str | None] = {}
    spec = claim.raw_spec
    name = volume.metadata.name
    if claim.spec.volume_name != name:
        spec = with_fields(spec, {"volumeName": name})
        if BOUND_BY_CONTROLLER not in annotations:
            changes[BOUND_BY_CONTROLLER] = YES
    if BIND_COMPLETED not in annotations:
        changes[BIND_COMPLETED] = YES
    if spec is claim.raw_spec and not changes:
        return None
    metadata = with_annotations(claim.metadata, changes)
    return replace(claim, metadata=metadata, raw_spec=spec)


def unbound(volume: PersistentVolume) -> PersistentVolume:
    """Return a volume without its claim (unbindVolume).

    A volume that a user has reserved only loses the uid of the claim.
    """
    metadata, reference = volume.metadata, volume.spec.claim_ref
    if BOUND_BY_CONTROLLER in annotations_of(metadata):
        metadata = with_annotations(metadata, {BOUND_BY_CONTROLLER: None})
        reference = None
    elif reference is not None:
        reference = replace(reference, uid="")
    spec = with_fields(volume.raw_spec, {"claimRef": reference})
    return replace(volume, metadata=metadata, raw_spec=spec)


def volume_in_phase(
    volume: PersistentVolume, phase: str, message: str = ""
) -> PersistentVolume | None:
    """Return a volume in a phase (updateVolumePhase)."""
    if volume.status.phase == phase:
        return None
    changes = {"phase": phase, "message": message or None}
    return replace(volume, raw_status=with_fields(volume.raw_status, changes))


def claim_without_volume(
    claim: PersistentVolumeClaim, phase: str
) -> PersistentVolumeClaim | None:
    """Return a claim that is Pending or Lost, without the data of a volume."""
    before = claim.status
    nothing = claims.ClaimStatus(
        phase=phase,
        conditions=before.conditions,
        allocated_resources=before.allocated_resources,
        allocated_resource_statuses=before.allocated_resource_statuses,
        modify_volume_status=before.modify_volume_status,
    )
    if before == nothing:
        return None
    changes = {
        "phase": phase,
        "accessModes": None,
        "capacity": None,
        "currentVolumeAttributesClassName": None,
    }
    return replace(claim, raw_status=with_fields(claim.raw_status, changes))


def claim_of_volume(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> PersistentVolumeClaim | None:
    """Return a claim that is Bound, with the data of its volume.

    The capacity is copied once: later the file system may be smaller than its device.
    Raises SyncError for a volume without a capacity.
    """
    before = claim.status
    changes: dict[str, object] = {}
    if before.access_modes != volume.spec.access_modes:
        changes["accessModes"] = volume.spec.access_modes
    if before.phase != claims.BOUND:
        changes["phase"] = claims.BOUND
        changes |= _capacity(claim, volume)
    attributes = volume.spec.volume_attributes_class_name
    was_pending = before.phase == claims.PENDING
    if was_pending and before.current_volume_attributes_class_name != attributes:
        changes["currentVolumeAttributesClassName"] = attributes
    if not changes:
        return None
    return replace(claim, raw_status=with_fields(claim.raw_status, changes))


def _capacity(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> dict[str, object]:
    offered = volume.spec.capacity or {}
    if STORAGE not in offered:
        name = volume.metadata.name
        msg = f'PersistentVolume "{name}" is without a storage capacity'
        raise SyncError(msg)
    known = claim.status.capacity or {}
    size = annotations_of(volume.metadata).get(PRE_RESIZE_CAPACITY)
    if size is not None:
        try:
            parse_quantity(size)
        except QuantityError:
            size = offered[STORAGE]
        return {"capacity": {**known, STORAGE: size}}
    if STORAGE in known and (
        parse_quantity(known[STORAGE]) == parse_quantity(offered[STORAGE])
    ):
        return {}
    return {"capacity": offered}


def class_given_to(
    claim: PersistentVolumeClaim, storage_class: str
) -> PersistentVolumeClaim:
    """Return a claim with a storage class."""
    changes = {"storageClassName": storage_class}
    return replace(claim, raw_spec=with_fields(claim.raw_spec, changes))


def is_available(volume: PersistentVolume) -> bool:
    """Tell whether any claim that the volume fits may get it."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == volumes.AVAILABLE
        and not volume.metadata.deletion_timestamp
    )
