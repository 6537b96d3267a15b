"""The external provisioner and the external resizer: volumes and their sizes."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.kubelet.events import Reporter
from controller_manager.devcluster.registry.core.volumes import CLAIMS as CLAIM
from controller_manager.devcluster.registry.core.volumes import VOLUMES as VOLUME
from controller_manager.devcluster.registry.storage.classes import ATTRIBUTES_CLASSES
from controller_manager.devcluster.storage import Change, Key

from .driver import (
    DRIVER,
    ON_DEMAND,
    PROVISIONED_BY,
    RESIZE_SECONDS,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    Delays,
    StorageObjects,
    annotation,
    capacity_of,
    is_bound,
    is_ours,
    reference_to,
    request_of,
)

# The external provisioner: makes the volumes of claims, and deletes them.

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"

_COMPONENT: Final = f"{DRIVER}_external-provisioner"


class Provisioner:
    """Makes the volumes that claims ask the driver for, and deletes released ones."""

    def __init__(self, storage: StorageObjects, report: Reporter) -> None:
        self._storage = storage
        self._report = report

    def claim_changed(self, change: Change) -> None:
        """Make the volume of a claim that waits for one."""
        claim = self._storage.claim(change.key)
        if claim is None or not _is_asked_for(claim):
            return
        found = self._storage.class_of(claim)
        if found is None or found["provisioner"] != DRIVER:
            return
        waits = found["volumeBindingMode"] == ON_DEMAND
        if waits and not annotation(claim, SELECTED_NODE):
            return
        if self._storage.volume(_name(claim)) is None:
            self._provision(claim, found)

    def volume_changed(self, change: Change) -> None:
        """Delete a volume that is released, and keep the finalizer of another."""
        volume = self._storage.volume(change.key[1])
        if volume is None or annotation(volume, PROVISIONED_BY) != DRIVER:
            return
        deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        if deletes and volume["status"].get("phase") in ("Released", "Failed"):
            self._delete(volume)
        elif "deletionTimestamp" not in volume["metadata"] or not deletes:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=deletes)

    def _provision(self, claim: JSON, found: JSON) -> None:
        metadata = claim["metadata"]
        if claim["spec"].get("selector"):
            why = (
                "failed to provision volume with StorageClass "
                f'"{found["metadata"]["name"]}": claim Selector is not supported'
            )
            self._record(claim, "Warning", "ProvisioningFailed", why)
            return
        full_name = f"{metadata['namespace']}/{metadata['name']}"
        message = f'External provisioner is provisioning volume for claim "{full_name}"'
        self._record(claim, "Normal", "Provisioning", message)
        volume = new_volume(claim, found)
        self._storage.objects.create(VOLUME, "", volume)
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._record(claim, "Normal", "ProvisioningSucceeded", message)

    def _delete(self, volume: JSON) -> None:
        """Delete the storage, then the volume, then its finalizer."""
        name = volume["metadata"]["name"]
        if "deletionTimestamp" not in volume["metadata"]:
            self._storage.objects.delete(VOLUME, "", name, Deletion())
        if (left := self._storage.volume(name)) is not None:
            self._storage.set_finalizer(VOLUME, left, FINALIZER, present=False)

    def _record(self, claim: JSON, kind: str, reason: str, message: str) -> None:
        self._report.other(_COMPONENT, claim, kind, reason, message)


def new_volume(claim: JSON, found: JSON) -> JSON:
    """Return the volume for a claim, with the settings of its class."""
    spec, name = claim["spec"], _name(claim)
    volume: JSON = {
        "capacity": {"storage": request_of(claim)},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "accessModes": spec.get("accessModes", []),
        "claimRef": reference_to(claim),
        "persistentVolumeReclaimPolicy": found["reclaimPolicy"],
        "storageClassName": found["metadata"]["name"],
        "volumeMode": spec.get("volumeMode", "Filesystem"),
    }
    if options := found.get("mountOptions"):
        volume["mountOptions"] = options
    if attributes := spec.get("volumeAttributesClassName"):
        volume["volumeAttributesClassName"] = attributes
    annotations = {
        PROVISIONED_BY: DRIVER,
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    }
    finalizers = [FINALIZER] if found["reclaimPolicy"] == "Delete" else []
    metadata = {"name": name, "annotations": annotations, "finalizers": finalizers}
    return {"metadata": metadata, "spec": volume}


def _name(claim: JSON) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _is_asked_for(claim: JSON) -> bool:
    """Tell whether a claim asks the driver for a volume."""
    return (
        annotation(claim, STORAGE_PROVISIONER) == DRIVER
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
    )


# The external resizer: makes volumes as large as their claims, and modifies them.

RESIZING: Final = "Resizing"
FILE_SYSTEM_PENDING: Final = "FileSystemResizePending"

_RESIZER: Final = f"external-resizer {DRIVER}"
_ATTRIBUTES: Final = "volumeAttributesClassName"
_WAITING: Final = (
    "Waiting for user to (re-)start a pod to finish file system resize of volume on "
    "node."
)


class Resizer:
    """Resizes and modifies the volumes of the driver."""

    def __init__(self, storage: StorageObjects, report: Reporter) -> None:
        self._storage = storage
        self._report = report
        self._delays = Delays()

    def close(self) -> None:
        """Cancel the resizing of volumes."""
        self._delays.close()

    def claim_changed(self, change: Change) -> None:
        """Give a bound claim the size and the attributes that it asks for."""
        found = self._bound(change.key)
        if found is None:
            return
        claim, volume = found
        wanted = request_of(claim)
        if parse_quantity(wanted) > capacity_of(volume):
            self._begin(claim, volume, wanted)
            self._delays.call(change.key, RESIZE_SECONDS, self._expand)
        elif claim["spec"].get(_ATTRIBUTES):
            self._modify(claim, volume)

    def _bound(self, key: Key) -> tuple[JSON, JSON] | None:
        """Return a claim that is bound to a volume of the driver, and the volume."""
        claim = self._storage.claim(key)
        if claim is None or not is_bound(claim):
            return None
        volume = self._storage.volume(claim["spec"]["volumeName"])
        if volume is None or not is_ours(volume):
            return None
        return claim, volume

    def _begin(self, claim: JSON, volume: JSON, wanted: str) -> None:
        """Write the condition and the event of a resize, unless they exist."""
        if claim["status"].get("allocatedResources") == {"storage": wanted}:
            return
        message = f"External resizer is resizing volume {volume['metadata']['name']}"
        self._record(claim, "Normal", "Resizing", message)
        self._storage.update(
            CLAIM, claim, "status", status=self._expanding(claim, wanted)
        )

    def _expand(self, key: Key) -> None:
        """Give a volume the size that its claim asks for now."""
        found = self._bound(key)
        if found is None:
            return
        claim, volume = found
        wanted, spec = request_of(claim), volume["spec"]
        if parse_quantity(wanted) <= capacity_of(volume):
            return
        capacity = {**spec["capacity"], "storage": wanted}
        self._storage.update(VOLUME, volume, spec={**spec, "capacity": capacity})
        message = "Require file system resize of volume on node"
        self._record(claim, "Normal", "FileSystemResizeRequired", message)
        self._storage.update(CLAIM, claim, "status", status=self._pending(claim))

    def _expanding(self, claim: JSON, wanted: str) -> JSON:
        """Return the status of a claim whose volume grows."""
        return {
            **claim["status"],
            "allocatedResources": {"storage": wanted},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            "conditions": [*other_conditions(claim), self._condition(RESIZING)],
        }

    def _pending(self, claim: JSON) -> JSON:
        """Return the status of a claim whose file system has to grow."""
        condition = self._condition(FILE_SYSTEM_PENDING, message=_WAITING)
        return {
            **claim["status"],
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [*other_conditions(claim), condition],
        }

    def _condition(self, type_: str, **more: str) -> JSON:
        now = self._storage.now()
        return {"type": type_, "status": "True", "lastTransitionTime": now, **more}

    def _modify(self, claim: JSON, volume: JSON) -> None:
        """Give a volume the attributes of the class that its claim names."""
        wanted, status = claim["spec"][_ATTRIBUTES], claim["status"]
        if status.get("currentVolumeAttributesClassName") == wanted:
            return
        found = self._storage.objects.has(ATTRIBUTES_CLASSES, "", wanted)
        if not found:
            resource = ATTRIBUTES_CLASSES.resource
            why = f'{resource} "{wanted}" not found'
            self._record(claim, "Warning", "VolumeModifyFailed", why)
            return
        spec = {**volume["spec"], _ATTRIBUTES: wanted}
        self._storage.update(VOLUME, volume, spec=spec)
        status = {**status, "currentVolumeAttributesClassName": wanted}
        self._storage.update(CLAIM, claim, "status", status=status)
        name = claim["metadata"]["name"]
        message = (
            f"external resizer modified volume {name} with vac {wanted} successfully"
        )
        self._record(claim, "Normal", "VolumeModifySuccessful", message)

    def _record(self, claim: JSON, kind: str, reason: str, message: str) -> None:
        self._report.other(_RESIZER, claim, kind, reason, message)


def other_conditions(claim: JSON) -> list[JSON]:
    """Return the conditions of a claim that are not about its size."""
    return [
        each
        for each in claim.get("status", {}).get("conditions") or ()
        if each["type"] not in (RESIZING, FILE_SYSTEM_PENDING)
    ]


def needs_larger_file_system(claim: JSON) -> bool:
    """Tell whether a claim waits for the kubelet to resize its file system."""
    conditions = claim.get("status", {}).get("conditions") or ()
    return any(each["type"] == FILE_SYSTEM_PENDING for each in conditions)
