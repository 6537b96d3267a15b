"""Has the volumes of growing claims expanded (expand_controller.go).

CSI drivers, also those that have replaced an in-tree plugin, have their own resizers:
users are told to wait for them. The kubelet expands only volumes of flex volume
plugins; this controller prepares them.
"""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core.claims import (
    BOUND,
    CLAIMS,
    STORAGE,
    PersistentVolumeClaim,
)
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import CompleteObject, annotations_of, key_of
from controller_manager.api.quantity import parse_quantity
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import APIError, is_conflict
from controller_manager.control.csi_migration import plugin_of
from controller_manager.control.volumes import StorageOperationMetrics
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

from .resize import (
    NODE_IN_PROGRESS,
    NODE_INFEASIBLE,
    NODE_PENDING,
    amount,
    awaiting_node,
    is_node_expand_complete,
    requested,
    resized,
    resizing,
    size_to_allocate,
    state_of,
    status_patch,
    wants_more,
)

RESIZER: Final = "volume.kubernetes.io/storage-resizer"
"""The annotation of a claim with the name of the resizer of its volume."""

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""The annotation of a volume with the capacity that its file system has until a kubelet
has expanded it: a claim that is bound to the volume later is expanded, too."""

_EXTERNAL: Final = "ExternalExpanding"
_FAILED: Final = "VolumeResizeFailed"
"""The reasons of events."""

_WORKERS: Final = 10
_OPERATION: Final = "expand_volume"
_BLOCK: Final = "Block"


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
        """Have the volume of a claim expanded if the claim wants more (syncHandler)."""
        volume = self._volume_of(claim) if is_bound(claim) else None
        if volume is None:
            return DONE
        is_marked = PRE_RESIZE_CAPACITY in annotations_of(volume.metadata)
        if not wants_more(claim) and not is_marked:
            return DONE
        if (plugin := plugin_of(volume.spec)) is not None:
            text = (
                f"CSI migration enabled for {plugin.name}; waiting for external "
                "resizer to expand the pvc"
            )
            self.recorder.event(CLAIMS, claim, NORMAL, _EXTERNAL, text)
            await self._name_resizer(claim, plugin.driver)
        elif (flex := volume.spec.flex_volume) is None:
            text = "waiting for an external controller to expand this PVC"
            self.recorder.event(CLAIMS, claim, NORMAL, _EXTERNAL, text)
        elif is_marked and is_node_expand_complete(claim, volume):
            problem = f"error updating pv {volume.metadata.name}: "
            await self._patch_volume(claim, volume, _mark(None), problem)
        else:
            await self._try_to_expand(claim, volume, flex.driver)
        return DONE

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

    async def _name_resizer(self, claim: PersistentVolumeClaim, resizer: str) -> None:
        key = key_of(claim)
        problem = f"error setting resizer annotation to pvc {key}, with error "
        if patch := _annotation(claim, resizer):
            await self._patch_claim(claim, claim, patch, problem, _EXTERNAL)

    async def _try_to_expand(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, driver: str
    ) -> None:
        started = self.clock.monotonic()
        failed = True
        try:
            await self._expand(claim, volume, driver)
            failed = False
        finally:
            seconds = self.clock.monotonic() - started
            self._operations.observe(driver, _OPERATION, seconds, failed=failed)

    async def _expand(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, driver: str
    ) -> None:
        """Go on from the state in the claim's status (expandAndRecoverFunction).

        Only the kubelet expands the volume, so this always succeeds. A volume that is
        larger already keeps its capacity; upstream would lower it. Each write carries
        the version that the previous one returned; events are about the cached claim.
        """
        key, state, now = key_of(claim), state_of(claim), self.clock.now()
        is_large = amount(volume.spec.capacity) >= requested(claim)
        if is_large and state in (NODE_PENDING, NODE_IN_PROGRESS):
            # The kubelet continues. The mark is missing if this process ended before
            # writing it.
            await self._keep_capacity(claim, volume)
            return
        stored, status = claim, claim.status
        if not (is_large and state == NODE_INFEASIBLE):
            size = size_to_allocate(claim, volume)
            status = resizing(status, size, now)
            begun = {**_annotation(claim, driver), **status_patch(claim.status, status)}
            if begun:
                problem = f"error updating pvc {key} with resize in progress: "
                stored = await self._patch_claim(claim, stored, begun, problem)
            if amount(volume.spec.capacity) < parse_quantity(size):
                grown = {"spec": {"capacity": {STORAGE: size}}}
                problem = f"error updating pv for pvc {key}: "
                volume = await self._patch_volume(claim, volume, grown, problem)
            if volume.spec.volume_mode == _BLOCK:
                done = status_patch(status, resized(status, size))
                await self._finish(claim, stored, done)
                return
        awaiting = status_patch(status, awaiting_node(status, now))
        problem = f"error marking pvc {key} for node expansion: "
        await self._patch_claim(claim, stored, awaiting, problem)
        await self._keep_capacity(claim, volume)

    async def _finish(
        self,
        claim: PersistentVolumeClaim,
        stored: PersistentVolumeClaim,
        done: Mapping[str, Any],
    ) -> None:
        key = key_of(claim)
        problem = f"error marking pvc {key} as resized: "
        await self._patch_claim(claim, stored, done, problem)
        text = f"ExpandVolume succeeded for volume {key}"
        self.recorder.event(CLAIMS, claim, NORMAL, "VolumeResizeSuccessful", text)

    async def _keep_capacity(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> None:
        """Store the present capacity in the volume's annotation, if it lacks it.

        A block volume has no file system, and needs no such write.
        """
        metadata = volume.metadata
        is_marked = PRE_RESIZE_CAPACITY in annotations_of(metadata)
        if is_marked or volume.spec.volume_mode == _BLOCK:
            return
        has = str(amount(claim.status.capacity))
        problem = (
            f"error updating pv {metadata.name} annotation ({PRE_RESIZE_CAPACITY}) "
            f"with pre-resize capacity {has}: "
        )
        await self._patch_volume(claim, volume, _mark(has), problem)

    async def _patch_claim(
        self,
        claim: PersistentVolumeClaim,
        stored: PersistentVolumeClaim,
        patch: Mapping[str, Any],
        problem: str,
        reason: str = _FAILED,
    ) -> PersistentVolumeClaim:
        """Patch a claim's status and metadata; report a failure, except a conflict.

        `stored` is its last known version.
        """
        seen, patch = stored.metadata, _of_version(stored, patch)
        try:
            return await self.client.patch(
                CLAIMS, seen.namespace, seen.name, patch, PatchType.MERGE, "status"
            )
        except APIError as error:
            self._report(claim, reason, problem, error)
            raise

    async def _patch_volume(
        self,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        patch: Mapping[str, Any],
        problem: str,
    ) -> PersistentVolume:
        name, patch = volume.metadata.name, _of_version(volume, patch)
        try:
            return await self.client.patch(
                PERSISTENT_VOLUMES, "", name, patch, PatchType.MERGE
            )
        except APIError as error:
            self._report(claim, _FAILED, problem, error)
            raise

    def _report(
        self, claim: PersistentVolumeClaim, reason: str, problem: str, error: APIError
    ) -> None:
        if not is_conflict(error):
            self.recorder.event(CLAIMS, claim, WARNING, reason, f"{problem}{error}")


def _annotation(claim: PersistentVolumeClaim, resizer: str) -> dict[str, Any]:
    if annotations_of(claim.metadata).get(RESIZER) == resizer:
        return {}
    return {"metadata": {"annotations": {RESIZER: resizer}}}


def _mark(capacity: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: capacity}}}


def _of_version(obj: CompleteObject, patch: Mapping[str, Any]) -> dict[str, Any]:
    seen = obj.metadata
    version = {"resourceVersion": seen.resource_version, "uid": seen.uid}
    return {**patch, "metadata": {**patch.get("metadata", {}), **version}}
