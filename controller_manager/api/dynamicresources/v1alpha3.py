"""resource.k8s.io/v1alpha3: questions about how many devices are available."""

from controller_manager.api.conditions import Condition
from controller_manager.api.dynamicresources.v1 import GROUP
from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource


class ResourcePoolStatusRequestSpec(APIStruct, frozen=True):
    """Whose pools are asked about: all of a driver, or one; it never changes."""

    driver: str = ""
    pool_name: str | None = None
    limit: int | None = None


class PoolStatus(APIStruct, frozen=True):
    """The devices of one pool; without numbers if they are not known."""

    driver: str = ""
    pool_name: str = ""
    generation: int = 0
    resource_slice_count: int | None = None
    total_devices: int | None = None
    allocated_devices: int | None = None
    available_devices: int | None = None
    unavailable_devices: int | None = None
    node_name: str | None = None
    validation_error: str | None = None


class ResourcePoolStatusRequestStatus(APIStruct, frozen=True):
    """The answer; `pool_count` also counts pools beyond the limit of the request."""

    pool_count: int | None = None
    pools: tuple[PoolStatus, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class ResourcePoolStatusRequest(CompleteObject, frozen=True):
    """A question about the devices of a driver; it is answered once."""

    spec: ResourcePoolStatusRequestSpec = ResourcePoolStatusRequestSpec()
    status: ResourcePoolStatusRequestStatus | None = None


RESOURCE_POOL_STATUS_REQUESTS: Resource[ResourcePoolStatusRequest] = Resource(
    GROUP,
    "v1alpha3",
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    ResourcePoolStatusRequest,
    namespaced=False,
)
