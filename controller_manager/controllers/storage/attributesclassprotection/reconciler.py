"""Adds and removes the finalizer of classes (vac_protection_controller.go)."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import (
    VOLUME_ATTRIBUTES_CLASSES,
    VolumeAttributesClass,
)
from controller_manager.control.live_use import LiveUse
from controller_manager.control.protection import Protection
from controller_manager.controllers.storage.attributesclassprotection.use import (
    CLAIMS_BY_CLASS,
    USERS,
    VOLUMES_BY_CLASS,
    classes_of_claim,
    classes_of_volume,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

FINALIZER: Final = "kubernetes.io/vac-protection"

PROTECTION: Final = Protection(FINALIZER)
WAITING: Final = PROTECTION.waiting


def needs_work(attributes_class: VolumeAttributesClass) -> bool:
    """Tell whether a class may lack the finalizer, or have it for too long."""
    return not PROTECTION.is_settled(attributes_class)


class AttributesClassProtectionReconciler(Reconciler[VolumeAttributesClass]):
    """Keeps deleted classes of attributes until no claim and no volume uses them.

    Before the finalizer is removed, claims and volumes are listed from the API server:
    a cache may not show yet that one began to use the class.
    """

    queue_name = "vacprotection"

    def _held_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        """Return the classes of a claim that wait to be deleted."""
        return filter(self._is_held, classes_of_claim(claim))

    def _held_of_volume(self, volume: PersistentVolume) -> Iterable[str]:
        """Return the class of a volume if it waits to be deleted."""
        return filter(self._is_held, classes_of_volume(volume))

    watches = (
        For(VOLUME_ATTRIBUTES_CLASSES, when=needs_work),
        Maps(CLAIMS, _held_of_claim, on=("update", "delete")),
        Maps(PERSISTENT_VOLUMES, _held_of_volume, on=("update", "delete")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index claims and volumes by their classes."""
        super().__init__(context)
        self._claims = context.lister(CLAIMS, CLAIMS_BY_CLASS)
        self._volumes = context.lister(PERSISTENT_VOLUMES, VOLUMES_BY_CLASS)
        waiting = context.lister(VOLUME_ATTRIBUTES_CLASSES, WAITING)
        self._live = LiveUse(context, partial(waiting.by_index, WAITING), *USERS)

    def _is_held(self, name: str) -> bool:
        found = self.objects.get("", name)
        return found is not None and PROTECTION.holds(found)

    async def reconcile(self, attributes_class: VolumeAttributesClass) -> Outcome:
        """Give the class its finalizer, or take it if nothing uses the class."""
        if not needs_work(attributes_class):
            return DONE
        name = attributes_class.metadata.name
        if is_deleting(attributes_class):
            if self._is_seen_in_use(name):
                self.logger.v(4).info("Keeping VAC because it is being used", VAC=name)
                return DONE
            await self._check_unused(attributes_class)
        await PROTECTION.settle(
            self.client, VOLUME_ATTRIBUTES_CLASSES, attributes_class
        )
        self.logger.v(3).info(
            "Changed the finalizers of VAC",
            VAC=name,
            finalizers=PROTECTION.finalizers_of(attributes_class),
        )
        return DONE

    def _is_seen_in_use(self, name: str) -> bool:
        return bool(
            self._volumes.count(VOLUMES_BY_CLASS, name)
            or self._claims.count(CLAIMS_BY_CLASS, name)
        )

    async def _check_unused(self, attributes_class: VolumeAttributesClass) -> None:
        is_used = await self._live.is_used(attributes_class)
        if not len(self.queue):
            self._live.forget()
        if is_used:
            # The change by which the class becomes unused may be past.
            name = attributes_class.metadata.name
            msg = f"the volume attributes class {name} is used, and no cache shows it"
            raise SyncError(msg)
