"""Volumes, claims and classes for the tests of the binder, and a binder of them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    Status,
    StatusDetails,
    key_of,
)
from controller_manager.api.storage.v1 import STORAGE_CLASSES, StorageClass
from controller_manager.client.rest.errors import NotFound
from controller_manager.controllers.storage.volumebinder.binding import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
)
from controller_manager.controllers.storage.volumebinder.controller import VolumeBinder
from controller_manager.runtime.outcome import Outcome
from tests.controllers.alone import Alone, Caches

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
    name: str = "fast",
    provisioner: str = "csi.example.com",
    mode: str = "Immediate",
    *,
    is_default: bool = False,
) -> StorageClass:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {
        "metadata": {"name": name, **({"annotations": mark} if is_default else {})},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return msgspec.convert(body, StorageClass)


Written = tuple[PersistentVolumeClaim | PersistentVolume, str]
"""An object that the binder has written, and the subresource."""


@dataclass
class Synced:
    """What a sync did: its writes, reads and events, and the claims that it added.

    An event is the name of an object, a type, a reason and a message.
    """

    writes: list[Written] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    events: list[tuple[str, str, str, str]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    outcome: Outcome | None = None

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, reason, _ in self.events]


class Binder:
    """A binder whose caches show given objects, and whose writes succeed.

    The API server has the same objects, and those of `stored` in their place.
    """

    def __init__(
        self,
        *objects: KubeObject,
        stored: Sequence[PersistentVolumeClaim | PersistentVolume] = (),
    ) -> None:
        self._stored = {each.metadata.name: each for each in stored}
        self._objects = objects

    async def sync_claim(self, claim: PersistentVolumeClaim) -> Synced:
        return await self._synced_of(claim, lambda it: it.sync_claim(key_of(claim)))

    async def sync_volume(self, volume: PersistentVolume) -> Synced:
        name = volume.metadata.name
        return await self._synced_of(volume, lambda it: it._volume_sync.sync(name))

    async def _synced_of(
        self, subject: KubeObject, sync: Callable[[VolumeBinder], Awaitable[Outcome]]
    ) -> Synced:
        self._caches = Caches()
        alone = Alone(VolumeBinder, self, self._caches)
        for each in (*self._objects, subject):
            self._caches.informer(_resource_of(each)).show(each)
        alone.added.clear()
        self._synced = Synced(added=alone.added)
        self._synced.outcome = await sync(alone.controller)
        told = zip(alone.recorder.about, alone.recorder.events, strict=True)
        self._synced.events = [(about.metadata.name, *event) for about, event in told]
        return self._synced

    async def get(self, resource: AnyResource, namespace: str, name: str) -> KubeObject:
        self._synced.reads.append(name)
        key = f"{namespace}/{name}" if namespace else name
        cached: KubeObject | None = self._caches.informer(resource).store.get(key)
        found = self._stored.get(name) or cached
        if found is None:
            raise NotFound(Status(code=404, details=StatusDetails(name)))
        return found

    async def update(
        self, _: AnyResource, obj: PersistentVolume, subresource: str
    ) -> KubeObject:
        writes = self._synced.writes
        writes.append((obj, subresource))
        version = str(100 + len(writes))
        metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
        return msgspec.structs.replace(obj, metadata=metadata)


def _resource_of(obj: KubeObject) -> AnyResource:
    kinds: dict[type, AnyResource] = {
        PersistentVolume: PERSISTENT_VOLUMES,
        PersistentVolumeClaim: CLAIMS,
        StorageClass: STORAGE_CLASSES,
        Pod: PODS,
    }
    return kinds[type(obj)]


def waiting_pod(name: str) -> Pod:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return msgspec.convert({"metadata": metadata, "spec": {"volumes": [volume]}}, Pod)
