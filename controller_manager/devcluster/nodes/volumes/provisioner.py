"""The external provisioner: makes the volumes of claims, and deletes them.

Upstream: kubernetes-csi/external-provisioner, with the controller of
sig-storage-lib-external-provisioner.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.core.persistentvolume import KIND as VOLUME
from controller_manager.devcluster.nodes.events import Reporter
from controller_manager.devcluster.server.rest.deletion import Deletion
from controller_manager.devcluster.server.storage.storage import Change

from .driver import (
    DRIVER,
    ON_DEMAND,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    annotation,
)
from .storage_objects import StorageObjects
from .volume_fit import reference_to, request_of

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
