"""resource.k8s.io/v1alpha3: requests for the status of resource pools."""

from controller_manager.api.meta import APIStruct, CompleteObject, Condition, Resource

from .v1 import GROUP


class ResourcePoolStatusRequestSpec(APIStruct, frozen=True):
    """The requested pools: all of a driver, or one. The spec never changes."""

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
    """The response; `pool_count` also counts pools beyond the limit of the request."""

    pool_count: int | None = None
    pools: tuple[PoolStatus, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class ResourcePoolStatusRequest(CompleteObject, frozen=True):
    """A request for the status of the pools of a driver; it gets one response."""

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
