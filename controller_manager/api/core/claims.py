"""core/v1: persistent volume claims, as the controllers read them."""

from typing import Final

from msgspec import field

from controller_manager.api.core.compute import ResourceRequirements
from controller_manager.api.meta import APIStruct, PartialMetadata, Projection
from controller_manager.api.resource import Resource

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the class before there was a field; it still wins."""


class ClaimAnnotations(APIStruct, frozen=True):
    """The only annotation of a claim that controllers read."""

    storage_class: str | None = field(default=None, name=BETA_STORAGE_CLASS)


class ClaimMeta(PartialMetadata, frozen=True):
    """The metadata of a claim that controllers read."""

    annotations: ClaimAnnotations | None = None


class ClaimSpec(APIStruct, frozen=True):
    """The fields of a claim's spec that controllers read."""

    resources: ResourceRequirements | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(APIStruct, frozen=True):
    """The volume attributes class that a volume is being changed to."""

    target_volume_attributes_class_name: str = ""


class ClaimStatus(APIStruct, frozen=True):
    """The fields of a claim's status that controllers read."""

    allocated_resources: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class Claim(Projection, frozen=True):
    """A projection of a persistent volume claim."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


CLAIMS: Resource[Claim] = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", Claim
)
"""The claims in caches; `PERSISTENT_VOLUME_CLAIMS` are complete, to be written."""
