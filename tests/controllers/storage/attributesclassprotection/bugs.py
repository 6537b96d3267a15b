"""Deliberate bugs of the protection of classes of attributes."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.control.live_use import LiveUse
from controller_manager.controllers.storage.attributesclassprotection import (
    reconciler,
)
from tests.simulation.planted import Bug


async def _never(*_: Any) -> bool:
    return False


BUGS: Final[Mapping[str, Bug]] = {
    "let a class of attributes go by what the cache shows": Bug(
        0, LiveUse, "is_used", _never, "class-of-an-unseen-claim"
    ),
    "do not look at classes when a volume is gone": Bug(
        0,
        reconciler.AttributesClassProtectionReconciler,
        "watches",
        reconciler.AttributesClassProtectionReconciler.watches[:2],
        "class-of-a-volume",
    ),
    "do not look at classes when a claim is gone": Bug(
        0,
        reconciler.AttributesClassProtectionReconciler,
        "watches",
        reconciler.AttributesClassProtectionReconciler.watches[::2],
        "class-of-an-unseen-claim",
    ),
}
