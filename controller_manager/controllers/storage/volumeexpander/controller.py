"""Has the volumes of growing claims expanded (expand_controller.go).

CSI drivers have their own resizers: users are told to wait for them. The kubelet
expands only volumes of flex volume plugins; this controller prepares them.
"""

from typing import Final, TypeVar

from controller_manager.api.core.claims import CLAIMS, STORAGE, PersistentVolumeClaim
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PRE_RESIZE_CAPACITY,
    PersistentVolume,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import CompleteObject, Resource, annotations_of, key_of
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

from . import resize

ObjectT = TypeVar("ObjectT", bound=CompleteObject)

RESIZER: Final = "volume.kubernetes.io/storage-resizer"
"""The annotation of a claim with the name of the resizer of its volume."""

_EXTERNAL: Final = "ExternalExpanding"
_FAILED: Final = "VolumeResizeFailed"
"""The reasons of events."""

_BLOCK: Final = "Block"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim has a volume."""
    return claim.status.phase == "Bound"


def has_grown(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Tell whether a claim requests more, or has more, than before."""
    if (old.raw_spec, old.raw_status) == (new.raw_spec, new.raw_status):
        return False
    return resize.requested(new) > resize.requested(old) or (
        resize.amount(new.status.capacity) > resize.amount(old.status.capacity)
    )


class VolumeExpanderReconciler(Reconciler[PersistentVolumeClaim]):
    """Names the external resizer of a growing claim, or prepares the kubelet's work.

    The volume is read from the cache; upstream reads it from the API server.
    """

    queue_name = "volume_expand"
    workers = 10
    watches = (For(CLAIMS, when=is_bound, when_changed=has_grown),)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = context.lister(PERSISTENT_VOLUMES)
        self._operations = context.metrics.of(StorageOperationMetrics)

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Have the volume of a claim expanded if the claim wants more (syncHandler)."""
        volume = self._volume_of(claim) if is_bound(claim) else None
        if volume is None:
            return DONE
        is_marked = PRE_RESIZE_CAPACITY in annotations_of(volume.metadata)
        if not resize.wants_more(claim) and not is_marked:
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
        elif is_marked and resize.is_node_expand_complete(claim, volume):
            problem = f"error updating pv {volume.metadata.name}: "
            await self._patch(PERSISTENT_VOLUMES, claim, volume, _mark(None), problem)
        else:
            await self._try_to_expand(claim, volume, flex.driver)
        return DONE

    def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume of a claim, `None` if it is missing or of another claim.

        Raises SyncError if the claim wants more: the volume's cache may be older.
        """
        name = claim.spec.volume_name
        volume = self._volumes.get("", name)
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is not None and reference.uid == claim.metadata.uid:
            return volume
        if not resize.wants_more(claim):
            return None
        problem = "is missing" if volume is None else "is bound to another claim"
        msg = f"the volume {name!r} of {key_of(claim)} {problem}"
        raise SyncError(msg)

    async def _name_resizer(self, claim: PersistentVolumeClaim, resizer: str) -> None:
        key = key_of(claim)
        problem = f"error setting resizer annotation to pvc {key}, with error "
        if patch := _annotation(claim, resizer):
            await self._patch(CLAIMS, claim, claim, patch, problem, _EXTERNAL)

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
            self._operations.observe(driver, "expand_volume", seconds, failed=failed)

    async def _expand(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, driver: str
    ) -> None:
        """Go on from the state in the claim's status (expandAndRecoverFunction).

        Only the kubelet expands the volume, so this always succeeds. A volume that is
        larger already keeps its capacity; upstream would lower it.
        """
        key, state, now = key_of(claim), resize.state_of(claim), self.clock.now()
        is_large = resize.amount(volume.spec.capacity) >= resize.requested(claim)
        if is_large and state in (resize.NODE_PENDING, resize.NODE_IN_PROGRESS):
            # The kubelet continues. The mark is missing if this process ended before
            # writing it.
            await self._keep_capacity(claim, volume)
            return
        stored, status = claim, claim.status
        if not (is_large and state == resize.NODE_INFEASIBLE):
            size = resize.size_to_allocate(claim, volume)
            status = resize.resizing(status, size, now)
            begun = {
                **_annotation(claim, driver),
                **resize.status_patch(claim.status, status),
            }
            if begun:
                problem = f"error updating pvc {key} with resize in progress: "
                stored = await self._patch(CLAIMS, claim, stored, begun, problem)
            if resize.amount(volume.spec.capacity) < parse_quantity(size):
                grown = {"spec": {"capacity": {STORAGE: size}}}
                problem = f"error updating pv for pvc {key}: "
                place = PERSISTENT_VOLUMES
                volume = await self._patch(place, claim, volume, grown, problem)
            if volume.spec.volume_mode == _BLOCK:
                done = resize.status_patch(status, resize.resized(status, size))
                await self._finish(claim, stored, done)
                return
        awaiting = resize.status_patch(status, resize.awaiting_node(status, now))
        problem = f"error marking pvc {key} for node expansion: "
        await self._patch(CLAIMS, claim, stored, awaiting, problem)
        await self._keep_capacity(claim, volume)

    async def _finish(
        self, claim: PersistentVolumeClaim, stored: PersistentVolumeClaim, done: JSON
    ) -> None:
        key = key_of(claim)
        problem = f"error marking pvc {key} as resized: "
        await self._patch(CLAIMS, claim, stored, done, problem)
        text = f"ExpandVolume succeeded for volume {key}"
        self.recorder.event(CLAIMS, claim, NORMAL, "VolumeResizeSuccessful", text)

    async def _keep_capacity(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> None:
        """Store the capacity in the volume's annotation; a block volume needs none."""
        metadata = volume.metadata
        is_marked = PRE_RESIZE_CAPACITY in annotations_of(metadata)
        if is_marked or volume.spec.volume_mode == _BLOCK:
            return
        has = str(resize.amount(claim.status.capacity))
        problem = (
            f"error updating pv {metadata.name} annotation ({PRE_RESIZE_CAPACITY}) "
            f"with pre-resize capacity {has}: "
        )
        await self._patch(PERSISTENT_VOLUMES, claim, volume, _mark(has), problem)

    async def _patch(
        self,
        resource: Resource[ObjectT],
        claim: PersistentVolumeClaim,
        stored: ObjectT,
        patch: JSON,
        problem: str,
        reason: str = _FAILED,
    ) -> ObjectT:
        """Patch the volume, or the claim's status and metadata.

        `stored` is its last known version. An event about the claim reports a failure,
        except a conflict.
        """
        seen = stored.metadata
        version = {"resourceVersion": seen.resource_version, "uid": seen.uid}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        where = (seen.namespace, seen.name)
        subresource = "status" if resource.plural == CLAIMS.plural else ""
        try:
            return await self.client.patch(
                resource, *where, patch, PatchType.MERGE, subresource
            )
        except APIError as error:
            if not is_conflict(error):
                self.recorder.event(CLAIMS, claim, WARNING, reason, f"{problem}{error}")
            raise


def _annotation(claim: PersistentVolumeClaim, resizer: str) -> JSON:
    if annotations_of(claim.metadata).get(RESIZER) == resizer:
        return {}
    return {"metadata": {"annotations": {RESIZER: resizer}}}


def _mark(capacity: str | None) -> JSON:
    return {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: capacity}}}
