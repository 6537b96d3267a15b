"""Which claims and volumes use a class of attributes (vac_protection_controller.go)."""

from typing import Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import KubeObject, resource_version_number
from controller_manager.client.client import Client
from controller_manager.informers.indexes import Index
from controller_manager.runtime.outcome import SyncError


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
    return classes_of_claim(old) == classes_of_claim(new)


def _volumes_use_the_same(old: PersistentVolume, new: PersistentVolume) -> bool:
    return classes_of_volume(old) == classes_of_volume(new)


CLAIMS_BY_CLASS: Final = Index(
    "attributes class", classes_of_claim, _claims_use_the_same
)
VOLUMES_BY_CLASS: Final = Index(
    "attributes class", classes_of_volume, _volumes_use_the_same
)


class LiveUse:
    """The classes in use, as the API server has claims and volumes now.

    The lists serve all classes that were deleted before them.
    """

    def __init__(self, client: Client) -> None:
        """Take the client; nothing is listed yet."""
        self._client = client
        self.forget()

    def forget(self) -> None:
        """Drop what the last lists have shown."""
        self._version = 0
        self._used: frozenset[str] = frozenset()

    async def is_used(self, attributes_class: KubeObject) -> bool:
        """Tell whether a claim or a volume uses a class that is being deleted.

        Raises SyncError if the API server answers with lists that are older than the
        deletion.
        """
        metadata = attributes_class.metadata
        deleted = resource_version_number(metadata.resource_version)
        if self._version >= deleted and metadata.name not in self._used:
            return False
        await self._list()
        if self._version < deleted:
            msg = (
                "the API server's claims and volumes are older than the volume "
                f"attributes class {metadata.name}"
            )
            raise SyncError(msg)
        return metadata.name in self._used

    async def _list(self) -> None:
        self.forget()
        used: set[str] = set()
        versions = [0, 0]
        async for claims in self._client.list_all(CLAIMS):
            versions[0] = resource_version_number(claims.resource_version)
            used.update(*map(classes_of_claim, claims.items))
        async for volumes in self._client.list_all(PERSISTENT_VOLUMES):
            versions[1] = resource_version_number(volumes.resource_version)
            used.update(*map(classes_of_volume, volumes.items))
        self._version, self._used = min(versions), frozenset(used)
