"""Volumes, claims and classes for the tests of the binder, and a binder of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, Status, StatusDetails, key_of
from controller_manager.api.resource import AnyResource, Resource
from controller_manager.api.storage.v1 import STORAGE_CLASSES, StorageClass
from controller_manager.client.errors import NotFound
from controller_manager.clock import LoopClock
from controller_manager.controllers.storage.volumebinder.binding import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
)
from controller_manager.controllers.storage.volumebinder.controller import VolumeBinder
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.indexes import Index
from controller_manager.informers.lister import Lister
from controller_manager.informers.store import Store
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Outcome
from tests.clusters import EPOCH

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
    name: str = "fast",
    provisioner: str = "csi.example.com",
    mode: str = "Immediate",
    *,
    is_default: bool = False,
) -> StorageClass:
    """Return a storage class."""
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {
        "metadata": {"name": name, **({"annotations": mark} if is_default else {})},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return msgspec.convert(body, StorageClass)


@dataclass
class Informer:
    """An informer that shows the events which the test gives."""

    store: Store[Any] = field(default_factory=Store)
    epoch: int = 0
    handlers: list[Handler[Any]] = field(default_factory=list)

    def add_handler(self, handler: Handler[Any]) -> None:
        self.handlers.append(handler)

    def show(self, obj: KubeObject) -> None:
        old = self.store.put(obj)
        for handler in self.handlers:
            if old is None:
                handler.on_add(obj)
            else:
                handler.on_update(old, obj)

    def remove(self, name: str) -> None:
        gone = self.store.remove(name)
        assert gone is not None
        for handler in self.handlers:
            handler.on_delete(gone)


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
        """The reasons of the events."""
        return [reason for _, _, reason, _ in self.events]


class Binder:
    """A binder whose caches show given objects, and whose writes succeed.

    The API server has the same objects, and those of `stored` in their place.
    """

    def __init__(
        self,
        *objects: KubeObject,
        classes: Sequence[StorageClass] = (),
        pods: Sequence[str] = (),
        provisions: bool = True,
        stored: Sequence[PersistentVolumeClaim | PersistentVolume] = (),
    ) -> None:
        self._informers: dict[AnyResource, Informer] = {}
        self._stored = {each.metadata.name: each for each in stored}
        self._version = 100
        self._provisions = provisions
        self._objects = (*objects, *classes, *(_pod(name) for name in pods))

    async def sync_claim(self, claim: PersistentVolumeClaim) -> Synced:
        """Sync a claim, which the caches show, too."""
        binder, synced = self._started(claim)
        synced.outcome = await binder.sync_claim(key_of(claim))
        return synced

    async def sync_volume(self, volume: PersistentVolume) -> Synced:
        """Sync a volume, which the caches show, too."""
        binder, synced = self._started(volume)
        synced.outcome = await binder._volume_sync.sync(volume.metadata.name)
        return synced

    def _started(self, subject: KubeObject) -> tuple[VolumeBinder, Synced]:
        self._synced, queued = Synced(), SimpleNamespace(add=lambda _: None)
        registry = CollectorRegistry()
        options = VolumeBinderOptions(provisions=self._provisions)
        context = SimpleNamespace(
            client=self,
            clock=LoopClock(EPOCH),
            config=SimpleNamespace(of=lambda _: options),
            informers=self,
            lister=self._lister,
            logger=silent_logger(),
            metrics=SimpleNamespace(of=lambda collectors: collectors(registry)),
            queue=lambda _: queued,
            recorder=self,
        )
        binder = VolumeBinder(cast("ControllerContext", context))
        for each in (*self._objects, subject):
            self.informer(_resource_of(each)).show(each)
        queued.add = self._synced.added.append
        return binder, self._synced

    def informer(self, resource: AnyResource) -> Informer:
        return self._informers.setdefault(resource, Informer())

    def _lister(self, resource: Resource[Any], *indexes: Index) -> Lister[Any]:
        return Lister(self.informer(resource).store, resource.kind, *indexes)

    def event(
        self, resource: AnyResource, obj: KubeObject, kind: str, reason: str, text: str
    ) -> None:
        assert resource == _resource_of(obj)
        self._synced.events.append((obj.metadata.name, kind, reason, text))

    async def get(
        self, resource: AnyResource, namespace: str, name: str
    ) -> KubeObject | None:
        self._synced.reads.append(name)
        key = f"{namespace}/{name}" if namespace else name
        found = self._stored.get(name) or self.informer(resource).store.get(key)
        if found is None:
            raise NotFound(Status(code=404, details=StatusDetails(name)))
        return found

    async def update(
        self, _: AnyResource, obj: PersistentVolume, subresource: str
    ) -> KubeObject:
        self._synced.writes.append((obj, subresource))
        self._version += 1
        version = str(self._version)
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


def _pod(name: str) -> Pod:
    """Return a pod without a node that uses the claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return msgspec.convert({"metadata": metadata, "spec": {"volumes": [volume]}}, Pod)
