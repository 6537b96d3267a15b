"""Deliberate bugs of the expander of volumes."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.controllers.storage.volumeexpander import decide
from controller_manager.controllers.storage.volumeexpander.reconciler import (
    VolumeExpanderReconciler,
    is_bound,
)
from controller_manager.runtime.watches import For
from tests.simulation.planted import Bug


def _nothing(*_: Any) -> tuple[()]:
    return ()


def _has_more(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Sync a claim when it has more, not when it requests more."""
    return old.status.capacity != new.status.capacity


BUGS: Final[Mapping[str, Bug]] = {
    "do not keep the capacity of a file system": Bug(
        0, decide, "_mark", _nothing, "volume-that-a-kubelet-expands"
    ),
    "do not name the resizer of a migrated volume": Bug(
        0, decide, "_named", _nothing, "volume-of-a-migrated-plugin"
    ),
    "miss that a claim requests more": Bug(
        0,
        VolumeExpanderReconciler,
        "watches",
        (For(CLAIMS, when=is_bound, when_changed=_has_more),),
        "volume-that-a-kubelet-expands",
    ),
}
