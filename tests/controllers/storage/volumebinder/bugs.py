"""Deliberate bugs of the binder of volumes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controller_manager.api.core import volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder import (
    binding,
    volume_sync,
)
from controller_manager.controllers.storage.volumebinder.assume_cache import (
    STATUS,
    AssumeCache,
)
from controller_manager.controllers.storage.volumebinder.binding import (
    claim_bound_to,
    claim_of_volume,
    volume_bound_to,
    volume_in_phase,
)
from controller_manager.controllers.storage.volumebinder.controller import VolumeBinder
from controller_manager.controllers.storage.volumebinder.matching import (
    VolumeIndex,
    kind_of_claim,
    kind_of_volume,
)
from controller_manager.controllers.storage.volumebinder.volume_sync import VolumeSync
from controller_manager.runtime.outcome import DONE, Outcome
from tests.simulation.planted import Bug


def _compare_names_only(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Take a volume of an earlier claim of the same name."""
    reference = volume.spec.claim_ref
    wanted = claim.metadata
    return reference is not None and (reference.namespace, reference.name) == (
        wanted.namespace,
        wanted.name,
    )


def _take_any_volume(
    index: VolumeIndex, claim: PersistentVolumeClaim, _: Callable[[str], bool]
) -> PersistentVolume | None:
    """Give volumes of other claims away."""
    wanted = kind_of_claim(claim)
    for name in "v", "v-00":
        found = index._volumes.get(name)
        if found is not None and kind_of_volume(found) == wanted:
            return found
    return None


async def _claim_first(
    binder: VolumeBinder, claim: PersistentVolumeClaim, volume: PersistentVolume
) -> bool:
    """Write the claim before the volume, which another claim may get meanwhile."""
    if (naming := claim_bound_to(claim, volume)) is not None:
        await binder._update(naming)
    elif (complete := claim_of_volume(claim, volume)) is not None:
        await binder._update(complete, STATUS)
    elif (bound := volume_bound_to(volume, claim)) is not None:
        await binder._volumes.update(bound)
    elif (in_phase := volume_in_phase(volume, volumes.BOUND)) is not None:
        await binder._volumes.update(in_phase, STATUS)
    else:
        return False
    return True


def _trust_the_cache(*_: object) -> bool:
    return False


def _assume_nothing(_: AssumeCache[Any], __: Any) -> None:
    return None


async def _keep_released(_: VolumeSync, __: PersistentVolume) -> Outcome:
    return DONE


async def _believe_the_cache(_: AssumeCache[Any], __: str) -> bool:
    return True


def _enqueue_no_volume(_: VolumeBinder, __: PersistentVolumeClaim) -> None:
    return None


BUGS: Final[Mapping[str, Bug]] = {
    "take the volume of a namesake": Bug(
        0,
        binding,
        "is_reserved_for",
        _compare_names_only,
        "namesake-asks-for-a-released-volume",
    ),
    "give away volumes that others have": Bug(
        0,
        VolumeIndex,
        "smallest",
        _take_any_volume,
        "claims-compete-while-caches-lag",
    ),
    "write the claim first": Bug(
        0,
        VolumeBinder,
        "_continue_binding",
        _claim_first,
        "claims-compete-while-caches-lag",
    ),
    "release volumes without reading the claim": Bug(
        0,
        volume_sync,
        "_must_read",
        _trust_the_cache,
        "provisioned-before-the-claim-is-seen",
    ),
    "forget its own writes": Bug(
        0, AssumeCache, "assume", _assume_nothing, "claims-compete-while-caches-lag"
    ),
    "release no volume": Bug(
        0,
        VolumeSync,
        "_release",
        _keep_released,
        "claim-is-gone-before-its-volume-is-bound",
    ),
    "lose claims without reading the volume": Bug(
        0,
        AssumeCache,
        "is_current",
        _believe_the_cache,
        "bound-before-the-volume-is-seen",
    ),
    "miss that a claim is gone": Bug(
        0,
        VolumeBinder,
        "_enqueue_volumes_of",
        _enqueue_no_volume,
        "namesake-asks-for-a-released-volume",
    ),
}
