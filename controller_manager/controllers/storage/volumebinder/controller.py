"""Syncs volumes and claims: carries out the decisions about them.

Its handlers add the keys of claims and volumes after a change.

Upstream: pv_controller_base.go.
"""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Final

from controller_manager.api.core import claims
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PersistentVolume,
    storage_class_of,
)
from controller_manager.api.meta import key_of
from controller_manager.client.errors import InvalidName, NotFound, is_about
from controller_manager.control.csi_migration import DRIVERS
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Requeue,
    SyncError,
)
from controller_manager.workqueue.queue import WorkQueue

from .actions import Finished, ReadClaim, ReadVolume, Write
from .apply import Applier
from .binding import is_available
from .metrics import (
    DELETE,
    NOT_KNOWN,
    PROVISION,
    Counts,
    Operations,
    VolumeBinderMetrics,
)
from .options import VolumeBinderOptions
from .sync_claim import decide_claim
from .sync_volume import decide_volume
from .view import Caches, FoundClaim


class ChangeHandlers:
    """The event handlers of volumes and claims."""

    def __init__(
        self,
        caches: Caches,
        operations: Operations,
        claim_queue: WorkQueue,
        volume_queue: WorkQueue,
    ) -> None:
        self._caches = caches
        self._operations = operations
        self._claim_queue = claim_queue
        self._volume_queue = volume_queue

    def watch(self, context: ControllerContext) -> None:
        """Add the handlers to the informers."""
        context.informers.informer(PERSISTENT_VOLUMES).add_handler(
            Handler(
                on_add=self._volume_changed,
                on_update=lambda _, new: self._volume_changed(new),
                on_delete=self._volume_gone,
            )
        )
        context.informers.informer(CLAIMS).add_handler(
            Handler(
                on_add=self._claim_added,
                on_update=self._claim_updated,
                on_delete=self._claim_gone,
            )
        )

    def _volume_changed(self, volume: PersistentVolume) -> None:
        """Add a volume, and the claims that name the volume and are not bound to it."""
        name = volume.metadata.name
        self._volume_queue.add(name)
        reference = volume.spec.claim_ref
        uid = "" if reference is None else reference.uid
        for claim in self._caches.claims_naming(name):
            if uid != claim.metadata.uid or claim.status.phase != claims.BOUND:
                self._claim_queue.add(key_of(claim))

    def _volume_gone(self, volume: PersistentVolume) -> None:
        """Add the claims that have lost a volume."""
        name = volume.metadata.name
        self._operations.end(name)
        if (reference := volume.spec.claim_ref) is not None:
            self._claim_queue.add(f"{reference.namespace}/{reference.name}")
        for claim in self._caches.claims_naming(name):
            self._claim_queue.add(key_of(claim))

    def _claim_added(self, claim: PersistentVolumeClaim) -> None:
        self._claim_queue.add(key_of(claim))
        self._enqueue_volumes_of(claim)

    def _claim_updated(
        self, old: PersistentVolumeClaim, new: PersistentVolumeClaim
    ) -> None:
        """Add a claim, and its old and new volumes if it has another one now."""
        self._claim_queue.add(key_of(new))
        if (old.metadata.uid, old.spec.volume_name) != (
            new.metadata.uid,
            new.spec.volume_name,
        ):
            self._enqueue_volumes_of(old)
            self._enqueue_volumes_of(new)

    def _claim_gone(self, claim: PersistentVolumeClaim) -> None:
        """Add the volumes of a deleted claim."""
        self._operations.forget(key_of(claim))
        self._enqueue_volumes_of(claim)

    def _enqueue_volumes_of(self, claim: PersistentVolumeClaim) -> None:
        """Add the volumes that refer to a claim, and the volume that it names."""
        for name in self._caches.index.referring_to(key_of(claim)):
            self._volume_queue.add(name)
        if claim.spec.volume_name:
            self._volume_queue.add(claim.spec.volume_name)


_WORKERS: Final = 10
"""The claims synced at a time, and the volumes. Upstream syncs one of each."""

_MAX_ACTIONS: Final = 16
"""The most actions of one sync. A decision that needs more has a defect."""

_OLD_CACHE: Final = Requeue(1.0, "the cache shows an old version of the volume")

_SHORTEST_PERIOD: Final = 1.0
"""The shortest sync period in seconds; upstream syncs without a pause if it is 0."""


