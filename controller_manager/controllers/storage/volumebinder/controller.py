"""Binds claims to volumes (syncClaim of pv_controller.go, pv_controller_base.go)."""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import annotations_of, is_deleting, key_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.storage.v1 import (
    STORAGE_CLASSES,
    WAIT_FOR_FIRST_CONSUMER,
    StorageClass,
)
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest.errors import APIError, Conflict, TransportError
from controller_manager.control.csi_migration import DRIVERS
from controller_manager.control.pod_indexes import PODS_BY_CLAIM
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.store import Index
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

from . import binding
from .assume_cache import STATUS, AssumeCache, VolumeLocks, version_of
from .matching import VolumeIndex, WaitingClaims, mismatch
from .metrics import PROVISION, Counts, Operations, VolumeBinderMetrics
from .options import VolumeBinderOptions
from .plugins import claim_asking, migrated_claim, provisioning_problem
from .volume_sync import MAX_STEPS, VolumeSync, in_steps

_WORKERS: Final = 10
"""The claims synced at a time, and the volumes. Upstream syncs one of each."""

_OLD_CACHE: Final = Requeue(1.0, "the cache shows an old version")

_SHORTEST_PERIOD: Final = 1.0
"""The shortest sync period in seconds; upstream syncs without a pause if it is 0."""


def _volume_name(claim: PersistentVolumeClaim) -> Iterable[str]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()


_CLAIMS_BY_VOLUME: Final = Index(
    "volume",
    _volume_name,
    lambda old, new: old.spec.volume_name == new.spec.volume_name,
)
"""Claims by the name of the volume that they have or ask for."""

_TRUE: Final = "true"


def _is_default(storage_class: StorageClass) -> Iterable[str]:
    """Return ``true`` for a default class (IsDefaultAnnotation)."""
    found = storage_class.metadata.annotations
    is_marked = found is not None and _TRUE in (found.is_default, found.beta_is_default)
    return (_TRUE,) if is_marked else ()


_DEFAULT_CLASSES: Final = Index(
    "default",
    _is_default,
    lambda old, new: old.metadata.annotations == new.metadata.annotations,
)
"""Default storage classes, by the value ``true``."""


