"""Deliberate bugs of the protection of volumes."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import KubeObject
from controller_manager.control.protection import Protection
from controller_manager.controllers.storage.volumeprotection import controller
from controller_manager.controllers.storage.volumeprotection.controller import (
    FINALIZER,
    VolumeProtectionReconciler,
    needs_work,
)
from controller_manager.runtime.watches import For
from tests.simulation.planted import Bug


class _OnlyRelease(Protection):
    """Does not restore the finalizers of volumes."""

    def is_settled(self, obj: KubeObject) -> bool:
        return not self.holds(obj)


def _is_free(_: PersistentVolume) -> bool:
    return False


def _was_deleted(old: PersistentVolume, new: PersistentVolume) -> bool:
    """Look at a volume only when its metadata change."""
    return old.raw_status == new.raw_status


BUGS: Final[Mapping[str, Bug]] = {
    "let volumes go while they are bound": Bug(
        0, controller, "is_used", _is_free, "deleted-volume-that-is-released"
    ),
    "restore no finalizer of volumes": Bug(
        0,
        controller,
        "PROTECTION",
        _OnlyRelease(FINALIZER),
        "volume-that-loses-its-finalizer",
    ),
    "miss that a volume is released": Bug(
        0,
        VolumeProtectionReconciler,
        "watches",
        (For(PERSISTENT_VOLUMES, when=needs_work, when_changed=_was_deleted),),
        "deleted-volume-that-is-released",
    ),
}
