"""resource.k8s.io/v1: claims to devices, and the classes of devices."""

from typing import Final

from msgspec import field

from controller_manager.api.meta import APIStruct, PartialMetadata, Projection
from controller_manager.api.resource import Resource

GROUP: Final = "resource.k8s.io"

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that stands for the extended resources of a pod."""


class ResourceClaimAnnotations(APIStruct, frozen=True):
    """The only annotation of a resource claim that controllers read."""

    extended_resource_claim: str | None = field(
        default=None, name=EXTENDED_RESOURCE_CLAIM
    )


class ResourceClaimMeta(PartialMetadata, frozen=True):
    """The metadata of a resource claim that controllers read."""

    annotations: ResourceClaimAnnotations | None = None


class DeviceCount(APIStruct, frozen=True):
    """How many devices of a class are wanted: ExactCount, or All that fit."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0


class DeviceRequest(APIStruct, frozen=True):
    """One request of a claim: exactly this, or the first of these that is there."""

    exactly: DeviceCount | None = None
    first_available: tuple[DeviceCount, ...] | None = None


class DeviceClaim(APIStruct, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] | None = None


class ResourceClaimSpec(APIStruct, frozen=True):
    """The fields of a resource claim's spec that controllers read."""

    devices: DeviceClaim | None = None


class ResourceClaim(Projection, frozen=True):
    """A projection of a claim to devices."""

    metadata: ResourceClaimMeta = ResourceClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class DeviceClassSpec(APIStruct, frozen=True):
    """The fields of a device class's spec that controllers read."""

    extended_resource_name: str | None = None


class DeviceClass(Projection, frozen=True):
    """A projection of a class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


RESOURCE_CLAIMS: Resource[ResourceClaim] = Resource(
    GROUP, "v1", "resourceclaims", "ResourceClaim", ResourceClaim
)


DEVICE_CLASSES: Resource[DeviceClass] = Resource(
    GROUP, "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False
)
