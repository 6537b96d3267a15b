"""Deliberate bugs of the protection of classes of attributes."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.control.protection import LiveUse
from controller_manager.controllers.storage.attributesclassprotection import controller
from tests.simulation.planted import Bug


async def _never(*_: Any) -> bool:
    return False


BUGS: Final[Mapping[str, Bug]] = {
    "release classes of attributes without asking the API server": Bug(
        0, LiveUse, "is_used", _never, "class-of-an-unseen-claim"
    ),
    "ignore the deletion of a volume with an attributes class": Bug(
        0,
        controller.AttributesClassProtectionReconciler,
        "watches",
        controller.AttributesClassProtectionReconciler.watches[:2],
        "class-of-a-volume",
    ),
    "ignore the deletion of a claim with an attributes class": Bug(
        0,
        controller.AttributesClassProtectionReconciler,
        "watches",
        controller.AttributesClassProtectionReconciler.watches[::2],
        "class-of-an-unseen-claim",
    ),
}
