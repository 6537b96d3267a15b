"""Carries out the writes of a decision, and records its events."""

from controller_manager.api.core import claims
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import key_of
from controller_manager.client.errors import APIError, Conflict, TransportError
from controller_manager.runtime.context import ControllerContext

from .actions import STATUS, Event, Write, warning
from .metrics import PROVISION, Operations, VolumeBinderMetrics
from .view import Caches


class Applier:
    """Replaces claims and volumes, and puts the stored objects into the assume caches.

    Each write carries the version that the decision was made for. The API server
    refuses the write if another program has changed the object.
    """

    def __init__(
        self,
        context: ControllerContext,
        caches: Caches,
        operations: Operations,
        metrics: VolumeBinderMetrics,
    ) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._logger = context.logger
        self._caches = caches
        self._operations = operations
        self._metrics = metrics

    async def write(self, write: Write) -> None:
        """Carry out a write. Raises the errors of the client."""
        if write.provisioner:
            self._operations.begin(key_of(write.obj), write.provisioner, PROVISION)
        try:
            stored = await self._put(write)
        except (APIError, TransportError) as error:
            self._refused(write, error)
            raise
        if write.gives_default_class:
            self._metrics.default_class_given(succeeded=True)
        if write.event is not None:
            self.record(write.event)
        if _completes_a_binding(stored):
            self._operations.end(key_of(stored))
        self._log(write, stored)

    async def _put(self, write: Write) -> PersistentVolumeClaim | PersistentVolume:
        match write.obj:
            case PersistentVolume() as volume:
                stored = await self._client.update(
                    PERSISTENT_VOLUMES, volume, write.subresource
                )
                self._caches.volumes.assume(stored)
                return stored
            case claim:
                stored_claim = await self._client.update(
                    CLAIMS, claim, write.subresource
                )
                self._caches.claims.assume(stored_claim)
                return stored_claim

    def _refused(self, write: Write, error: Exception) -> None:
        """Count a failed write; record its event, unless it is retried at once."""
        if write.gives_default_class:
            self._metrics.default_class_given(succeeded=False)
        if write.refused and not isinstance(error, Conflict):
            message = f"Error saving claim: {error}"
            self.record(warning(write.obj, write.refused, message))
        if isinstance(write.obj, PersistentVolumeClaim):
            self._operations.fail(key_of(write.obj))

    def record(self, event: Event) -> None:
        """Record an event."""
        self._recorder.event(
            event.resource, event.about, event.type, event.reason, event.message
        )

    def _log(
        self, write: Write, stored: PersistentVolumeClaim | PersistentVolume
    ) -> None:
        if write.subresource != STATUS:
            self._logger.v(4).info("Updated", object=key_of(stored))
            return
        phase = stored.status.phase
        if isinstance(stored, PersistentVolume):
            self._logger.v(2).info(
                "Volume entered phase", volumeName=key_of(stored), phase=phase
            )
            return
        self._logger.v(2).info("Claim entered phase", PVC=key_of(stored), phase=phase)


def _completes_a_binding(stored: PersistentVolumeClaim | PersistentVolume) -> bool:
    is_claim = isinstance(stored, PersistentVolumeClaim)
    return is_claim and stored.status.phase == claims.BOUND
