"""Volumes, claims and classes for the tests of the binder, typed and as JSON."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import StorageClass
from controller_manager.controllers.storage.volumebinder.annotations import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
)
from controller_manager.controllers.storage.volumebinder.matching import VolumeIndex

COMPLETE: Final = {BIND_COMPLETED: "yes"}
BY_CONTROLLER: Final = {BOUND_BY_CONTROLLER: "yes"}
MINE: Final = {
    "kind": "PersistentVolumeClaim",
    "apiVersion": "v1",
    "namespace": "ns",
    "name": "data",
}
"""The reference of a volume that a user has reserved for the claim."""
BOUND_TO_MINE: Final = {**MINE, "uid": "claim"}
OF_ANOTHER: Final = {**MINE, "name": "other", "uid": "another"}
OF_FORMER: Final = {**MINE, "uid": "former"}
"""The reference to an earlier claim of the same name."""


def claim(
    annotations: dict[str, str] | None = None,
    status: JSON | None = None,
    metadata: JSON | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Return the claim "data" to 1Gi of the class "fast"."""
    body = {
        "metadata": {
            "name": "data",
            "namespace": "ns",
            "uid": "claim",
            "resourceVersion": "7",
            **({"annotations": annotations} if annotations else {}),
            **(metadata or {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **spec,
        },
        "status": {"phase": "Pending"} if status is None else status,
    }
    encoded = msgspec.json.encode(body)
    return msgspec.json.decode(encoded, type=PersistentVolumeClaim)


def volume(
    name: str = "v",
    size: str = "1Gi",
    annotations: dict[str, str] | None = None,
    phase: str = "Available",
    metadata: JSON | None = None,
    **spec: Any,
) -> PersistentVolume:
    """Return a volume of the class "fast" for one writer."""
    body = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            **({"annotations": annotations} if annotations else {}),
            **(metadata or {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=PersistentVolume)


def storage_class(
    name: str = "fast", provisioner: str = "csi.example.com", mode: str = "Immediate"
) -> StorageClass:
    """Return a storage class."""
    body = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return msgspec.convert(body, StorageClass)


class Snapshot:
    """A `ClusterView` of given volumes, classes and pods."""

    def __init__(
        self,
        *volumes: PersistentVolume,
        classes: Sequence[StorageClass] = (),
        default: StorageClass | None = None,
        pods: Sequence[str] = (),
        provisions: bool = True,
    ) -> None:
        self.provisions = provisions
        self._volumes = {each.metadata.name: each for each in volumes}
        self._classes = {each.metadata.name: each for each in classes}
        self._default = default
        self._pods = pods
        self._index = VolumeIndex()
        for each in volumes:
            self._index.put(each.metadata.name, each)

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def best_volume(
        self, claim: PersistentVolumeClaim, *, only_reserved: bool
    ) -> PersistentVolume | None:
        reserved = self._index.reserved_for(claim)
        if reserved is not None or only_reserved:
            return reserved
        return self._index.smallest(claim, lambda _: False)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def default_class(self) -> StorageClass | None:
        return self._default

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> Sequence[str]:
        del claim
        return self._pods