def init_volume_binder_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewController)."""
    return VolumeBinder(context).workers()


class VolumeBinder:
    """Binds claims and volumes to each other, and reclaims volumes.

    A claim that waits is synced again after the sync period. Upstream syncs all claims
    and volumes of the cluster then; here each change adds the keys of the claims and
    volumes that it concerns.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; watch claims and volumes."""
        self._context = context
        self._client = context.client
        self._logger = context.logger
        options = context.config.of(VolumeBinderOptions)
        self._period = max(options.sync_period, _SHORTEST_PERIOD)
        metrics = context.metrics.of(VolumeBinderMetrics)
        self.operations = Operations(metrics, context.clock)
        self.caches = Caches(context, Counts(metrics))
        self._applier = Applier(context, self.caches, self.operations, metrics)
        self._offered: set[str] = set()
        """The claims in the queue to which an available volume was offered."""
        self._claim_queue = context.queue("claims")
        self._volume_queue = context.queue("volumes")
        handlers = ChangeHandlers(
            self.caches, self.operations, self._claim_queue, self._volume_queue
        )
        handlers.watch(context)

    def workers(self) -> Controller:
        """Return the workers, not yet running."""
        run = self._context.workers
        return WorkerGroup(
            run(self._volume_queue, self.sync_volume, _WORKERS, self._enqueue_volumes),
            run(self._claim_queue, self.sync_claim, _WORKERS, self._enqueue_claims),
        )

    async def sync_claim(self, key: str) -> Outcome:
        """Sync a claim: carry out one write after the other until none is missing."""
        locked, shown = "", ""
        self._offered.discard(key)
        async with AsyncExitStack() as stack:
            for _ in range(_MAX_ACTIONS):
                claim = self.caches.claims.get(key)
                if claim is None:
                    return DONE
                # The claim may have changed while the volume was read.
                is_current = bool(shown) and shown == claim.spec.volume_name
                match decide_claim(claim, self.caches, is_current=is_current):
                    case Write(volume=volume) if volume and volume != locked:
                        # Another sync may change the volume meanwhile: decide again.
                        await stack.aclose()
                        lock = self.caches.locks.lock(volume, key)
                        await stack.enter_async_context(lock)
                        locked = volume
                    case Write() as write:
                        await self._applier.write(write)
                    case ReadVolume(name=name):
                        if not await self._is_current(name):
                            return _OLD_CACHE
                        shown = name
                    case Finished() as finished:
                        return self._finish_claim(key, finished)
                    case action:
                        raise _wrong_action(action)
        raise _too_many_actions(key)

    def _finish_claim(self, key: str, finished: Finished) -> Outcome:
        if finished.provisioner:
            self.operations.begin(key, finished.provisioner, PROVISION)
        return self._finish(finished)

    async def sync_volume(self, name: str) -> Outcome:
        """Sync a volume: carry out one write after the other until none is missing."""
        read: tuple[ObjectReference | None, FoundClaim] | None = None
        async with self.caches.locks.lock(name):
            for _ in range(_MAX_ACTIONS):
                volume = self.caches.volume(name)
                if volume is None:
                    return DONE
                reference = volume.spec.claim_ref
                # The volume may have got another claim since the claim was read.
                if read is not None and read[0] == reference:
                    found = read[1]
                else:
                    found = self.caches.found_claim(reference)
                match decide_volume(volume, found):
                    case Write() as write:
                        await self._applier.write(write)
                    case ReadClaim(namespace=namespace, name=claim):
                        read = reference, await self._read(namespace, claim)
                    case Finished() as finished:
                        return self._finish_volume(volume, finished)
        raise _too_many_actions(name)

    def _finish_volume(self, volume: PersistentVolume, finished: Finished) -> Outcome:
        name = volume.metadata.name
        if finished.deletes:
            plugin = NOT_KNOWN if finished.problem else self._provisioner_of(volume)
            self.operations.begin(name, plugin, DELETE)
        if finished.problem:
            self.operations.fail(name)
        if is_available(volume):
            self._offer(volume)
        return self._finish(finished)

    def _offer(self, volume: PersistentVolume) -> None:
        """Add a claim that waits for such a volume; each volume gets another claim."""
        key = self.caches.claim_waiting_for(volume, self._offered)
        if key is not None:
            self._offered.add(key)
            self._claim_queue.add(key)

    def _provisioner_of(self, volume: PersistentVolume) -> str:
        """Return the provisioner that deletes a volume, for metrics.

        The name comes from the class. The annotation of the volume may have any value.
        """
        found = self.caches.storage_class(storage_class_of(volume))
        if found is None:
            return NOT_KNOWN
        return DRIVERS.get(found.provisioner, found.provisioner)

    def _finish(self, finished: Finished) -> Outcome:
        for event in finished.events:
            self._applier.record(event)
        if finished.claim_to_sync:
            self._claim_queue.add(finished.claim_to_sync)
        after = self._period if finished.requeue else None
        if finished.error:
            return Failed(SyncError(finished.error), after)
        return Done(after)

    async def _is_current(self, name: str) -> bool:
        """Tell whether the cached volume has the version of the stored one."""
        try:
            stored = await self._client.get(PERSISTENT_VOLUMES, "", name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return self.caches.volume(name) is None
        except InvalidName:
            return True  # no volume can have that name
        shown = self.caches.volume(name)
        return shown is not None and _version(shown) == _version(stored)

    async def _read(self, namespace: str, name: str) -> FoundClaim:
        """Read a claim from the API server."""
        try:
            claim = await self._client.get(CLAIMS, namespace, name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return FoundClaim(None, is_read=True)
        except InvalidName:
            return FoundClaim(None, is_read=True)  # no claim can have that name
        return FoundClaim(claim, is_read=True)

    def _enqueue_volumes(self) -> Iterator[None]:
        for name in self.caches.names_of_volumes():
            self._volume_queue.add(name)
            yield

    def _enqueue_claims(self) -> Iterator[None]:
        for key in self.caches.keys_of_claims():
            self._claim_queue.add(key)
            yield


def _version(volume: PersistentVolume) -> tuple[str, str]:
    return volume.metadata.uid, volume.metadata.resource_version


def _wrong_action(action: object) -> RuntimeError:
    return RuntimeError(f"a claim cannot have the action {action}")


def _too_many_actions(key: str) -> RuntimeError:
    return RuntimeError(f"{key}: the sync has not ended after {_MAX_ACTIONS} actions")
