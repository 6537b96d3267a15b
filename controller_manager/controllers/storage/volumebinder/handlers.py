"""Adds the keys of claims and volumes after a change (pv_controller_base.go)."""

from controller_manager.api.core import claims
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import key_of
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.workqueue.queue import WorkQueue

from .metrics import Operations
from .view import Caches


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
