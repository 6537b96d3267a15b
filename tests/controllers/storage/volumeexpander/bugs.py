"""Deliberate bugs of the expander of volumes."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.controllers.storage.volumeexpander.controller import (
    VolumeExpanderReconciler,
    is_bound,
)
from controller_manager.runtime.watches import For
from tests.simulation.planted import Bug


async def _nothing(*_: Any) -> None:
    return None


def _has_more(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Sync a claim when it has more, not when it requests more."""
    return old.status.capacity != new.status.capacity


BUGS: Final[Mapping[str, Bug]] = {
    "do not keep the capacity of a file system": Bug(
        0,
        VolumeExpanderReconciler,
        "_keep_capacity",
        _nothing,
        "volume-that-a-kubelet-expands",
    ),
    "do not name the resizer of a migrated volume": Bug(
        0,
        VolumeExpanderReconciler,
        "_name_resizer",
        _nothing,
        "volume-of-a-migrated-plugin",
    ),
    "miss that a claim requests more": Bug(
        0,
        VolumeExpanderReconciler,
        "watches",
        (For(CLAIMS, when=is_bound, when_changed=_has_more),),
        "volume-that-a-kubelet-expands",
    ),
}
