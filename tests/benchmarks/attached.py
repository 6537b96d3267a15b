"""Nodes with volumes that are attached and in use, stored without admission."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from controller_manager.devcluster.storage import Storage

ON_A_NODE: Final = 20
"""Volumes of a node, each with a pod of its own."""

_NAMESPACE: Final = "bench"
_DRIVER: Final = "csi.example.com"
_MANAGED: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_SIZE: Final = {"storage": "1Gi"}
_MODES: Final = ["ReadWriteOnce"]


class Attached:
    """Stores volumes that are attached, with their claims, pods and nodes."""

    def __init__(self, storage: Storage) -> None:
        """Take the storage of the API server."""
        self._storage = storage
        self._numbers = itertools.count(2**65)

    def add(self, count: int) -> None:
        """Attach so many volumes, twenty to a node."""
        for first in range(0, count, ON_A_NODE):
            numbers = range(first, min(first + ON_A_NODE, count))
            node = f"attached-{first // ON_A_NODE:05}"
            self._put("nodes", _node(node, list(numbers)))
            for number in numbers:
                self._attach(node, number)

    def _attach(self, node: str, number: int) -> None:
        claim = self._put("persistentvolumeclaims", _claim(number))
        self._put("persistentvolumes", _volume(number, claim["metadata"]["uid"]))
        self._put("pods", _pod(number, node))
        self._put("volumeattachments.storage.k8s.io", _attachment(number, node))

    def _put(self, resource: str, obj: JSON) -> JSON:
        metadata = obj["metadata"]
        metadata["uid"] = str(uuid.UUID(int=next(self._numbers), version=4))
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
        key = (metadata.get("namespace", ""), metadata["name"])
        return self._storage.collection(resource).put(key, obj).obj


def _name(number: int) -> str:
    return f"volume-{number:06}"


def _unique(numbers: list[int]) -> Iterator[str]:
    return (csi_name(_DRIVER, _name(number)) for number in numbers)


def _node(name: str, numbers: list[int]) -> JSON:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    attached = [{"name": each, "devicePath": ""} for each in _unique(numbers)]
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "annotations": {_MANAGED: "true"}},
        "spec": {},
        "status": {
            "conditions": [ready],
            "volumesAttached": attached,
            "volumesInUse": [*_unique(numbers)],
        },
    }


def _claim(number: int) -> JSON:
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": _name(number), "namespace": _NAMESPACE},
        "spec": {
            "accessModes": _MODES,
            "resources": {"requests": _SIZE},
            "volumeName": _name(number),
        },
        "status": {"phase": "Bound", "accessModes": _MODES, "capacity": _SIZE},
    }


def _volume(number: int, claim: str) -> JSON:
    name = _name(number)
    reference = {"kind": "PersistentVolumeClaim", "namespace": _NAMESPACE, "name": name}
    return {
        "kind": "PersistentVolume",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "spec": {
            "accessModes": _MODES,
            "capacity": _SIZE,
            "claimRef": {**reference, "uid": claim},
            "csi": {"driver": _DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Bound"},
    }


def _pod(number: int, node: str) -> JSON:
    claim = {"claimName": _name(number)}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": _name(number), "namespace": _NAMESPACE},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": claim}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "c", "state": {"running": {}}}],
        },
    }


def _attachment(number: int, node: str) -> JSON:
    name = attachment_name(csi_name(_DRIVER, _name(number)), node)
    return {
        "kind": "VolumeAttachment",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name},
        "spec": {
            "attacher": _DRIVER,
            "nodeName": node,
            "source": {"persistentVolumeName": _name(number)},
        },
        "status": {"attached": True},
    }
