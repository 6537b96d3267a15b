"""Deliberate bugs of the binder of volumes."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core import volumes
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder import (
    changes,
    claim_steps,
    matching,
    volume_steps,
)
from controller_manager.controllers.storage.volumebinder.assumed import AssumedObjects
from controller_manager.controllers.storage.volumebinder.controller import VolumeBinder
from controller_manager.controllers.storage.volumebinder.steps import (
    SETTLED,
    STATUS,
    Step,
    Write,
)
from controller_manager.controllers.storage.volumebinder.volume_steps import FoundClaim
from tests.simulation.planted import Bug


def _compare_names_only(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> bool:
    """Take a volume of an earlier claim of the same name."""
    reference = volume.spec.claim_ref
    wanted = claim.metadata
    return reference is not None and (reference.namespace, reference.name) == (
        wanted.namespace,
        wanted.name,
    )


def _take_any_volume(volume: PersistentVolume) -> bool:
    """Give away volumes that are released, too."""
    return volume.status.phase in (volumes.AVAILABLE, volumes.RELEASED)


def _claim_first(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Step:
    """Write the claim before the volume, which another claim may get meanwhile."""
    name = volume.metadata.name
    if (naming := changes.claim_bound_to(claim, volume)) is not None:
        return Write(naming, volume=name)
    if (complete := changes.claim_of_volume(claim, volume)) is not None:
        return Write(complete, STATUS, volume=name)
    if (bound := changes.volume_bound_to(volume, claim)) is not None:
        return Write(bound, volume=name)
    if (in_phase := changes.volume_in_phase(volume, volumes.BOUND)) is not None:
        return Write(in_phase, STATUS, volume=name)
    return SETTLED


def _trust_the_cache(_: PersistentVolume, __: FoundClaim) -> bool:
    return False


def _assume_nothing(_: AssumedObjects[Any], __: Any) -> None:
    return None


def _keep_released(_: PersistentVolume) -> Step:
    return SETTLED


def _wake_nobody(_: VolumeBinder, __: PersistentVolumeClaim) -> None:
    return None


BUGS: Final[Mapping[str, Bug]] = {
    "take the volume of a namesake": Bug(
        0,
        claim_steps,
        "is_reserved_for",
        _compare_names_only,
        "volume-is-taken-over-by-force",
    ),
    "give away volumes that others had": Bug(
        1, matching, "is_available", _take_any_volume
    ),
    "write the claim first": Bug(1, claim_steps, "bind", _claim_first),
    "release volumes by what the cache shows": Bug(
        1, volume_steps, "_must_read", _trust_the_cache
    ),
    "forget the own writes": Bug(1, AssumedObjects, "assume", _assume_nothing),
    "release no volume": Bug(1, volume_steps, "_released", _keep_released),
    "miss that a claim is gone": Bug(1, VolumeBinder, "_wake_volumes", _wake_nobody),
}
