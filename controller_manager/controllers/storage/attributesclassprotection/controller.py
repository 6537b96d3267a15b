"""Adds and removes the finalizer of classes (vac_protection_controller.go)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.claims import (
    CLAIMS,
    PersistentVolumeClaim,
    attributes_classes_of,
)
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import VOLUME_ATTRIBUTES_CLASSES as CLASSES
from controller_manager.api.storage.v1 import VolumeAttributesClass
from controller_manager.control.protection import (
    LiveProtectionReconciler,
    Protection,
    Users,
)
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.watches import For, Maps

FINALIZER: Final = "kubernetes.io/vac-protection"

PROTECTION: Final = Protection(FINALIZER)


def classes_of_volume(volume: PersistentVolume) -> tuple[str, ...]:
    """Return the class of a volume, if it has one (getPVReferencedVACNames)."""
    name = volume.spec.volume_attributes_class_name
    return (name,) if name else ()


def _claims_use_the_same(
    old: PersistentVolumeClaim, new: PersistentVolumeClaim
) -> bool:
    # A change of the metadata needs no decoding.
    if (old.raw_spec, old.raw_status) == (new.raw_spec, new.raw_status):
        return True
    return attributes_classes_of(old) == attributes_classes_of(new)


CLAIMS_BY_CLASS: Final = Index(
    "attributes class", attributes_classes_of, _claims_use_the_same
)
VOLUMES_BY_CLASS: Final = Index(
    "attributes class",
    classes_of_volume,
    lambda old, new: (
        old.raw_spec == new.raw_spec or classes_of_volume(old) == classes_of_volume(new)
    ),
)

USERS: Final = (
    Users(CLAIMS, attributes_classes_of),
    Users(PERSISTENT_VOLUMES, classes_of_volume),
)


def needs_work(attributes_class: VolumeAttributesClass) -> bool:
    """Tell whether a class lacks the finalizer, or is deleted and has it."""
    return not PROTECTION.is_settled(attributes_class)


class AttributesClassProtectionReconciler(
    LiveProtectionReconciler[VolumeAttributesClass]
):
    """Keeps deleted classes of attributes until no claim and no volume uses them.

    Before the finalizer is removed, claims and volumes are listed from the API server:
    a cache may not show yet that an object began to use the class.
    """

    queue_name = "vacprotection"
    protection = PROTECTION
    users = USERS

    def _held_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        return filter(self._is_held, attributes_classes_of(claim))

    def _held_of_volume(self, volume: PersistentVolume) -> Iterable[str]:
        return filter(self._is_held, classes_of_volume(volume))

    watches = (
        For(CLASSES, when=needs_work),
        Maps(CLAIMS, _held_of_claim, on=("update", "delete")),
        Maps(PERSISTENT_VOLUMES, _held_of_volume, on=("update", "delete")),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = context.lister(CLAIMS, CLAIMS_BY_CLASS)
        self._volumes = context.lister(PERSISTENT_VOLUMES, VOLUMES_BY_CLASS)

    def _is_held(self, name: str) -> bool:
        found = self.objects.get("", name)
        return found is not None and PROTECTION.holds(found)

    async def reconcile(self, attributes_class: VolumeAttributesClass) -> Outcome:
        """Add the finalizer, or remove it if nothing uses the deleted class."""
        if not needs_work(attributes_class):
            return DONE
        name = attributes_class.metadata.name
        if is_deleting(attributes_class):
            if self._is_seen_in_use(name):
                self.logger.v(4).info("Keeping VAC because it is being used", VAC=name)
                return DONE
            await self.check_unused(attributes_class)
        await PROTECTION.settle(self.client, CLASSES, attributes_class)
        self.logger.v(3).info(
            "Changed the finalizers of VAC",
            VAC=name,
            finalizers=PROTECTION.finalizers_of(attributes_class),
        )
        return DONE

    def _is_seen_in_use(self, name: str) -> bool:
        volumes = self._volumes.count(VOLUMES_BY_CLASS, name)
        return bool(volumes or self._claims.count(CLAIMS_BY_CLASS, name))
