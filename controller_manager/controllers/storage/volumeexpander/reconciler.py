"""Requests the expansion of the volumes of growing claims (expand_controller.go)."""

from typing import Any, Final

from controller_manager.api.core.claims import BOUND, CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import CompleteObject, key_of
from controller_manager.client.client import PatchType
from controller_manager.client.errors import APIError, is_conflict
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.storage_operations import StorageOperationMetrics
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

from .decide import (
    ClaimPatch,
    Expansion,
    VolumePatch,
    amount,
    decide,
    requested,
    wants_more,
)

EXTERNAL_EXPANDING: Final = "ExternalExpanding"
RESIZE_FAILED: Final = "VolumeResizeFailed"
RESIZE_SUCCESSFUL: Final = "VolumeResizeSuccessful"

_WORKERS: Final = 10
_OPERATION: Final = "expand_volume"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim has a volume."""
    return claim.status.phase == BOUND


def has_grown(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Tell whether a claim requests more, or has more, than before."""
    if (old.raw_spec, old.raw_status) == (new.raw_spec, new.raw_status):
        return False
    return requested(new) > requested(old) or (
        amount(new.status.capacity) > amount(old.status.capacity)
    )


class VolumeExpanderReconciler(Reconciler[PersistentVolumeClaim]):
    """Names the external resizer of a growing claim, or prepares the kubelet's work.

    The volume is read from the cache. Upstream reads it from the API server, for each
    bound claim at each start. All writes carry the cached versions.
    """

    queue_name = "volume_expand"
    watches = (For(CLAIMS, when=is_bound, when_changed=has_grown),)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = _WORKERS
        self._volumes = context.lister(PERSISTENT_VOLUMES)
        self._operations = context.metrics.of(StorageOperationMetrics)

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Carry out the actions for the sizes of the claim and of its volume."""
        if not is_bound(claim):
            return DONE
        if (volume := self._volume_of(claim)) is None:
            return DONE
        expansion = decide(claim, volume, self.clock.now())
        if expansion.external:
            self._record(claim, NORMAL, EXTERNAL_EXPANDING, expansion.external)
        started = self.clock.monotonic()
        is_done = False
        try:
            await self._write(claim, volume, expansion)
            is_done = True
        finally:
            if expansion.plugin:
                seconds = self.clock.monotonic() - started
                self._operations.observe(
                    expansion.plugin, _OPERATION, seconds, failed=not is_done
                )
        if expansion.is_finished:
            message = f"ExpandVolume succeeded for volume {key_of(claim)}"
            self._record(claim, NORMAL, RESIZE_SUCCESSFUL, message)
        return DONE

    async def _write(
        self,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        expansion: Expansion,
    ) -> None:
        """Send the writes; each carries the version that the previous one returned."""
        failed = EXTERNAL_EXPANDING if expansion.external else RESIZE_FAILED
        latest: dict[type, Any] = {ClaimPatch: claim, VolumePatch: volume}
        for write in expansion.writes:
            try:
                latest[type(write)] = await self._send(write, latest[type(write)])
            except APIError as error:
                if not is_conflict(error):
                    self._record(claim, WARNING, failed, _problem(write, error))
                raise

    def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume of a claim, `None` if it is missing or of another claim.

        Raises SyncError instead of `None` if the claim wants more: the cache may show
        the binding of the claim before that of the volume.
        """
        name = claim.spec.volume_name
        volume = self._volumes.get("", name)
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is not None and reference.uid == claim.metadata.uid:
            return volume
        if not wants_more(claim):
            return None
        problem = "is missing" if volume is None else "is bound to another claim"
        msg = f"the volume {name!r} of {key_of(claim)} {problem}"
        raise SyncError(msg)

    async def _send(
        self, write: ClaimPatch | VolumePatch, obj: CompleteObject
    ) -> CompleteObject:
        """Send a write about an object of this version; return it as stored."""
        seen = obj.metadata
        metadata = {
            **write.patch.get("metadata", {}),
            "resourceVersion": seen.resource_version,
            "uid": seen.uid,
        }
        place, patch = (
            (seen.namespace, seen.name),
            {**write.patch, "metadata": metadata},
        )
        if isinstance(write, VolumePatch):
            return await self.client.patch(
                PERSISTENT_VOLUMES, *place, patch, PatchType.MERGE
            )
        return await self.client.patch(CLAIMS, *place, patch, PatchType.MERGE, "status")

    def _record(
        self, claim: PersistentVolumeClaim, kind: str, reason: str, message: str
    ) -> None:
        self.recorder.event(CLAIMS, claim, kind, reason, message)


def _problem(write: ClaimPatch | VolumePatch, error: APIError) -> str:
    separator = " " if write.failure.endswith("with error") else ": "
    return f"{write.failure}{separator}{error}"
