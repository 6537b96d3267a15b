"""The external attacher: attaches volumes to nodes when attachments ask for it.

Upstream: kubernetes-csi/external-attacher.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.core.persistentvolume import KIND as VOLUME
from controller_manager.devcluster.kinds.storage.volumeattachment import (
    KIND as ATTACHMENT,
)
from controller_manager.devcluster.server.storage.storage import Change

from .driver import DRIVER, is_ours
from .storage_objects import StorageObjects

FINALIZER: Final = f"external-attacher/{DRIVER}"

_NODE_ID: Final = "csi.alpha.kubernetes.io/node-id"


class Attacher:
    """Attaches and detaches the volumes of the driver."""

    def __init__(self, storage: StorageObjects) -> None:
        self._storage = storage
        self._attachments = storage.objects.storage.collection(ATTACHMENT.resource)
        self._of_volume: dict[str, set[str]] = {}
        """The names of the attachments of each volume."""

    def attachment_changed(self, change: Change) -> None:
        """Attach or detach the volume of an attachment."""
        given = change.after.obj
        if given["spec"]["attacher"] != DRIVER:
            return
        name = given["spec"]["source"].get("persistentVolumeName", "")
        users = self._of_volume.setdefault(name, set())
        stored = self._attachments.get(change.key)
        if stored is None:
            users.discard(change.key[1])
            self._release(name)
            return
        users.add(change.key[1])
        if "deletionTimestamp" in stored.obj["metadata"]:
            self._detach(stored.obj)
        elif not stored.obj["status"].get("attached"):
            self._attach(stored.obj, name)

    def volume_changed(self, change: Change) -> None:
        """Add the finalizer to a new volume; remove it from a deleted one."""
        name = change.key[1]
        if "deletionTimestamp" in change.after.obj["metadata"]:
            self._release(name)
        elif change.type == "ADDED":
            for each in list(self._of_volume.get(name, ())):
                stored = self._attachments.get(("", each))
                if stored is not None and not stored.obj["status"].get("attached"):
                    self._attach(stored.obj, name)

    def _attach(self, attachment: JSON, name: str) -> None:
        volume = self._storage.volume(name)
        if volume is None or not is_ours(volume):
            self._fail(attachment, name)
            return
        annotations = {_NODE_ID: attachment["spec"]["nodeName"]}
        attachment = self._storage.annotate(
            ATTACHMENT, attachment, annotations=annotations
        )
        attachment = self._storage.set_finalizer(
            ATTACHMENT, attachment, FINALIZER, present=True
        )
        if "deletionTimestamp" not in volume["metadata"]:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=True)
        self._storage.update(
            ATTACHMENT, attachment, "status", status={"attached": True}
        )

    def _fail(self, attachment: JSON, name: str) -> None:
        message = f'persistentvolume "{name}" not found'
        status = attachment["status"]
        if status.get("attachError", {}).get("message") == message:
            return
        error = {"message": message, "time": self._storage.now()}
        self._storage.update(
            ATTACHMENT, attachment, "status", status={**status, "attachError": error}
        )

    def _detach(self, attachment: JSON) -> None:
        if FINALIZER not in attachment["metadata"].get("finalizers", ()):
            return
        attachment = self._storage.update(
            ATTACHMENT, attachment, "status", status={"attached": False}
        )
        self._storage.set_finalizer(ATTACHMENT, attachment, FINALIZER, present=False)

    def _release(self, name: str) -> None:
        """Remove the finalizer of a deleted volume that is attached nowhere."""
        if self._of_volume.get(name):
            return
        self._of_volume.pop(name, None)
        volume = self._storage.volume(name)
        if volume is not None and "deletionTimestamp" in volume["metadata"]:
            self._storage.set_finalizer(VOLUME, volume, FINALIZER, present=False)
