"""Watches volumes and claims, and carries out what is decided for them.

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
from controller_manager.controllers.storage.volumebinder.caches import Caches
from controller_manager.controllers.storage.volumebinder.changes import is_available
from controller_manager.controllers.storage.volumebinder.claim_steps import (
    decide_claim,
)
from controller_manager.controllers.storage.volumebinder.metrics import (
    DELETE,
    NOT_KNOWN,
    PROVISION,
    Census,
    Operations,
    VolumeBinderMetrics,
)
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.controllers.storage.volumebinder.steps import (
    ReadClaim,
    ReadVolume,
    Rest,
    Write,
)
from controller_manager.controllers.storage.volumebinder.volume_steps import (
    FoundClaim,
    decide_volume,
)
from controller_manager.controllers.storage.volumebinder.writes import Writer
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue, SyncError

_WORKERS: Final = 10
"""Claims that are bound at a time, and as many volumes. Upstream has one of each."""

_MOST_STEPS: Final = 16
"""The most steps of one sync. A decision that asks for more has a defect."""

_OLD_CACHE: Final = Requeue(1.0, "the cache shows an old version of the volume")

_SHORTEST_PERIOD: Final = 1.0
"""Seconds: upstream syncs without a pause if the period is 0."""


def init_volume_binder_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewController)."""
    return VolumeBinder(context).workers()