def init_volume_binder_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewController)."""
    return VolumeBinder(context).workers()


class VolumeBinder:
    """Binds claims and volumes to each other, and reclaims volumes.

    A sync is a row of steps. A step that writes something returns `None`, and the next
    one begins with the newest objects: an interrupted binding continues where it
    stopped. The step that finds nothing to write returns the outcome. The API server
    refuses a write to an object that another program has changed.

    A claim that waits is synced again after the sync period. Upstream syncs all claims
    and volumes then; here each change adds the keys that it concerns.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._recorder = context.recorder
        options = context.config.of(VolumeBinderOptions)
        self._provisions = options.provisions
        self._later = Done(max(options.sync_period, _SHORTEST_PERIOD))
        self._metrics = context.metrics.of(VolumeBinderMetrics)
        self._operations = Operations(self._metrics, context.clock)
        self._locks = VolumeLocks()
        self._index = VolumeIndex()
        self._waiting = WaitingClaims()
        self._offered: set[str] = set()
        """The claims in the queue to which an available volume was offered."""
        counts = Counts(self._metrics)
        self._volumes = AssumeCache(
            context, PERSISTENT_VOLUMES, (self._index.put, counts.volume)
        )
        self._claims = AssumeCache(context, CLAIMS, (self._waiting.put, counts.claim))
        self._watched_volumes = context.lister(PERSISTENT_VOLUMES)
        self._watched_claims = context.lister(CLAIMS, _CLAIMS_BY_VOLUME)
        self._classes = context.lister(STORAGE_CLASSES, _DEFAULT_CLASSES)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        self._claim_queue = context.queue("claims")
        self._volume_queue = context.queue("volumes")
        self._volume_sync = VolumeSync(
            context,
            self._claims,
            self._volumes,
            self._locks,
            self._operations,
            self._claim_queue,
            self._offer,
            self._later,
        )
        self._watch()

    def _watch(self) -> None:
        """Add the handlers, after those of the caches: they see the newest objects."""
        informers = self._context.informers
        informers.informer(PERSISTENT_VOLUMES).add_handler(
            Handler(
                on_add=self._volume_changed,
                on_update=lambda _, new: self._volume_changed(new),
                on_delete=self._volume_gone,
            )
        )
        informers.informer(CLAIMS).add_handler(
            Handler(self._claim_added, self._claim_updated, self._claim_gone)
        )

    def workers(self) -> Controller:
        """Return the workers, not yet running."""
        run, sync_volume = self._context.workers, self._volume_sync.sync
        return WorkerGroup(
            run(self._volume_queue, sync_volume, _WORKERS, self._enqueue_volumes),
            run(self._claim_queue, self.sync_claim, _WORKERS, self._enqueue_claims),
        )

    # Handlers.

    def _enqueue_volumes(self) -> Iterator[None]:
        for name in self._watched_volumes.keys():  # noqa: SIM118 - no dict
            self._volume_queue.add(name)
            yield

    def _enqueue_claims(self) -> Iterator[None]:
        for key in self._watched_claims.keys():  # noqa: SIM118 - no dict
            self._claim_queue.add(key)
            yield

    def _volume_changed(self, volume: PersistentVolume) -> None:
        """Add a volume, and the claims that name the volume and are not bound to it."""
        name = volume.metadata.name
        self._volume_queue.add(name)
        reference = volume.spec.claim_ref
        uid = "" if reference is None else reference.uid
        for claim in self._watched_claims.by_index(_CLAIMS_BY_VOLUME, name):
            if uid != claim.metadata.uid or claim.status.phase != claims.BOUND:
                self._claim_queue.add(key_of(claim))

    def _volume_gone(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        self._operations.end(name)
        if key := volumes.claim_key(volume):
            self._claim_queue.add(key)
        for claim in self._watched_claims.by_index(_CLAIMS_BY_VOLUME, name):
            self._claim_queue.add(key_of(claim))

    def _claim_added(self, claim: PersistentVolumeClaim) -> None:
        self._claim_queue.add(key_of(claim))
        self._enqueue_volumes_of(claim)

    def _claim_updated(
        self, old: PersistentVolumeClaim, new: PersistentVolumeClaim
    ) -> None:
        self._claim_queue.add(key_of(new))
        is_same = old.metadata.uid == new.metadata.uid
        if not is_same or old.spec.volume_name != new.spec.volume_name:
            self._enqueue_volumes_of(old)
            self._enqueue_volumes_of(new)

    def _claim_gone(self, claim: PersistentVolumeClaim) -> None:
        self._operations.forget(key_of(claim))
        self._enqueue_volumes_of(claim)

    def _enqueue_volumes_of(self, claim: PersistentVolumeClaim) -> None:
        for name in self._index.referring_to(key_of(claim)):
            self._volume_queue.add(name)
        if claim.spec.volume_name:
            self._volume_queue.add(claim.spec.volume_name)

    def _offer(self, volume: PersistentVolume) -> None:
        """Add a claim that waits for an available volume; each gets another claim."""
        found = self._classes.by_key(volumes.storage_class_of(volume))
        if found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return  # the scheduler gives these volumes away
        key = self._waiting.one_for(volume, self._offered)
        if key is not None:
            self._offered.add(key)
            self._claim_queue.add(key)

    # The sync of a claim.

    async def sync_claim(self, key: str) -> Outcome:
        """Bind a claim, or tell what it waits for (syncClaim)."""
        self._offered.discard(key)
        return await in_steps(key, lambda: self._continue_claim(key))

    async def _continue_claim(self, key: str) -> Outcome | None:
        if (claim := self._claims.get(key)) is None:
            return DONE
        if (migrated := migrated_claim(claim)) is not None:
            await self._update(migrated)
            return None
        if (volume := self._volume_for(claim)) is not None:
            return await self._bind(claim, volume)
        if binding.BIND_COMPLETED in annotations_of(claim.metadata):
            return await self._sync_bound_claim(claim)
        if claim.spec.volume_name:
            return await self._sync_claim_with_volume_name(claim)
        return await self._sync_unbound_claim(claim)

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume that a claim has or gets, `None` if there is none yet.

        Raises SyncError for an invalid class or selector.
        """
        was_bound = binding.BIND_COMPLETED in annotations_of(claim.metadata)
        if not claim.spec.volume_name:
            return None if was_bound else self._best_volume(claim)
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            return None
        reference = volume.spec.claim_ref
        if reference is None:
            return None if not was_bound and mismatch(volume, claim) else volume
        if was_bound:
            return volume if reference.uid == claim.metadata.uid else None
        return volume if binding.is_reserved_for(volume, claim) else None

    def _best_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the best volume for a claim that accepts any (findBestMatchForClaim).

        If the scheduler chooses the volume, only a reserved one counts.
        """
        is_delayed = self._waits_for_consumer(claim)
        reserved = self._index.reserved_for(claim)
        if reserved is not None or is_delayed:
            return reserved
        key = key_of(claim)
        return self._index.smallest(claim, lambda name: self._locks.is_taken(name, key))

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether the scheduler chooses the volume (IsDelayBindingMode)."""
        name = claims.storage_class_of(claim)
        storage_class = self._classes.by_key(name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            msg = f'VolumeBindingMode not set for StorageClass "{name}"'
            raise SyncError(msg)
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    async def _bind(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> Outcome | None:
        """Bind a claim and a volume to each other, by four writes (bind).

        The volume is written first: if that is refused, the claim stays unchanged. It
        is not written for a claim that only an old cache shows: it would be released,
        and deleted if its policy says so, when the cache shows that the claim is gone.
        """
        if binding.is_bound(claim, volume):
            return DONE
        key, name = key_of(claim), volume.metadata.name
        async with self._locks.lock(name, key):
            for _ in range(MAX_STEPS):
                # Another sync may have changed the volume meanwhile.
                newest = self._claims.get(key)
                chosen = None if newest is None else self._volume_for(newest)
                if newest is None or chosen is None or chosen.metadata.name != name:
                    return None
                is_given = binding.volume_bound_to(chosen, newest) is not None
                if is_given and not await self._is_stored(newest):
                    return _OLD_CACHE
                if not await self._continue_binding(newest, chosen):
                    return DONE
        return None

    async def _is_stored(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether the API server has this claim, maybe with other fields."""
        metadata = claim.metadata
        stored = await self._claims.read(metadata.namespace, metadata.name)
        return stored is not None and stored.metadata.uid == metadata.uid

    async def _continue_binding(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> bool:
        """Make the first write that a binding misses; return False if none is."""
        if (bound := binding.volume_bound_to(volume, claim)) is not None:
            await self._volumes.update(bound)
        elif (phased := binding.volume_in_phase(volume, volumes.BOUND)) is not None:
            await self._volumes.update(phased, STATUS)
        elif (naming := binding.claim_bound_to(claim, volume)) is not None:
            await self._update(naming)
        elif (complete := binding.claim_of_volume(claim, volume)) is not None:
            await self._update(complete, STATUS)
        else:
            return False
        return True

    async def _sync_bound_claim(self, claim: PersistentVolumeClaim) -> Outcome | None:
        """Make a claim Lost that was bound and has no volume now (syncBoundClaim).

        An old cache, for instance of a new leader, makes no claim Lost.
        """
        name = claim.spec.volume_name
        if name and claim.status.phase != claims.LOST:
            if not await self._volumes.is_current(name):
                return _OLD_CACHE
            newest = self._claims.get(key_of(claim))
            if newest is None or version_of(newest) != version_of(claim):
                return None
            if self._volume_for(claim) is not None:
                return None
        lost = binding.claim_without_volume(claim, claims.LOST)
        if lost is None or claim.status.phase == claims.LOST:
            return self._later
        reason = "ClaimLost"
        lacks = "Bound claim has lost {}. Data on the volume is lost!"
        if not name:
            message = lacks.format("reference to PersistentVolume")
        elif self._volumes.get(name) is None:
            message = lacks.format("its PersistentVolume")
        else:
            reason = "ClaimMisbound"
            message = (
                "Two claims are bound to the same volume, this one is bound incorrectly"
            )
        await self._update(lost, STATUS)
        self._warn(claim, reason, message)
        return None

    async def _sync_claim_with_volume_name(
        self, claim: PersistentVolumeClaim
    ) -> Outcome | None:
        """Tell why a claim cannot have the volume that it asks for by name."""
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            return await self._stay_pending(claim)
        name = volume.metadata.name
        reference = volume.spec.claim_ref
        if reference is None:
            problem = mismatch(volume, claim)
            message = f'Cannot bind to requested volume "{name}": {problem}'
            return await self._stay_pending(claim, WARNING, "VolumeMismatch", message)
        message = f'volume "{name}" already bound to a different claim.'
        if binding.BOUND_BY_CONTROLLER not in annotations_of(claim.metadata):
            return await self._stay_pending(claim, WARNING, "FailedBinding", message)
        self._warn(claim, "FailedBinding", message)
        error = (
            f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume '
            f'already claimed by "{reference.namespace}/{reference.name}"'
        )
        return Failed(SyncError(error), self._later.requeue_after)

    async def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> Outcome | None:
        """Give a claim the default class, ask for a volume, or tell what it awaits."""
        default = None if _has_class(claim) else self._default_class()
        if default is not None:
            await self._give_class(claim, default)
            return None
        is_delayed = self._waits_for_consumer(claim)
        if is_delayed and binding.SELECTED_NODE not in annotations_of(claim.metadata):
            reason, message = self._awaited_consumer(claim)
        elif claims.storage_class_of(claim):
            return await self._provision(claim)
        else:
            reason = "FailedBinding"
            message = (
                "no persistent volumes available for this claim and no storage class "
                "is set"
            )
        return await self._stay_pending(claim, NORMAL, reason, message)

    def _default_class(self) -> StorageClass | None:
        """Return the newest default class; of equally new ones, the first by name."""
        found = list(self._classes.by_index(_DEFAULT_CLASSES, _TRUE))
        found.sort(key=lambda each: each.metadata.name, reverse=True)
        found.sort(key=lambda each: each.metadata.creation_timestamp or "")
        return found[-1] if found else None

    async def _give_class(
        self, claim: PersistentVolumeClaim, default: StorageClass
    ) -> None:
        """Give a claim a storage class (assignDefaultStorageClass)."""
        try:
            await self._update(binding.class_given_to(claim, default.metadata.name))
        except (APIError, TransportError):
            self._metrics.default_class_given(succeeded=False)
            raise
        self._metrics.default_class_given(succeeded=True)

    def _awaited_consumer(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        pods = sorted(
            pod.metadata.name
            for pod in self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
            if _is_unscheduled(pod)
        )
        if not pods:
            message = "waiting for first consumer to be created before binding"
            return "WaitForFirstConsumer", message
        word = "pod" if len(pods) == 1 else "pods"
        message = f"waiting for {word} {','.join(pods)} to be scheduled"
        return "WaitForPodScheduled", message

    async def _provision(self, claim: PersistentVolumeClaim) -> Outcome | None:
        """Ask an external provisioner for a volume (provisionClaim)."""
        if not self._provisions:
            return self._later
        reason = "ProvisioningFailed"
        name = claims.storage_class_of(claim)
        storage_class = self._classes.by_key(name)
        if storage_class is None:
            problem = f'storageclass.storage.k8s.io "{name}" not found'
            self._warn(claim, reason, problem)
            return self._later
        provisioner = DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        if problem := provisioning_problem(provisioner):
            self._warn(claim, reason, problem)
            return self._later
        self._operations.begin(key_of(claim), provisioner, PROVISION)
        if (asking := claim_asking(claim, provisioner)) is not None:
            try:
                await self._update(asking)
            except (APIError, TransportError) as error:
                if not isinstance(error, Conflict):
                    self._warn(claim, reason, f"Error saving claim: {error}")
                raise
            return None
        message = (
            "Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume "
            "creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        self._recorder.event(CLAIMS, claim, NORMAL, "ExternalProvisioning", message)
        return self._later

    async def _stay_pending(
        self,
        claim: PersistentVolumeClaim,
        event_type: str = NORMAL,
        reason: str = "",
        message: str = "",
    ) -> Outcome | None:
        """Make a claim Pending; if it is, tell it why, and sync it again later."""
        pending = binding.claim_without_volume(claim, claims.PENDING)
        if pending is not None:
            await self._update(pending, STATUS)
            return None
        if reason:
            self._recorder.event(CLAIMS, claim, event_type, reason, message)
        return self._later

    async def _update(
        self, claim: PersistentVolumeClaim, subresource: str = ""
    ) -> None:
        key = key_of(claim)
        try:
            stored = await self._claims.update(claim, subresource)
        except (APIError, TransportError):
            self._operations.fail(key)
            raise
        if stored.status.phase == claims.BOUND:
            self._operations.end(key)

    def _warn(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        self._recorder.event(CLAIMS, claim, WARNING, reason, message)


def _has_class(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim names a class; "" is the name of a class, too."""
    return (
        claim.spec.storage_class_name is not None
        or claims.BETA_STORAGE_CLASS in annotations_of(claim.metadata)
    )


def _is_unscheduled(pod: Pod) -> bool:
    return not (pod.spec.node_name or is_deleting(pod) or is_terminal(pod))
