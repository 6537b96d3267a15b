"""Deliberate bugs of the SELinux warning controller."""

from collections.abc import Mapping
from typing import Final

from controller_manager.controllers.storage.selinuxwarning.controller import (
    SELinuxWarningReconciler,
)
from tests.simulation.planted import Bug

_BOUND_LATE: Final = "claim-is-bound-after-its-pods-are-seen"

BUGS: Final[Mapping[str, Bug]] = {
    "do not look at pods when a claim or a volume comes": Bug(
        0,
        SELinuxWarningReconciler,
        "watches",
        SELinuxWarningReconciler.watches[:1],
        _BOUND_LATE,
    ),
    "do not know which drivers mount labels": Bug(
        0, SELinuxWarningReconciler, "_mounts_labels", lambda *_: False, _BOUND_LATE
    ),
}
