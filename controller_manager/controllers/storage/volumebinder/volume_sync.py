"""Follows the claims of volumes; reclaims those without (syncVolume, reclaimVolume)."""

from collections.abc import Awaitable, Callable
from typing import Final

from controller_manager.api.core import claims, volumes
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.client.events.recorder import WARNING
from controller_manager.control.csi_migration import DRIVERS
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.workqueue.queue import WorkQueue

from .assume_cache import STATUS, AssumeCache, VolumeLocks
from .binding import MIGRATED_TO, PROVISIONED_BY, is_available, unbound, volume_in_phase
from .matching import kind_of_claim, kind_of_volume
from .metrics import DELETE, NOT_KNOWN, Operations
from .plugins import deletion_problem, migrated_volume, recycling_problem

MAX_STEPS: Final = 16
"""The most steps of one sync. A sync that needs more has a defect."""

_GIVEN_UP: Final = (volumes.RELEASED, volumes.FAILED)
"""The phases of a volume whose claim was found deleted."""


class VolumeSync:
    """The sync of a volume: a row of steps, as that of a claim in `VolumeBinder`."""

    def __init__(
        self,
        context: ControllerContext,
        claim_cache: AssumeCache[PersistentVolumeClaim],
        volume_cache: AssumeCache[PersistentVolume],
        locks: VolumeLocks,
        operations: Operations,
        claim_queue: WorkQueue,
        offer: Callable[[PersistentVolume], None],
        later: Done,
    ) -> None:
        self._claims = claim_cache
        self._volumes = volume_cache
        self._classes = context.lister(STORAGE_CLASSES)
        self._locks = locks
        self._operations = operations
        self._recorder = context.recorder
        self._claim_queue = claim_queue
        self._offer = offer
        self._later = later

    async def sync(self, name: str) -> Outcome:
        """Follow the claim of a volume; reclaim the volume without it (syncVolume)."""
        read: dict[ObjectReference, PersistentVolumeClaim | None] = {}
        async with self._locks.lock(name):
            return await in_steps(name, lambda: self._continue(name, read))

    async def _continue(
        self, key: str, read: dict[ObjectReference, PersistentVolumeClaim | None]
    ) -> Outcome | None:
        """Make one step; `read` has the claims that this sync has read."""
        if (volume := self._volumes.get(key)) is None:
            return DONE
        if (migrated := migrated_volume(volume)) is not None:
            await self._volumes.update(migrated)
            return None
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return await self._make_available(volume)
        if reference in read:
            return await self._follow_claim(volume, read[reference])
        namespace, name = reference.namespace, reference.name
        claim = self._claims.get(f"{namespace}/{name}")
        if not _must_read(volume, reference, claim):
            return await self._follow_claim(volume, claim)
        read[reference] = await self._claims.read(namespace, name)
        return None  # the volume may have got another claim meanwhile

    async def _make_available(self, volume: PersistentVolume) -> Outcome | None:
        """Make a volume without a claim Available, and offer it to a claim."""
        if await self._set_phase(volume, volumes.AVAILABLE):
            return None
        if is_available(volume):
            self._offer(volume)
        return DONE

    async def _follow_claim(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim | None
    ) -> Outcome | None:
        reference = volume.spec.claim_ref
        if claim is None or reference is None or claim.metadata.uid != reference.uid:
            return await self._release(volume)
        name = claim.spec.volume_name
        if not name:
            mode = kind_of_volume(volume).volume_mode
            if kind_of_claim(claim).volume_mode != mode:
                return self._report_other_mode(volume, claim)
            self._claim_queue.add(key_of(claim))
            return DONE
        if name != volume.metadata.name:
            return await self._unbind(volume)
        if await self._set_phase(volume, volumes.BOUND):
            return None
        if claim.status.phase != claims.BOUND:
            self._claim_queue.add(key_of(claim))  # if it was Lost, it is found again
        return DONE

    def _report_other_mode(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> Outcome:
        about_volume = (
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
            f'"{claim.metadata.name}" due to incompatible volumeMode.'
        )
        about_claim = (
            f'Cannot bind PersistentVolume "{volume.metadata.name}" to requested '
            "PersistentVolumeClaim due to incompatible volumeMode."
        )
        event, reason = self._recorder.event, "VolumeMismatch"
        event(PERSISTENT_VOLUMES, volume, WARNING, reason, about_volume)
        event(CLAIMS, claim, WARNING, reason, about_claim)
        return self._later

    async def _unbind(self, volume: PersistentVolume) -> Outcome | None:
        """Unbind a volume whose claim has another one; release a provisioned one."""
        is_provisioned = PROVISIONED_BY in annotations_of(volume.metadata)
        policy = volume.spec.persistent_volume_reclaim_policy
        if is_provisioned and policy == volumes.DELETE:
            return await self._release(volume)
        await self._volumes.update(unbound(volume))
        return None

    async def _release(self, volume: PersistentVolume) -> Outcome | None:
        """Release a volume whose claim is gone, and reclaim it (reclaimVolume).

        A failed volume stays Failed, so that the user sees it.
        """
        if volume.status.phase not in _GIVEN_UP:
            await self._set_phase(volume, volumes.RELEASED)
            return None
        policy = volume.spec.persistent_volume_reclaim_policy
        is_migrated = annotations_of(volume.metadata).get(MIGRATED_TO)
        if is_migrated or policy == volumes.RETAIN:
            return DONE
        if policy == volumes.DELETE:
            return await self._delete(volume)
        if policy == volumes.RECYCLE:
            reason, problem = "VolumeFailedRecycle", recycling_problem(volume)
        else:
            reason = "VolumeUnknownReclaimPolicy"
            problem = "Volume has unrecognized PersistentVolumeReclaimPolicy"
        return None if await self._fail(volume, reason, problem) else DONE

    async def _delete(self, volume: PersistentVolume) -> Outcome | None:
        """Leave a released volume to its provisioner, or fail it (deleteVolume)."""
        name = volume.metadata.name
        problem = deletion_problem(volume)
        if not problem:
            self._operations.begin(name, self._provisioner_of(volume), DELETE)
            return DONE
        if await self._fail(volume, "VolumeFailedDelete", problem):
            return None
        self._operations.begin(name, NOT_KNOWN, DELETE)
        self._operations.fail(name)
        return DONE

    def _provisioner_of(self, volume: PersistentVolume) -> str:
        """Return the provisioner of a volume's class: annotations have any value."""
        found = self._classes.by_key(volumes.storage_class_of(volume))
        if found is None:
            return NOT_KNOWN
        return DRIVERS.get(found.provisioner, found.provisioner)

    async def _fail(self, volume: PersistentVolume, reason: str, problem: str) -> bool:
        """Make a volume Failed, with one event; return False if it is Failed."""
        if not await self._set_phase(volume, volumes.FAILED, problem):
            return False
        self._recorder.event(PERSISTENT_VOLUMES, volume, WARNING, reason, problem)
        return True

    async def _set_phase(
        self, volume: PersistentVolume, phase: str, message: str = ""
    ) -> bool:
        """Bring a volume into a phase; return False if it is in it."""
        phased = volume_in_phase(volume, phase, message)
        if phased is None:
            return False
        await self._volumes.update(phased, STATUS)
        return True


def _must_read(
    volume: PersistentVolume,
    reference: ObjectReference,
    claim: PersistentVolumeClaim | None,
) -> bool:
    """Tell whether the claim must be read from the API server before a release.

    The cache may be older than a binding by a scheduler or a provisioner.
    """
    if not (reference.namespace and reference.name):
        return False  # no claim can be there
    if claim is None:
        return volume.status.phase not in _GIVEN_UP
    return claim.metadata.uid != reference.uid


async def in_steps(key: str, step: Callable[[], Awaitable[Outcome | None]]) -> Outcome:
    """Make the steps of the sync of a key, until one returns the outcome."""
    for _ in range(MAX_STEPS):
        if (outcome := await step()) is not None:
            return outcome
    msg = f"{key}: the sync has not ended after {MAX_STEPS} steps"
    raise RuntimeError(msg)
