"""Deliberate bugs of the protection of groups."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.control.live_use import LiveUse
from controller_manager.controllers.scheduling.podgroupprotection.reconciler import (
    PodGroupProtectionReconciler,
)
from tests.simulation.planted import Bug


async def _never(*_: Any) -> bool:
    return False


BUGS: Final[Mapping[str, Bug]] = {
    "let a group go by what the cache shows": Bug(
        0,
        LiveUse,
        "is_used",
        _never,
        "pod-of-a-group-that-the-cache-does-not-show",
    ),
    "do not look at groups when a pod is gone": Bug(
        0,
        PodGroupProtectionReconciler,
        "watches",
        PodGroupProtectionReconciler.watches[:1],
        "pod-that-leaves-a-deleted-group",
    ),
}
