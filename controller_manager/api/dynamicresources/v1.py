"""resource.k8s.io/v1: claims to devices, and the classes of devices."""

from typing import Final

from msgspec import Raw, field
from msgspec.structs import force_setattr

from controller_manager.api.meta import APIStruct, PartialMetadata, Projection, Resource

GROUP: Final = "resource.k8s.io"

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that stands for the extended resources of a pod."""


POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim that was made from a template: the name of the entry of
``spec.resourceClaims`` in the pod.
"""

DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has been allocated."""


class ResourceClaimAnnotations(APIStruct, frozen=True):
    """The only annotations of a resource claim that controllers read."""

    extended_resource_claim: str | None = field(
        default=None, name=EXTENDED_RESOURCE_CLAIM
    )
    pod_claim_name: str | None = field(default=None, name=POD_CLAIM_NAME)


class ResourceClaimMeta(PartialMetadata, frozen=True):
    """The metadata of a resource claim that controllers read."""

    annotations: ResourceClaimAnnotations | None = None


class DeviceCount(APIStruct, frozen=True):
    """A number of devices of a class: ExactCount, or All that fit."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0


class ExactDeviceRequest(DeviceCount, frozen=True):
    """A request without alternatives; only such a request may ask for admin access."""

    admin_access: bool | None = None


class DeviceRequest(APIStruct, frozen=True):
    """One request of a claim: exactly this one, or the first available alternative."""

    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceCount, ...] | None = None


class DeviceClaim(APIStruct, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] | None = None


class ResourceClaimSpec(APIStruct, frozen=True):
    """The fields of a resource claim's spec that controllers read."""

    devices: DeviceClaim | None = None


class DeviceTaint(APIStruct, frozen=True):
    """A taint of a device; only claims that tolerate it may use the device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class DeviceToleration(APIStruct, frozen=True):
    """The taints of devices that a claim tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class AllocatedDevice(APIStruct, frozen=True):
    """A device that was allocated for a claim (DeviceRequestAllocationResult)."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    tolerations: tuple[DeviceToleration, ...] | None = None


class DeviceAllocation(APIStruct, frozen=True):
    """The devices that were allocated for a claim."""

    results: tuple[AllocatedDevice, ...] | None = None


class Allocation(APIStruct, frozen=True):
    """The allocation of a claim."""

    devices: DeviceAllocation = DeviceAllocation()


class ClaimConsumer(APIStruct, frozen=True):
    """An object that may use a claim, in the claim's namespace."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(APIStruct, frozen=True):
    """The fields of a resource claim's status that controllers read."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] | None = None


class ResourceClaim(Projection, frozen=True):
    """A projection of a claim to devices."""

    metadata: ResourceClaimMeta = ResourceClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class TemplateMeta(APIStruct, frozen=True):
    """The metadata of the claims that a template makes: labels and annotations only."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ResourceClaimTemplateSpec(APIStruct, frozen=True):
    """The content of the claims; their spec is kept as bytes, not decoded."""

    metadata: TemplateMeta = TemplateMeta()
    spec: Raw = Raw(b"{}")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "spec", self.spec.copy())


class ResourceClaimTemplate(Projection, frozen=True):
    """A projection of a template, from which claims are made for pods."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ResourcePool(APIStruct, frozen=True):
    """The pool of a slice; only the slices of its highest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class Device(APIStruct, frozen=True):
    """The fields of a device that controllers read."""

    name: str = ""
    taints: tuple[DeviceTaint, ...] | None = None


class ResourceSliceSpec(APIStruct, frozen=True):
    """The fields of a resource slice's spec that controllers read."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    devices: tuple[Device, ...] | None = None


class ResourceSlice(Projection, frozen=True):
    """A projection of some devices of a pool, as their driver publishes them."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(APIStruct, frozen=True):
    """The fields of a device class's spec that controllers read."""

    extended_resource_name: str | None = None


class DeviceClass(Projection, frozen=True):
    """A projection of a class of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


RESOURCE_CLAIMS: Resource[ResourceClaim] = Resource(
    GROUP, "v1", "resourceclaims", "ResourceClaim", ResourceClaim
)


RESOURCE_CLAIM_TEMPLATES: Resource[ResourceClaimTemplate] = Resource(
    GROUP,
    "v1",
    "resourceclaimtemplates",
    "ResourceClaimTemplate",
    ResourceClaimTemplate,
)


DEVICE_CLASSES: Resource[DeviceClass] = Resource(
    GROUP, "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False
)


RESOURCE_SLICES: Resource[ResourceSlice] = Resource(
    GROUP, "v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False
)
