"""Which claims and volumes use a class of attributes (vac_protection_controller.go)."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.control.live_use import Users
from controller_manager.informers.indexes import Index


def classes_of_claim(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Return the classes that a claim uses: those it wants, has, and changes to.

    Upstream: getPVCReferencedVACNames.
    """
    status = claim.status
    target = status.modify_volume_status
    names = (
        claim.spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        target and target.target_volume_attributes_class_name,
    )
    return tuple(dict.fromkeys(name for name in names if name))


def classes_of_volume(volume: PersistentVolume) -> tuple[str, ...]:
    """Return the class that a volume has, if it has one (getPVReferencedVACNames)."""
    name = volume.spec.volume_attributes_class_name
    return (name,) if name else ()


def _claims_use_the_same(
    old: PersistentVolumeClaim, new: PersistentVolumeClaim
) -> bool:
    # Nothing is decoded for a change of the metadata.
    if (old.raw_spec, old.raw_status) == (new.raw_spec, new.raw_status):
        return True
    return classes_of_claim(old) == classes_of_claim(new)


def _volumes_use_the_same(old: PersistentVolume, new: PersistentVolume) -> bool:
    if old.raw_spec == new.raw_spec:
        return True
    return classes_of_volume(old) == classes_of_volume(new)


CLAIMS_BY_CLASS: Final = Index(
    "attributes class", classes_of_claim, _claims_use_the_same
)
VOLUMES_BY_CLASS: Final = Index(
    "attributes class", classes_of_volume, _volumes_use_the_same
)

USERS: Final = (
    Users(CLAIMS, classes_of_claim),
    Users(PERSISTENT_VOLUMES, classes_of_volume),
)
