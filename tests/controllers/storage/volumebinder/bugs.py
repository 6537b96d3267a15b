"""Deliberate bugs of the binder of volumes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controller_manager.api.core import volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder import (
    binding,
    sync_claim,
    sync_volume,
)
from controller_manager.controllers.storage.volumebinder.actions import (
    SETTLED,
    STATUS,
    Action,
    Write,
)
from controller_manager.controllers.storage.volumebinder.assume_cache import AssumeCache
from controller_manager.controllers.storage.volumebinder.controller import (
    ChangeHandlers,
    VolumeBinder,
)
from controller_manager.controllers.storage.volumebinder.matching import (
    VolumeIndex,
    kind_of_claim,
    kind_of_volume,
)
from controller_manager.controllers.storage.volumebinder.view import FoundClaim
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


def _claim_first(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Action:
    """Write the claim before the volume, which another claim may get meanwhile."""
    name = volume.metadata.name
    if (naming := binding.claim_bound_to(claim, volume)) is not None:
        return Write(naming, volume=name)
    if (complete := binding.claim_of_volume(claim, volume)) is not None:
        return Write(complete, STATUS, volume=name)
    if (bound := binding.volume_bound_to(volume, claim)) is not None:
        return Write(bound, volume=name)
    if (in_phase := binding.volume_in_phase(volume, volumes.BOUND)) is not None:
        return Write(in_phase, STATUS, volume=name)
    return SETTLED


def _trust_the_cache(_: PersistentVolume, __: FoundClaim) -> bool:
    return False


def _assume_nothing(_: AssumeCache[Any], __: Any) -> None:
    return None


def _keep_released(_: PersistentVolume) -> Action:
    return SETTLED


async def _believe_the_cache(_: VolumeBinder, __: str) -> bool:
    return True


def _enqueue_no_volume(_: ChangeHandlers, __: PersistentVolumeClaim) -> None:
    return None


BUGS: Final[Mapping[str, Bug]] = {
    "take the volume of a namesake": Bug(
        0,
        sync_claim,
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
        0, sync_claim, "bind", _claim_first, "claims-compete-while-caches-lag"
    ),
    "release volumes without reading the claim": Bug(
        0,
        sync_volume,
        "_must_read",
        _trust_the_cache,
        "provisioned-before-the-claim-is-seen",
    ),
    "forget its own writes": Bug(
        0, AssumeCache, "assume", _assume_nothing, "claims-compete-while-caches-lag"
    ),
    "release no volume": Bug(
        0,
        sync_volume,
        "_released",
        _keep_released,
        "claim-is-gone-before-its-volume-is-bound",
    ),
    "lose claims without reading the volume": Bug(
        0,
        VolumeBinder,
        "_is_current",
        _believe_the_cache,
        "bound-before-the-volume-is-seen",
    ),
    "miss that a claim is gone": Bug(
        0,
        ChangeHandlers,
        "_enqueue_volumes_of",
        _enqueue_no_volume,
        "namesake-asks-for-a-released-volume",
    ),
}
