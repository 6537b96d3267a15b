"""Deliberate bugs of the protection of groups."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.control.protection import LiveUse
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    PodGroupProtectionReconciler,
)
from tests.simulation.planted import Bug


async def _never(*_: Any) -> bool:
    return False


BUGS: Final[Mapping[str, Bug]] = {
    "release groups without asking the API server": Bug(
        0,
        LiveUse,
        "is_used",
        _never,
        "pod-of-a-group-that-the-cache-does-not-show",
    ),
    "ignore the deletion of a pod in a group": Bug(
        0,
        PodGroupProtectionReconciler,
        "watches",
        PodGroupProtectionReconciler.watches[:1],
        "pod-that-leaves-a-deleted-group",
    ),
}