class VolumeBinder:
    """Binds claims and volumes to each other, and lets volumes go.

    A claim that waits is looked at again after the sync period. Upstream looks at all
    claims and volumes of the cluster then; here each change adds the keys of those
    that it concerns.
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
        self.caches = Caches(context, Census(metrics))
        self._writer = Writer(context, self.caches, self.operations, metrics)
        self._woken: set[str] = set()
        """The claims that are to look at a volume that has become available."""
        self._claim_queue = context.queue("claims")
        self._volume_queue = context.queue("volumes")
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

    def workers(self) -> Controller:
        """Return the workers, not yet running."""
        run = self._context.workers
        return WorkerGroup(
            run(self._volume_queue, self.sync_volume, _WORKERS, self._enqueue_volumes),
            run(self._claim_queue, self.sync_claim, _WORKERS, self._enqueue_claims),
        )

    async def sync_claim(self, key: str) -> Outcome:
        """Do for a claim what is to be done, one write after the other."""
        held, shown = "", ""
        self._woken.discard(key)
        async with AsyncExitStack() as stack:
            for _ in range(_MOST_STEPS):
                claim = self.caches.claims.get(key)
                if claim is None:
                    return DONE
                # The claim may have changed while the volume was read.
                is_certain = bool(shown) and shown == claim.spec.volume_name
                match decide_claim(claim, self.caches, is_certain=is_certain):
                    case Write(volume=volume) if volume and volume != held:
                        # Somebody else may be changing it: decide again then.
                        await stack.aclose()
                        hold = self.caches.holds.hold(volume, key)
                        await stack.enter_async_context(hold)
                        held = volume
                    case Write() as write:
                        await self._writer.write(write)
                    case ReadVolume(name=name):
                        if not await self._is_shown(name):
                            return _OLD_CACHE
                        shown = name
                    case Rest() as rest:
                        return self._rest_of_claim(key, rest)
                    case step:
                        raise _wrong(step)
        raise _endless(key)

    def _rest_of_claim(self, key: str, rest: Rest) -> Outcome:
        if rest.provisioner:
            self.operations.begin(key, rest.provisioner, PROVISION)
        return self._rest(rest)

    async def sync_volume(self, name: str) -> Outcome:
        """Do for a volume what is to be done, one write after the other."""
        read: tuple[ObjectReference | None, FoundClaim] | None = None
        async with self.caches.holds.hold(name):
            for _ in range(_MOST_STEPS):
                volume = self.caches.volume(name)
                if volume is None:
                    return DONE
                reference = volume.spec.claim_ref
                # The volume may refer to another claim since one was read.
                if read is not None and read[0] == reference:
                    found = read[1]
                else:
                    found = self.caches.found_claim(reference)
                match decide_volume(volume, found):
                    case Write() as write:
                        await self._writer.write(write)
                    case ReadClaim(namespace=namespace, name=claim):
                        read = reference, await self._read(namespace, claim)
                    case Rest() as rest:
                        return self._rest_of_volume(volume, rest)
        raise _endless(name)

    def _rest_of_volume(self, volume: PersistentVolume, rest: Rest) -> Outcome:
        name = volume.metadata.name
        if rest.deletes:
            plugin = NOT_KNOWN if rest.problem else self._provisioner_of(volume)
            self.operations.begin(name, plugin, DELETE)
        if rest.problem:
            self.operations.fail(name)
        if is_available(volume):
            self._offer(volume)
        return self._rest(rest)

    def _offer(self, volume: PersistentVolume) -> None:
        """Add a claim that waits for such a volume, another one for each volume."""
        key = self.caches.claim_waiting_for(volume, self._woken)
        if key is not None:
            self._woken.add(key)
            self._claim_queue.add(key)

    def _provisioner_of(self, volume: PersistentVolume) -> str:
        """Return who deletes a volume, as metrics name it.

        It is the provisioner of the class and not that of the volume's annotation,
        which may have any value.
        """
        found = self.caches.storage_class(storage_class_of(volume))
        if found is None:
            return NOT_KNOWN
        return DRIVERS.get(found.provisioner, found.provisioner)

    def _rest(self, rest: Rest) -> Outcome:
        for notice in rest.notices:
            self._writer.announce(notice)
        if rest.wakes:
            self._claim_queue.add(rest.wakes)
        if rest.error:
            raise SyncError(rest.error)
        return Done(self._period) if rest.again else DONE

    async def _is_shown(self, name: str) -> bool:
        """Tell whether the cache shows a volume as the API server has it."""
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

    def _volume_changed(self, volume: PersistentVolume) -> None:
        """Add a volume, and the claims that name it and are not bound to it."""
        name = volume.metadata.name
        self._volume_queue.add(name)
        reference = volume.spec.claim_ref
        uid = "" if reference is None else reference.uid
        for claim in self.caches.claims_naming(name):
            if uid != claim.metadata.uid or claim.status.phase != claims.BOUND:
                self._claim_queue.add(key_of(claim))

    def _volume_gone(self, volume: PersistentVolume) -> None:
        """Add the claims that have lost a volume."""
        name = volume.metadata.name
        self.operations.end(name)
        if (reference := volume.spec.claim_ref) is not None:
            self._claim_queue.add(f"{reference.namespace}/{reference.name}")
        for claim in self.caches.claims_naming(name):
            self._claim_queue.add(key_of(claim))

    def _claim_added(self, claim: PersistentVolumeClaim) -> None:
        self._claim_queue.add(key_of(claim))
        self._wake_volumes(claim)

    def _claim_updated(
        self, old: PersistentVolumeClaim, new: PersistentVolumeClaim
    ) -> None:
        """Add a claim; add its volumes, too, if it has another one now."""
        self._claim_queue.add(key_of(new))
        if (old.metadata.uid, old.spec.volume_name) != (
            new.metadata.uid,
            new.spec.volume_name,
        ):
            self._wake_volumes(old)
            self._wake_volumes(new)

    def _claim_gone(self, claim: PersistentVolumeClaim) -> None:
        """Add the volumes that a claim leaves behind."""
        self.operations.forget(key_of(claim))
        self._wake_volumes(claim)

    def _wake_volumes(self, claim: PersistentVolumeClaim) -> None:
        """Add the volumes that refer to a claim, and the one that it names."""
        for name in self.caches.index.referring_to(key_of(claim)):
            self._volume_queue.add(name)
        if claim.spec.volume_name:
            self._volume_queue.add(claim.spec.volume_name)


def _version(volume: PersistentVolume) -> tuple[str, str]:
    return volume.metadata.uid, volume.metadata.resource_version


def _wrong(step: object) -> RuntimeError:
    return RuntimeError(f"a claim cannot have the step {step}")


def _endless(key: str) -> RuntimeError:
    return RuntimeError(f"{key}: no rest after {_MOST_STEPS} steps")
