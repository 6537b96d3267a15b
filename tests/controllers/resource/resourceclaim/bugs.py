"""Deliberate bugs of the resource claim controller."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.resource.resourceclaim import reservations
from controller_manager.controllers.resource.resourceclaim.controller import (
    ResourceClaimController,
)
from controller_manager.controllers.resource.resourceclaim.creation import ClaimCreator
from controller_manager.controllers.resource.resourceclaim.reservations import Release
from tests.simulation.planted import Bug


async def _never(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> None:
    return None


async def _believe(_: ResourceClaimController, cached: Pod) -> Pod:
    return cached


BUGS: Final[Mapping[str, Bug]] = {
    "take a claim from a pod that the cache does not show": Bug(
        0, ResourceClaimController, "_is_stored", _never, "watch-of-pods-is-silent"
    ),
    "reserve a claim for the pod that the cache shows": Bug(
        0, ResourceClaimController, "_read_pod", _believe, "watch-of-pods-is-silent"
    ),
    "do not look at the claims of pods that have ended": Bug(
        0, ResourceClaimController, "_release", _nothing, "pod-ends-and-stays"
    ),
    "do not find a claim by its owner": Bug(
        2, ClaimCreator, "claim_name_for", _nothing
    ),
    "give nothing back": Bug(
        0,
        reservations,
        "release",
        lambda *_: Release(),
        "consumer-goes-while-no-manager-runs",
    ),
}
