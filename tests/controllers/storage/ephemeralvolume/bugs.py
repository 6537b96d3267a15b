"""Deliberate bugs of the controller of ephemeral volumes."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod, PodVolume
from controller_manager.api.meta import KubeObject
from controller_manager.controllers.storage.ephemeralvolume import controller
from controller_manager.controllers.storage.ephemeralvolume.controller import (
    EphemeralVolumeReconciler,
)
from tests.simulation.planted import Bug

_claim_of = controller.claim_of


def _no_conflict(_: KubeObject, __: KubeObject) -> str:
    return ""


def _without_owner(pod: Pod, volume: PodVolume) -> PersistentVolumeClaim:
    claim = _claim_of(pod, volume)
    metadata = replace(claim.metadata, owner_references=None)
    return replace(claim, metadata=metadata)


BUGS: Final[Mapping[str, Bug]] = {
    "do not look at pods when a claim is gone": Bug(
        0,
        EphemeralVolumeReconciler,
        "watches",
        EphemeralVolumeReconciler.watches[:1],
        "claim-that-a-user-deletes",
    ),
    "take a user's claim for an ephemeral volume": Bug(
        0, controller, "conflict", _no_conflict, "claim-of-a-user-has-the-name"
    ),
    "make claims that nobody owns": Bug(
        0, controller, "claim_of", _without_owner, "claim-that-a-user-deletes"
    ),
}
