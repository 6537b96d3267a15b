"""Caches with the controller's own writes, and locks of volumes.

A binding takes four writes to two objects. Without such a cache, the sync after a write
would decide on objects that are older than the write. Upstream: storeObjectUpdate of
pv_controller_base.go. It has one worker for claims, here several bind claims at a time,
so that no slow request delays the others. So volumes have locks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import (
    KubeObject,
    Resource,
    key_of,
    resource_version_number,
)
from controller_manager.client.rest.errors import InvalidName
from controller_manager.control.expectations import live
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext

ObjectT = TypeVar("ObjectT", bound=PersistentVolume | PersistentVolumeClaim)

STATUS: Final = "status"
"""The name of the subresource."""

Observer = Callable[[str, Any], None]
"""A function that takes the key of an object and its newest version, `None` if gone."""


class AssumeCache(Generic[ObjectT]):
    """The newest known version of each object: from the watch, or from a write."""

    def __init__(
        self,
        context: ControllerContext,
        resource: Resource[ObjectT],
        observers: tuple[Observer, ...],
    ) -> None:
        """Call the observers with each newest version, before handlers added later."""
        self._client = context.client
        self._logger = context.logger
        self._resource = resource
        self._informer = context.informers.informer(resource)
        self._observers = observers
        self._assumed: dict[str, tuple[ObjectT, int]] = {}
        """The objects that writes have returned, each with the epoch of its version."""
        self._informer.add_handler(
            Handler(
                on_add=self._seen,
                on_update=lambda _, new: self._seen(new),
                on_delete=lambda gone: self._gone(key_of(gone)),
            )
        )

    def get(self, key: str) -> ObjectT | None:
        """Return the newest version of an object, `None` if there is none."""
        cached = self._informer.store.get(key)
        assumed = self._assumed.get(key)
        if cached is None or assumed is None:
            return cached
        obj, epoch = assumed
        if epoch == self._informer.epoch:
            return obj
        # The server's store was restored: resource versions have started again.
        del self._assumed[key]
        return cached

    async def read(self, namespace: str, name: str) -> ObjectT | None:
        """Read an object from the API server; return `None` if there is none."""
        try:
            return await live(self._client, self._resource, namespace, name)
        except InvalidName:
            return None  # no object can have that name

    async def is_current(self, name: str) -> bool:
        """Tell whether a volume in the cache has the version of the stored one."""
        stored = await self.read("", name)
        shown = self.get(name)
        if stored is None or shown is None:
            return stored is shown
        return version_of(shown) == version_of(stored)

    async def update(self, obj: ObjectT, subresource: str = "") -> ObjectT:
        """Replace an object or its status; keep and return the stored version."""
        stored = await self._client.update(self._resource, obj, subresource)
        self.assume(stored)
        key = key_of(stored)
        phase = stored.status.phase
        if not subresource:
            self._logger.v(4).info("Updated", object=key)
        elif isinstance(stored, PersistentVolume):
            self._logger.v(2).info("Volume entered phase", volumeName=key, phase=phase)
        else:
            self._logger.v(2).info("Claim entered phase", PVC=key, phase=phase)
        return stored

    def assume(self, obj: ObjectT) -> None:
        """Add an object that a write has returned."""
        key = key_of(obj)
        cached = self._informer.store.get(key)
        if cached is None or not _is_newer(obj, cached):
            return
        self._assumed[key] = (obj, self._informer.epoch)
        self._tell(key)

    def _seen(self, obj: ObjectT) -> None:
        key = key_of(obj)
        assumed = self._assumed.get(key)
        if assumed is not None and not _is_newer(assumed[0], obj):
            del self._assumed[key]
        self._tell(key)

    def _gone(self, key: str) -> None:
        self._assumed.pop(key, None)
        for observer in self._observers:
            observer(key, None)

    def _tell(self, key: str) -> None:
        newest = self.get(key)
        for observer in self._observers:
            observer(key, newest)


def version_of(obj: KubeObject) -> tuple[str, str]:
    """Return uid and resource version."""
    return obj.metadata.uid, obj.metadata.resource_version


def _is_newer(one: KubeObject, other: KubeObject) -> bool:
    ours, theirs = one.metadata, other.metadata
    return ours.uid == theirs.uid and (
        resource_version_number(ours.resource_version)
        > resource_version_number(theirs.resource_version)
    )


class VolumeLocks:
    """Locks of volumes by name, each for one sync that changes the volume.

    While a claim has the lock, or waits for it, no other claim chooses the volume.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._claims: dict[str, str] = {}

    def is_taken(self, volume: str, claim: str) -> bool:
        """Tell whether a claim other than `claim` is getting a volume."""
        return self._claims.get(volume, claim) != claim

    @asynccontextmanager
    async def lock(self, volume: str, claim: str = "") -> AsyncIterator[None]:
        """Lock a volume, for a claim if its key is given."""
        lock = self._locks.setdefault(volume, asyncio.Lock())
        self._waiting[volume] = self._waiting.get(volume, 0) + 1
        takes = bool(claim) and volume not in self._claims
        if takes:
            self._claims[volume] = claim
        try:
            async with lock:
                yield
        finally:
            if takes:
                del self._claims[volume]
            self._waiting[volume] -= 1
            if not self._waiting[volume]:
                del self._waiting[volume], self._locks[volume]
